"""Playbooks with the contract of Duffy, run by the real Ansible."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from support.waiting import wait_until
from zkdeployment.base.errors import AbandonedError, ProgramError
from zkdeployment.pools.documents import AnsibleMechanism, Playbook
from zkdeployment.pools.mechanisms.ansible import AnsiblePlaybooks, _owner, rendered


@pytest.fixture(autouse=True)
def _own_temporary_files(tmp_path, monkeypatch):
    """Ansible's temporary files go with the test: killed playbooks leave theirs."""
    place = tmp_path / "temporary"
    place.mkdir()
    for variable in ("TMPDIR", "ANSIBLE_HOME", "ANSIBLE_REMOTE_TMP"):
        monkeypatch.setenv(variable, str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.fixture
def run(tmp_path):
    """Run a playbook with the given tasks, its variables and the values of its pool."""

    def run(tasks, extra_vars=None, values=None, nodes=(), **limits):
        lines = textwrap.indent(textwrap.dedent(tasks).strip(), " " * 4)
        (tmp_path / "book.yml").write_text(f"- hosts: localhost\n  gather_facts: false\n  tasks:\n{lines}\n")
        mechanism = AnsibleMechanism(str(tmp_path), Playbook("book.yml", extra_vars or {}))
        return AnsiblePlaybooks(**limits).run(mechanism, mechanism.provision, values or {}, nodes)

    return run


def test_a_playbook_gets_nodes_and_rendered_variables_and_its_last_fact_counts(run):
    output = run(
        """
        - set_fact:
            duffy_out: {nodes: []}
        - ansible.builtin.set_fact:
            duffy_out:
              nodes: "{{ duffy_in.nodes | map('combine', {'ipaddr': '192.0.2.' ~ size, 'label': label}) | list }}"
        - set_fact:
            other: 1
        """,
        extra_vars={"size": "{{ cores * 2 }}", "label": "{{ name }}-{{ duffy_in.nodes | length }}"},
        values={"name": "metal", "cores": 4},
        nodes=[{"id": 1}, {"id": 2, "hostname": "two"}],
    )
    assert output == {
        "nodes": [
            {"id": 1, "ipaddr": "192.0.2.8", "label": "metal-2"},
            {"id": 2, "hostname": "two", "ipaddr": "192.0.2.8", "label": "metal-2"},
        ]
    }


#: Uses all that it gets in each way that evaluates templates in trusted values.
_CURIOUS = """
- add_host: {name: other, groups: others, item: "{{ duffy_in.nodes[0] }}", label: "{{ label }}"}
- set_fact: {seen: "{{ duffy_in.nodes }}"}
- debug: {msg: "{{ seen }} {{ hostvars.other.item }} {{ hostvars.other.label }} {{ item }} {{ copied }}"}
  loop: "{{ duffy_in.nodes | map(attribute='data') | map('dict2items') | flatten }}"
  vars: {copied: "{{ duffy_in }}"}
- command: {argv: [echo, "{{ duffy_in.nodes[0].hostname }}", "{{ label }}", "{{ seen | to_json }}"]}
- set_fact: {duffy_out: {nodes: "{{ seen }}", label: "{{ label }}", lines: ["{{ lines }}"]}}
"""


def test_text_of_nodes_and_tenants_is_never_code_for_ansible(run, tmp_path):
    witness = tmp_path / "witness"
    code = "{{ lookup('pipe', 'touch " + str(witness) + "') }}"
    node = {
        "id": 1,
        "hostname": code,
        "ipaddr": f"fe80::1%{code}",
        "data": {
            code: code,
            "deep": [{"list": [code, f"{{% if {code[2:-2]} %}}{{% endif %}}", "{# comment #}"]}],
            "__ansible_unsafe": code,
            "provision": {"__ansible_vault": code, "facts": {"host": f"!unsafe {code}"}},
            "nodes_spec": {"pool": code, "tenant": code, "ssh_key": f"ssh-ed25519 AAAA {code}"},
            "odd": ["\u2028\x85\x00\U0001f600\ud800", "'\"\\", "<<", "=", "1", "null"],
        },
    }
    output = run(
        _CURIOUS,
        extra_vars={"label": "of {{ duffy_in.nodes[0].hostname }}", "lines": "{% raw %}" + code + "{% endraw %}"},
        nodes=[node],
    )
    assert not witness.exists()
    assert output["label"] == f"of {code}"
    assert output["lines"] == [code]
    node["data"]["odd"][0] = node["data"]["odd"][0].replace("\ud800", "?")
    assert output["nodes"] == [node]


def test_a_playbook_that_fails_is_an_error_with_ansibles_words(run):
    with pytest.raises(ProgramError, match=r"book\.yml failed with status 2:(?s:.)*the cloud is full"):
        run("- fail: {msg: the cloud is full}")


def test_the_error_of_a_playbook_has_no_secrets(run):
    with pytest.raises(ProgramError, match=r"failed with status 2") as failed:
        run('- command: {cmd: "false --token hunter2"}')
    assert "hunter2" not in str(failed.value)


def test_each_run_is_recorded_with_its_output(run):
    runs = []
    with pytest.raises(ProgramError):
        run("- fail: {msg: the cloud is full}", nodes=[{"id": 7}], values={"name": "el9"}, record=runs.append)
    run("- set_fact: {duffy_out: 1}", record=runs.append)
    failed, succeeded = runs
    assert (failed.pool, failed.playbook, failed.nodes, failed.succeeded) == ("el9", "book.yml", (7,), False)
    assert "the cloud is full" in failed.output
    assert (succeeded.nodes, succeeded.succeeded, "set_fact" in succeeded.output) == ((), True, True)


def test_a_playbook_without_the_fact_is_an_error(run):
    with pytest.raises(ProgramError, match="did not set the fact duffy_out"):
        run("- set_fact: {other: 1}")


def test_a_playbook_that_hangs_is_ended_with_its_programs(run, tmp_path):
    pid = tmp_path / "pid"
    for seconds in (6, 20, 60):  # until the time suffices on a busy machine to begin
        with pytest.raises(ProgramError, match=f"did not end within {seconds} s and was ended"):
            run(f"- shell: echo $$ >{pid} && exec sleep 600", timeout=seconds)
        if pid.exists() and pid.read_text():
            break
    wait_until(lambda: not psutil.pid_exists(int(pid.read_text())), "the end of the program")


def test_a_playbook_first_ends_the_playbooks_that_a_killed_worker_left_on_this_machine(run, monkeypatch):
    owner = subprocess.Popen(["sleep", "600"])
    mark = f"{_owner(owner.pid)}/1"
    # After a step of the clock, the kernel reports another time of the boot.
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: 1.0, raising=False)
    place = Path(tempfile.mkdtemp(prefix=f"zkdeployment-playbook-{quote(mark[:-2], safe='')}-"))
    left = subprocess.Popen(["sleep", "600"], env=os.environ | {"ZKDEPLOYMENT_PLAYBOOK": mark})
    assert run("- set_fact: {duffy_out: 1}") == 1
    assert (left.poll(), place.exists()) == (None, True)  # its worker runs
    owner.kill()
    owner.wait()
    assert run("- set_fact: {duffy_out: 1}") == 1
    assert left.wait(10) == -signal.SIGKILL
    assert not place.exists()


_DETACHED = """
- hosts: localhost
  gather_facts: false
  tasks:
    - command: {{cmd: "setsid -f env -i sh -c 'echo $$ >{place}/left; exec sleep 600'"}}
    - shell: echo $$ >{place}/task && exec sleep 600
"""

_WORKER = """
import sys
from zkdeployment.pools.mechanisms.ansible import AnsiblePlaybooks
from zkdeployment.pools.documents import AnsibleMechanism, Playbook
mechanism = AnsibleMechanism(sys.argv[1], Playbook("book.yml", {}))
AnsiblePlaybooks(permitted=lambda: float(sys.argv[2])).run(mechanism, mechanism.provision, {}, [])
"""


@pytest.mark.parametrize(
    ("way", "seconds"), [(signal.SIGKILL, 600), (signal.SIGSTOP, 6)], ids=["killed", "suspended"]
)
def test_a_playbook_ends_with_all_its_programs_when_its_worker_is_gone(tmp_path, way, seconds):
    (tmp_path / "book.yml").write_text(_DETACHED.format(place=tmp_path))
    with subprocess.Popen([sys.executable, "-c", _WORKER, str(tmp_path), str(seconds)]) as worker:
        try:
            files = [tmp_path / "left", tmp_path / "task"]
            wait_until(
                lambda: all(file.exists() and file.read_text() for file in files), "the playbook's programs"
            )
            left = [psutil.Process(int(file.read_text())) for file in files]
            worker.send_signal(way)
            wait_until(lambda: not any(program.is_running() for program in left), "the end of the programs")
        finally:
            worker.kill()


def test_a_playbook_whose_worker_lost_its_permission_is_abandoned_without_a_result(run):
    with pytest.raises(AbandonedError, match="was ended because ZooKeeper did not answer this worker"):
        run("- command: {cmd: sleep 600}", permitted=lambda: 0.0)


def test_a_playbook_is_ended_with_the_program(run):
    with pytest.raises(ProgramError, match="was ended with this program"):
        run("- command: {cmd: sleep 600}", is_stopped=lambda: True)


def test_the_ansible_of_this_installation_runs_wherever_the_program_was_started(run, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert run("- set_fact: {duffy_out: 1}") == 1


def test_a_playbook_that_does_not_exist_is_an_error(tmp_path):
    mechanism = AnsibleMechanism(str(tmp_path), Playbook("missing.yml"))
    with pytest.raises(ProgramError, match=r"missing\.yml failed with status"):
        AnsiblePlaybooks().run(mechanism, mechanism.provision, {}, [])


@pytest.mark.parametrize("template", ["{{ unknown.name }}", "{{ 'x'", "{{ ''.__class__.__mro__ }}", "{{ 1 / 0 }}"])
def test_a_template_that_is_wrong_or_leaves_its_sandbox_is_an_error(template):
    with pytest.raises(ProgramError, match="cannot render the template"):
        rendered({"a": [template]}, {})


def test_only_texts_are_templates():
    value = {"a": ["{{ n }}", 1, None, True, {"b": "{{ n + 1 }}"}]}
    assert rendered(value, {"n": 1}) == {"a": ["1", 1, None, True, {"b": "2"}]}


def test_unknown_variables_and_final_line_ends_of_templates_are_dropped_as_in_duffy():
    assert rendered("{{ unknown }}-{{ name | default('x') }}\n", {}) == "-x"
