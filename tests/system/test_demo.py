"""``scripts/demo`` runs all its stages and leaves nothing behind, whether it succeeds, fails or is interrupted."""

import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from support.commands import run
from support.fresh_checkout import environment, make_checkout
from support.waiting import wait_until
from zkdeployment.sandbox import demo
from zkdeployment.sandbox.demo import DemoError, DemoScenario, play
from zkdeployment.sandbox.fleet import Sandbox
from zkdeployment.sandbox.processes import sandbox_processes

pytestmark = pytest.mark.nightly

ARGV = [sys.executable, "-m", "zkdeployment.sandbox.demo"]


@pytest.fixture
def directory(place):
    """Return the directory of the demo's fleet; each attempt has its own, even after a killed attempt."""
    fleet_directory = Path(tempfile.mkdtemp(dir=place)) / "demo"
    yield fleet_directory
    Sandbox(fleet_directory).down()


@pytest.fixture
def checkout(tmp_path):
    """Return a checkout in which the script has to install what it needs."""
    return make_checkout(tmp_path / "checkout")


@pytest.mark.timeout(900)
def test_a_fleet_kept_after_all_five_stages_runs_on_and_the_last_messages_name_its_page_and_the_command_to_end_it(
    checkout, directory
):
    done = run(checkout / "scripts" / "demo", "--keep", "-d", directory, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All five stages succeeded" in done.stdout
    assert sandbox_processes(directory)
    farewell = done.stdout.partition("All five stages succeeded")[2]
    offer = re.search(r"^See the fleet at (\S+) as the user (\S+) with the key (\S+)$", farewell, re.MULTILINE)
    assert offer is not None, farewell
    url, *login = offer.groups()
    forbidden = httpx.post(f"{url}/api/v1/stop", json={"reason": "r"}, auth=tuple(login), timeout=None)
    assert forbidden.status_code == 403, forbidden.text
    down = f"zkdeployment sandbox down -d {directory}"
    assert done.stdout.rstrip().endswith(down)
    programs = checkout / ".venv" / "bin"
    assert str(programs / "activate") in done.stdout
    run(programs / "zkdeployment", *down.split()[1:], env=environment())
    assert sandbox_processes(directory) == []
    assert not directory.exists()


def test_an_interrupted_demo_leaves_nothing_behind(directory):
    with subprocess.Popen([*ARGV, "-d", directory], stdout=subprocess.PIPE, text=True) as interrupted:
        wait_until((directory / "hosts").exists, "the fleet is coming up")
        interrupted.send_signal(signal.SIGINT)
        interrupted.communicate()
    assert interrupted.returncode == 130
    assert sandbox_processes(directory) == []
    assert not directory.exists()


def test_a_failed_check_fails_the_demo_and_leaves_nothing_behind(directory, monkeypatch):
    def play_stages(scenario):
        scenario.check(holds=False, text="the moon is made of cheese")

    monkeypatch.setattr(DemoScenario, "play_stages", play_stages)
    monkeypatch.setattr(demo, "HOSTS", demo.HOSTS[:1])
    with pytest.raises(DemoError, match="expected: the moon is made of cheese"):
        play(directory, Console(), keep=True)
    assert sandbox_processes(directory) == []
    assert not directory.exists()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("option", "stages"), [("--analysis", "four"), ("--fleets", "four"), ("--system", "three")]
)
def test_all_stages_of_the_demos_of_analyses_of_fleets_and_of_systems_succeed(checkout, directory, option, stages):
    done = run(checkout / "scripts" / "demo", option, "-d", directory, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"All {stages} stages succeeded" in done.stdout
    assert sandbox_processes(directory) == []
    assert not directory.exists()
