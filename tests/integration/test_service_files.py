"""The files that start the daemons: units and configurations that a host uses unchanged."""

import configparser
import os
import pwd
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from support.waiting import wait_until
from zkdeployment.base.daemon.control import GRACE
from zkdeployment.base.errors import RestartError
from zkdeployment.config.settings import load
from zkdeployment.programs import agent as wiring
from zkdeployment.publishing.settings import SyncSettings

ETC = Path(__file__).resolve().parents[2] / "etc"

DAEMONS = ["agent", "syncer", "coordinator", "promoter", "server", "pools", "nagios"]


@pytest.mark.parametrize("daemon", DAEMONS)
def test_zdaemon_accepts_its_configuration_and_runs_the_same_commands_as_systemd(daemon, tmp_path):
    shipped = (ETC / "zdaemon" / f"zkdeployment-{daemon}.conf").read_text()
    configuration = tmp_path / "zdaemon.conf"
    placed = re.sub(r"/var/(run|log)/zkdeployment(-nagios)?", str(tmp_path), shipped)
    configuration.write_text(placed.replace("user nagios\n", f"user {os.geteuid()}\n"))
    zdaemon = Path(sys.executable).parent / "zdaemon"
    shown = subprocess.run([zdaemon, "-C", configuration, "show"], capture_output=True, text=True, check=True)
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(ETC / "systemd" / f"zkdeployment-{daemon}.service")
    command = unit["Service"]["ExecStart"]
    assert f"program: {shlex.split(command)!r}" in re.sub(" +", " ", shown.stdout)
    assert unit["Service"]["Restart"] == "on-failure"


@pytest.mark.all_features
@pytest.mark.parametrize("daemon", DAEMONS)
def test_the_command_of_a_unit_is_one_of_ours(daemon, tmp_path):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(ETC / "systemd" / f"zkdeployment-{daemon}.service")
    _, *arguments = shlex.split(unit["Service"]["ExecStart"])
    missing = [re.sub(r"^/.*\.cfg$", str(tmp_path / "missing.cfg"), argument) for argument in arguments]
    command = [sys.executable, "-m", "zkdeployment", *missing]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "missing.cfg" in done.stderr


def test_the_unit_of_filters_and_zdaemon_run_the_filter_of_the_sample_file(tmp_path):
    """systemd splits $OPTIONS into words, and takes ${INPUT} as one word."""
    sample = (ETC / "manual" / "examples" / "load-balancer" / "web.conf").read_text().splitlines()
    variables = dict(line.split("=", 1) for line in sample if not line.startswith("#"))
    _, *arguments = shlex.split(service("filter@")["ExecStart"])
    words = [
        word
        for argument in arguments
        for word in (variables["OPTIONS"].split() if argument == "$OPTIONS" else [argument])
    ]
    filled = [variables.get(word.strip("${}"), word) for word in words]
    program = re.search(r"(?m)^  program \S+ (.*)", (ETC / "zdaemon" / "zkdeployment-filter.conf").read_text())[1]
    assert program.split() == [word for word in filled if word not in variables["OPTIONS"].split()]
    command = [str(tmp_path / "missing.cfg") if word.endswith(".cfg") else word for word in filled]
    done = subprocess.run(
        [sys.executable, "-m", "zkdeployment", *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "missing.cfg" in done.stderr


@pytest.mark.parametrize("daemon", [*DAEMONS, "filter@"])
def test_systemd_accepts_the_unit(daemon, tmp_path):
    text = (ETC / "systemd" / f"zkdeployment-{daemon}.service").read_text()
    instance = f"{daemon}web" if daemon.endswith("@") else daemon
    unit = tmp_path / f"zkdeployment-{instance}.service"
    unit.write_text(text.replace("/opt/zkdeployment/bin", str(Path(sys.executable).parent)))
    checked = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_an_agent_under_systemd_starts_without_having_to_correct_home(monkeypatch):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(ETC / "systemd" / "zkdeployment-agent.service")
    assert "User" not in unit["Service"]
    name, _, home = unit["Service"]["Environment"].partition("=")
    assert (name, home) == ("HOME", pwd.getpwuid(0).pw_dir)
    monkeypatch.setenv(name, home)
    with capture_logs() as logs:
        assert wiring._home() == home
    assert logs == []


def test_stopping_the_agent_ends_its_own_processes_and_leaves_them_time():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(ETC / "systemd" / "zkdeployment-agent.service")
    assert unit["Service"]["KillMode"] == "mixed"
    assert unit["Service"].getint("TimeoutStopSec") > GRACE


def test_stopping_the_worker_of_pools_leaves_its_tasks_time():
    assert int(service("pools")["TimeoutStopSec"]) > GRACE


def service(daemon):
    """Return the settings of a unit's service."""
    text = (ETC / "systemd" / f"zkdeployment-{daemon}.service").read_text()
    lines = text.partition("[Service]\n")[2].partition("[Install]")[0].splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize(
    ("daemon", "user"),
    [
        ("syncer", "zkdeployment"),
        ("coordinator", "zkdeployment"),
        ("promoter", "zkdeployment"),
        ("filter@", "zkdeployment"),
        ("server", "zkdeployment"),
        ("pools", "zkdeployment-pools"),
        ("nagios", "nagios"),
    ],
)
def test_daemons_that_need_no_rights_have_no_rights(daemon, user):
    """The threshold is systemd's own measure of how exposed a service is, in tenths: 100 is the worst."""
    unit = ETC / "systemd" / f"zkdeployment-{daemon}.service"
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", unit]
    judged = subprocess.run(command, capture_output=True, text=True, check=False)
    assert judged.returncode == 0, judged.stdout
    assert service(daemon)["User"] == user
    assert service(daemon)["CapabilityBoundingSet"] == ""


def test_programs_of_packages_and_scripts_have_the_rights_that_they_need():
    """All is inherited: mounts that others see, setuid programs, other users, code that is made at run time."""
    found = service("agent")
    assert not [key for key in found if key.startswith(("Private", "Protect", "Restrict", "ReadOnly", "Root"))]
    assert not found.keys() & {"User", "NoNewPrivileges", "MemoryDenyWriteExecute", "SystemCallArchitectures"}
    assert found["SystemCallFilter"].startswith("~")
    assert found["CapabilityBoundingSet"].startswith("~")


@pytest.mark.parametrize("daemon", ["agent", "server", "pools"])
def test_a_daemon_that_wants_to_be_started_again_is_and_has_not_failed(daemon):
    found = service(daemon)
    assert found["SuccessExitStatus"] == found["RestartForceExitStatus"] == str(RestartError.exit_code)


@pytest.mark.parametrize("daemon", DAEMONS)
def test_the_directories_of_zdaemon_belong_to_the_user_who_writes_them(daemon):
    shipped = (ETC / "zdaemon" / f"zkdeployment-{daemon}.conf").read_text()
    written = {str(Path(file).parent) for file in re.findall(r"(?:socket-name|transcript) (\S+)", shipped)}
    user = re.search(r"(?m)^  user (\S+)$", shipped)
    made = re.search(r"(?m)^#   (mkdir -p|install -d -o \S+) (.*)$", shipped)
    assert set(made[2].split()) == written
    assert made[1] == ("mkdir -p" if user is None else f"install -d -o {user[1]}")
    assert (user is None) == all(path.endswith("/zkdeployment") for path in written)


def test_the_log_of_each_daemon_under_zdaemon_is_rotated():
    rotated = (ETC / "logrotate.conf").read_text()
    for configuration in sorted((ETC / "zdaemon").iterdir()):
        transcript = re.search(r"transcript (\S+)", configuration.read_text())[1]
        assert transcript in rotated


def test_the_syncer_writes_where_the_sample_keeps_its_mirror():
    home = Path("/var/lib") / service("syncer")["StateDirectory"]
    sample = load(ETC / "zkdeployment.cfg", host=False).require(SyncSettings)
    assert sample.tree_directory.parent == home
    assert f" {home}\n" in (ETC / "systemd" / "sysusers.conf").read_text()


@pytest.mark.all_features
def test_the_promoter_writes_where_the_sample_keeps_its_mirror():
    (example,) = re.findall(r"(?m)^# directory = (.*)$", (ETC / "zkdeployment.cfg").read_text())
    assert Path(example).parent == Path("/var/lib") / service("promoter")["StateDirectory"]


def test_systemd_makes_the_user_who_may_read_the_configuration(tmp_path):
    configuration = tmp_path / "etc" / "zkdeployment" / "zkdeployment.cfg"
    configuration.parent.mkdir(parents=True)
    configuration.touch(mode=0o600)
    subprocess.run(["systemd-sysusers", f"--root={tmp_path}", ETC / "systemd" / "sysusers.conf"], check=True)
    name, _, uid, gid, _, home, shell = (tmp_path / "etc" / "passwd").read_text().strip().split(":")
    assert (name, home, shell) == ("zkdeployment", "/var/lib/zkdeployment/syncer", "/usr/sbin/nologin")
    subprocess.run(
        ["systemd-tmpfiles", f"--root={tmp_path}", "--create", ETC / "systemd" / "tmpfiles.conf"], check=True
    )
    found = configuration.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (0, int(gid), 0o640)
    assert int(uid) != 0
    assert (tmp_path / "run" / "zkdeployment").is_dir()
    for daemon in ("syncer", "promoter"):
        mirrors = (tmp_path / "var/lib" / service(daemon)["StateDirectory"]).stat()
        assert (mirrors.st_uid, mirrors.st_mode & 0o777) == (int(uid), 0o750)


def test_systemd_makes_the_user_whose_home_the_worker_of_pools_writes(tmp_path):
    (tmp_path / "etc").mkdir()
    subprocess.run(["systemd-sysusers", f"--root={tmp_path}", ETC / "systemd" / "sysusers-pools.conf"], check=True)
    name, *_, home, shell = (tmp_path / "etc" / "passwd").read_text().strip().split(":")
    assert (name, shell) == (service("pools")["User"], "/usr/sbin/nologin")
    assert home == f"/var/lib/{service('pools')['StateDirectory']}"
    assert service("pools")["StateDirectoryMode"] == "0700", "ssh refuses keys that others can read"


def test_the_exit_status_of_zdaemon_shows_whether_the_program_runs(tmp_path):
    shipped = (ETC / "zdaemon" / "zkdeployment-agent.conf").read_text()
    configuration = tmp_path / "zdaemon.conf"
    text = re.sub(r"/var/(run|log)/zkdeployment", str(tmp_path), shipped)
    configuration.write_text(re.sub(r"(?m)^  program .*$", "  program /bin/sleep 600", text))

    def zdaemon(verb):
        command = [Path(sys.executable).parent / "zdaemon", "-C", configuration, verb]
        return subprocess.run(command, capture_output=True, text=True, check=False).returncode

    assert zdaemon("status") != 0
    try:
        assert zdaemon("start") == 0
        wait_until(lambda: zdaemon("status") == 0, "the program runs")
    finally:
        zdaemon("stop")
    wait_until(lambda: zdaemon("status") != 0, "the program is down")
