"""``zkdeployment coordinate`` as a process: takeover after a kill, ending on request, configuration errors."""

import os
import signal
import subprocess
import sys

import pytest

from support.fleets.coordinated import CoordinatedFleet
from support.strategies import group, plain_hosts, strategy
from support.waiting import wait_until
from zkdeployment.base.daemon.failpoints import VARIABLE
from zkdeployment.strategies.state_machine import RolloutResult
from zkdeployment.strategies.store.records import read_leader
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import contenders
from zkdeployment.zookeeper.session import Session


@pytest.fixture
def fleet(zookeeper):
    with Session(zookeeper) as session:
        yield CoordinatedFleet(zookeeper, session)


@pytest.fixture
def coordinate(zookeeper, tmp_path):
    """Return a function that starts coordinators; the remaining coordinators are killed at the end."""
    config = tmp_path / "zkdeployment.cfg"
    config.write_text(f"[zkdeployment]\nzookeeper = {zookeeper}\nroot = {tmp_path}\n")
    started = []

    def start(**environment):
        process = subprocess.Popen(
            [sys.executable, "-m", "zkdeployment", "coordinate", str(config)],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_second_coordinator_replaces_a_killed_leader_and_ends_on_request(fleet, coordinate):
    fleet.register(plain_hosts("ab"))
    fleet.publish("r1", strategy(group("x", hosts="a"), group("y", "x", hosts="b")))
    first = coordinate(**{VARIABLE: "after:record@2=kill"})
    wait_until(lambda: read_leader(fleet.session) is not None, "a coordinator leads")
    second = coordinate()
    wait_until(lambda: len(contenders(fleet.session, paths.COORDINATORS)) == 2, "the other host waits")

    def is_over():
        if fleet.session.get(paths.ROLLOUTS) is not None:
            fleet.work()
            return fleet.running.ended is not None
        return False

    wait_until(is_over, "the rollout is over")
    assert first.wait() == -signal.SIGKILL
    assert fleet.running.rollout.result is RolloutResult.SUCCESS
    assert len(fleet.done) == len(set(fleet.done)) == 4
    second.send_signal(signal.SIGTERM)
    log, _ = second.communicate()
    assert second.returncode == 0
    assert "lead-acquired" in log
    assert "rollout-ended" in log
    assert "rollout 1-1 of r1: success" in log
    assert read_leader(fleet.session) is None


def test_a_configuration_error_is_one_line(tmp_path):
    command = [sys.executable, "-m", "zkdeployment", "coordinate", str(tmp_path / "missing.cfg")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "missing.cfg" in done.stderr
