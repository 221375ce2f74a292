"""What starts the daemons: units and configurations that a host takes as they are."""

import configparser
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from zkdeployment.daemons.control import GRACE

ETC = Path(__file__).resolve().parents[2] / "etc"


@pytest.mark.parametrize("daemon", ["agent", "syncer", "coordinator"])
def test_zdaemon_accepts_its_configuration_and_runs_what_systemd_runs(daemon, tmp_path):
    shipped = (ETC / "zdaemon" / f"zkdeployment-{daemon}.conf").read_text()
    configuration = tmp_path / "zdaemon.conf"
    configuration.write_text(re.sub(r"/var/(run|log)/zkdeployment", str(tmp_path), shipped))
    zdaemon = Path(sys.executable).parent / "zdaemon"
    shown = subprocess.run([zdaemon, "-C", configuration, "show"], capture_output=True, text=True, check=True)
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(ETC / "systemd" / f"zkdeployment-{daemon}.service")
    command = unit["Service"]["ExecStart"]
    assert f"program: {shlex.split(command)!r}" in re.sub(" +", " ", shown.stdout)
    assert unit["Service"]["Restart"] == "on-failure"


@pytest.mark.parametrize("daemon", ["agent", "syncer", "coordinator"])
def test_the_command_of_a_unit_is_one_of_ours(daemon, tmp_path):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(ETC / "systemd" / f"zkdeployment-{daemon}.service")
    _, *arguments, _ = shlex.split(unit["Service"]["ExecStart"])
    command = [sys.executable, "-m", "zkdeployment", *arguments, str(tmp_path / "missing.cfg")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "missing.cfg" in done.stderr


@pytest.mark.parametrize("daemon", ["agent", "syncer", "coordinator"])
def test_systemd_accepts_the_unit(daemon, tmp_path):
    text = (ETC / "systemd" / f"zkdeployment-{daemon}.service").read_text()
    unit = tmp_path / f"zkdeployment-{daemon}.service"
    unit.write_text(text.replace("/opt/zkdeployment/bin", str(Path(sys.executable).parent)))
    checked = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_stopping_the_agent_ends_what_is_its_own_and_leaves_it_time_to():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(ETC / "systemd" / "zkdeployment-agent.service")
    assert unit["Service"]["KillMode"] == "mixed"
    assert unit["Service"].getint("TimeoutStopSec") > GRACE
