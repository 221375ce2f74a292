"""On a machine with systemd, scripts and package transactions run in their own scopes."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from support.hosts.rpm_hosts import RpmHost, change
from support.hosts.systemd import BootedMachine, boot
from support.waiting import wait_until
from zkdeployment.agent.scripts import RecordedRun, ScriptRecord, ScriptRunner
from zkdeployment.base.errors import ScriptError
from zkdeployment.base.machine import systemd
from zkdeployment.base.machine.systemd import Scope, new_scope

NEEDED = {
    "systemd-run": ("--scope", "--quiet", "--collect", "--unit", "--slice", "--property"),
    "systemctl": ("--signal", "kill"),
}


@pytest.fixture
def machine(tmp_path, monkeypatch) -> BootedMachine:
    return boot(tmp_path, monkeypatch)


@pytest.fixture
def make(tmp_path):
    def runner(**options) -> ScriptRunner:
        environment = {"PATH": os.environ["PATH"], "HERE": str(tmp_path)}
        return ScriptRunner(environment=environment, logs=tmp_path / "log", record=tmp_path / "script", **options)

    return runner


def script(directory: Path, text: str) -> str:
    file = directory / "a-script"
    file.write_text(text)
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize("program", NEEDED)
def test_the_programs_of_systemd_have_the_needed_options(program):
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    assert [option for option in NEEDED[program] if not re.search(rf"{option}\b", text)] == []


def test_a_script_in_a_scope_stays_a_child_of_the_agent(tmp_path, make, machine):
    text = '#!/bin/sh\necho $$ $PPID $(ps -o sid= -p $$) $PWD "$@"\nexit 7\n'
    path = script(tmp_path, text)
    with pytest.raises(ScriptError, match="failed with exit status 7") as caught:
        make().run([path, "/a b", "0"], name="deploy /a b 0", revision="r", directory=str(tmp_path))
    pid, parent, session, *rest = caught.value.tail.split()
    assert (pid, parent, rest) == (session, str(os.getpid()), [str(tmp_path), "/a", "b", "0"])
    (command,) = machine.calls
    *options, unit, slice_option = command[: command.index("--")]
    assert options == ["systemd-run", "--scope", "--quiet", "--collect"]
    assert command[command.index("--") + 1 :] == [path, "/a b", "0"]
    assert re.fullmatch(r"--unit=zkdeployment-deploy-a-b-0-[0-9a-f]{32}\.scope", unit)
    assert slice_option == "--slice=system-zkdeployment.slice"


@pytest.mark.parametrize(
    ("control_groups", "order"),
    [
        ("0::/system.slice/zkdeployment-agent.service\n", ["--property=Before=zkdeployment-agent.service"]),
        (
            "9:name=systemd:/system.slice/system-agent.slice/agent@1.service\n8:pids:/system.slice/other.service\n0::/\n",
            ["--property=Before=agent@1.service"],
        ),
        ("0::/user.slice/user-0.slice/session-3.scope\n", []),
    ],
)
@pytest.mark.usefixtures("machine")
def test_systemd_stops_a_scope_after_the_service_that_made_it(tmp_path, monkeypatch, control_groups, order):
    (tmp_path / "cgroup").write_text(control_groups)
    monkeypatch.setattr(systemd, "_CONTROL_GROUPS", tmp_path / "cgroup")
    wrapped = new_scope("x").wrap(["/bin/true"])
    assert wrapped[6:] == [*order, "--", "/bin/true"]


@pytest.mark.usefixtures("machine")
def test_the_unit_names_of_scopes_are_unique():
    units = {new_scope("deploy /a 0").unit for _ in range(100)}
    assert len(units) == 100
    assert all(len(unit) < 256 for unit in [*units, new_scope("x" * 1000).unit])


def test_a_timeout_ends_all_processes_of_the_scope(tmp_path, make, machine):
    text = "#!/bin/sh\nsetsid sleep 300 &\necho $! > $HERE/daemon\nwait\n"
    for limit in (2, 10, 60):
        earlier = len(machine.calls)
        with pytest.raises(ScriptError, match=f"x did not end within {limit} s and was killed"):
            make(timeout=limit).run([script(tmp_path, text)], name="x", revision="r")
        if (tmp_path / "daemon").exists():
            break  # else the machine was too slow to start it
    daemon = int((tmp_path / "daemon").read_text())
    wait_until(lambda: not psutil.pid_exists(daemon), "the process in its own session has ended")
    assert machine.calls[earlier + 1][:3] == ["systemctl", "kill", "--signal=SIGTERM"]


def test_a_daemon_survives_the_end_of_its_script(tmp_path, make, machine):
    make().run([script(tmp_path, "#!/bin/sh\nsleep 300 &\necho $! > $HERE/daemon\n")], name="x", revision="r")
    daemon = psutil.Process(int((tmp_path / "daemon").read_text()))
    assert daemon.is_running()
    daemon.kill()
    assert len(machine.calls) == 1


@pytest.mark.usefixtures("machine")
def test_the_timeout_of_an_orphaned_script_ends_its_scope(tmp_path, make):
    path = script(tmp_path, "#!/bin/sh\nsetsid sleep 300 &\necho $! > $HERE/daemon\nwait\n")
    scope = new_scope("x")
    environment = {**os.environ, "HERE": str(tmp_path)}
    orphan = subprocess.Popen(scope.wrap([path]), env=environment, start_new_session=True)
    wait_until((tmp_path / "daemon").exists, "the script runs")
    ScriptRecord(tmp_path / "script").started(RecordedRun([path], scope, "x", "r"), orphan.pid)
    make(timeout=0.1).wait_for_predecessor()
    daemon = int((tmp_path / "daemon").read_text())
    wait_until(lambda: not psutil.pid_exists(daemon), "all processes of the scope have ended")
    assert orphan.wait() == -signal.SIGTERM


@pytest.mark.usefixtures("machine")
def test_the_process_group_is_ended_if_systemd_does_not_respond(tmp_path, make):
    (tmp_path / "systemd/systemctl").write_text("#!/bin/sh\necho 'Failed to connect to bus' >&2; exit 1\n")
    with pytest.raises(ScriptError, match="was killed"):
        make(timeout=1).run([script(tmp_path, "#!/bin/sh\nexec sleep 300\n")], name="x", revision="r")


@pytest.mark.usefixtures("machine")
def test_the_error_for_a_scope_that_cannot_be_created_has_systemds_output(tmp_path, make):
    (tmp_path / "systemd/systemd-run").write_text(
        "#!/bin/sh\necho 'Failed to start transient scope' >&2; exit 1\n"
    )
    with pytest.raises(ScriptError, match="failed with exit status 1") as caught:
        make().run([script(tmp_path, "#!/bin/sh\ntouch $HERE/ran\n")], name="x", revision="r")
    assert caught.value.tail == "Failed to start transient scope\n"
    assert not (tmp_path / "ran").exists()


def test_a_dnf_that_may_change_packages_runs_in_a_scope(tmp_path, machine, rpm_repository):
    host = RpmHost(tmp_path, rpm_repository)
    host.manager.commit(host.manager.prepare(change({"foo": "1.0"})))  # rpm gets the repository's key, too
    host.manager.commit(host.manager.prepare(change({"foo": "1.1"})))
    host.manager.commit(host.manager.prepare(change({}, "foo")))
    assert host.installed == set()
    *_, installation, removal = machine.calls
    assert len(machine.calls) == 4
    assert "zkdeployment-install" in installation
    assert removal[-3:-1] == ["history", "replay"]
    for program, *arguments in (installation, removal):
        assert program == "systemd-run"
        unit = r"--unit=zkdeployment-packages-[0-9a-f]{32}\.scope"
        assert any(re.fullmatch(unit, argument) for argument in arguments)
        assert "--property=TimeoutStopSec=90" in arguments


@pytest.mark.parametrize("lacking", ["systemd", "systemd-run", "root"])
def test_without_systemd_its_program_or_root_there_is_no_scope(tmp_path, monkeypatch, lacking):
    boot(tmp_path, monkeypatch)
    match lacking:
        case "systemd":
            monkeypatch.setattr(systemd, "BOOTED", tmp_path / "nothing")
        case "systemd-run":
            monkeypatch.setenv("PATH", str(Path(sys.executable).parent / "nothing"))
        case _:
            monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert new_scope("x") == Scope()
    assert Scope().wrap(["a", "b"]) == ["a", "b"]
