"""``zkdeployment inventory``, read by the real programs of Ansible."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from support.builders import make_host
from support.commands import invoke, run
from support.manual import HERE, MANUAL
from zkdeployment.base.host import Identity
from zkdeployment.zookeeper.nodes import encode

PROGRAMS = Path(sys.executable).parent
SCRIPT = HERE / "etc" / "ansible" / "zkdeployment"

#: A play in the list of ansible-playbook: its name, and its hosts.
_PLAY = r"play #\d+ \((.+?)\):.*\n +pattern: .*\n +hosts \(\d+\):((?:\n      .+)*)"


@pytest.fixture
def environment(zookeeper, client, tmp_path):
    """The environment of a fleet with a converged host and two failed ones."""
    client.create("/hosts", encode({"version": "abc1234"}))
    for host in (
        make_host("h1", "abc1234", "web", tags=("fast",)),
        make_host("h2", "abc1233", error="no space left on /opt"),
        make_host("h3", "abc1233", error="script failed"),
    ):
        client.create(f"/hosts/{host.identity.id}", encode(host.properties()), ephemeral=True)
    quiet = {
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCAL_TEMP": str(tmp_path),
        "HOME": str(tmp_path),
        "LC_ALL": "C.UTF-8",
    }
    path = f"{PROGRAMS}:{os.environ['PATH']}"
    return {**os.environ, **quiet, "PATH": path, "ZC_ZK_CONNECTION_STRING": zookeeper}


@pytest.mark.nightly
def test_ansible_shows_the_groups_of_the_fleet(environment):
    done = run(PROGRAMS / "ansible-inventory", "-i", SCRIPT, "--graph", env=environment)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert "  |--@state_failed:\n  |  |--h2.example.com\n  |  |--h3.example.com\n" in done.stdout
    assert "  |--@role_web:\n  |  |--h1.example.com\n" in done.stdout
    assert "  |--@tag_fast:\n" in done.stdout
    shown = run(PROGRAMS / "ansible-inventory", "-i", SCRIPT, "--host", "h1.example.com", env=environment)
    assert json.loads(shown.stdout)["zkdeployment_state"] == "converged"


def test_a_play_runs_on_all_failed_hosts_and_on_no_other(environment):
    play = MANUAL / "examples" / "ansible" / "failed.yml"
    done = run(PROGRAMS / "ansible-playbook", "-i", SCRIPT, play, env=environment)
    assert done.returncode == 0, done.stderr
    assert "no space left on /opt" in done.stdout
    assert "h2.example.com             : ok=1" in done.stdout
    assert "h3.example.com             : ok=1" in done.stdout
    assert "h1.example.com" not in done.stdout


def test_ansible_shows_a_template_in_the_error_of_a_host_and_does_not_evaluate_it(environment, client):
    host = make_host("h4", "abc1233", error="{{ 40 + 2 }}", labels={"__ansible_vault": "x"})
    client.create("/hosts/h4", encode(host.properties()), ephemeral=True)
    play = MANUAL / "examples" / "ansible" / "failed.yml"
    done = run(PROGRAMS / "ansible-playbook", "-i", SCRIPT, play, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"zkdeployment_error": "{{ 40 + 2 }}"' in done.stdout
    assert "42" not in done.stdout


@pytest.mark.nightly
def test_no_name_of_a_host_stands_for_something_else_in_a_play(environment, client, tmp_path):
    """Each pattern selects the same hosts as before a host named itself so."""

    *others, known = patterns = ("localhost", "ungrouped", "state_failed", "h1", "all:!role_web")
    plays = tmp_path / "plays.json"
    plays.write_text(json.dumps([{"name": pattern, "hosts": pattern} for pattern in patterns]))

    def selected():
        """Return the hosts of each pattern, sorted because Ansible does not, and the warnings."""
        listed = run(PROGRAMS / "ansible-playbook", "-i", SCRIPT, "--list-hosts", plays, env=environment)
        found = re.findall(_PLAY, listed.stdout)
        return {pattern: sorted(hosts.split()) for pattern, hosts in found}, listed.stderr

    before, warnings = selected()
    assert before.keys() == {*patterns}
    names = (
        "localhost",
        "127.0.0.1",
        "all",
        "ungrouped",
        "state_failed",
        "state_absent",
        "h1",
        "x,all",
        "role_web",
    )
    for number, name in enumerate(names):
        host = replace(make_host(f"bad{number}", "abc1234"), identity=Identity(f"bad{number}", name))
        client.create(f"/hosts/bad{number}", encode(host.properties()), ephemeral=True)
    after, warnings_after = selected()
    assert after.pop(known) == sorted([*before.pop(known), *(f"bad{n}" for n in range(9))])
    assert (after, warnings_after) == (before, warnings)
    assert [*after] == others
    assert after["localhost"] == ["localhost"]
    assert after["state_failed"] == ["h2.example.com", "h3.example.com"]


def test_ansible_limits_a_play_to_ids_and_to_the_racks_of_a_site(environment, client, tmp_path, config):
    with config.open("a") as file:
        file.write("[inventory]\ngroup-prefix = zkd_\nsite-label = site\nhosts = ids\n")
    for host_id, site in (("h4", "ams"), ("h5", "fra")):
        host = make_host(host_id, "abc1234", labels={"site": site}, rack="r1")
        client.create(f"/hosts/{host_id}", encode(host.properties()), ephemeral=True)
    plays = tmp_path / "plays.json"
    patterns = ("zkd_label_site_ams", "zkd_rack_ams_r1", "zkd_rack_r1", "zkd_state_failed")
    plays.write_text(json.dumps([{"name": pattern, "hosts": pattern} for pattern in patterns]))

    def selected(limit):
        argv = (PROGRAMS / "ansible-playbook", "-i", SCRIPT, "--list-hosts", "--limit", limit, plays)
        listed = run(*argv, env=environment | {"ZKDEPLOYMENT_CONFIG": str(config)})
        assert listed.returncode == 0, listed.stderr
        return [sorted(hosts.split()) for _, hosts in re.findall(_PLAY, listed.stdout)]

    assert selected("h3,h4") == [["h4"], ["h4"], ["h4"], ["h3"]]
    assert selected("zkd_label_site_fra:h2") == [[], [], ["h5"], ["h2"]]


@pytest.mark.usefixtures("environment")
def test_one_host_is_shown_by_name_or_id(zookeeper):
    by_name = invoke("inventory", "-z", zookeeper, "--host", "h2.example.com")
    assert by_name.returncode == 0
    assert by_name.stdout == invoke("inventory", "-z", zookeeper, "--host", "h2").stdout
    unknown = invoke("inventory", "-z", zookeeper, "--host", "h9")
    assert (unknown.returncode, unknown.stdout) == (3, "")
    assert "no host has the name or the id h9" in unknown.stderr


@pytest.mark.parametrize("options", [(), ("--list", "--host", "h1")])
def test_either_all_hosts_or_one_host_are_asked_for(options, zookeeper):
    done = invoke("inventory", "-z", zookeeper, *options)
    assert done.returncode == 2
    assert "expected either --list or --host HOST" in done.stderr
