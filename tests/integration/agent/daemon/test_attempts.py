"""The duration of a deployment in the history, across restarts of the agent and of the host, with real files."""

from __future__ import annotations

import shutil
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from support.agents import put_script
from support.waiting import ManualClock
from zkdeployment.agent.daemon.deployment import AttemptTimer
from zkdeployment.agent.files.run_directory import RunDirectory
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from support.agents import Fleet
    from support.publishing import Publishing

TREE = "/kept\n  /app : foo\n    version = '1.0'\n    /deploy\n      /h1\n"


@pytest.mark.parametrize("boots", [False, True])
def test_the_history_counts_the_time_under_an_agent_that_was_killed(
    fleet: Fleet, publishing: Publishing, zookeeper: str, boots: bool
) -> None:
    host = fleet.host("h1")
    put_script(host.root, "foo")
    revision = publishing.push(TREE)
    publishing.sync()
    with host.process(failpoints="before:record=kill") as killed:
        killed.wait(60)
    if boots:
        shutil.rmtree(host.run)
    file = RunDirectory(host.run, host.root).attempt
    attempt = file.load()
    assert attempt is not None
    file.save(replace(attempt, begun=attempt.begun - 3600))
    with host.agent():
        host.wait_for_version(revision)
    with Session(zookeeper) as session:
        (record,) = ZooKeeperFleetReader(session).history()
    assert 3600 < record.results["h1"].seconds < 3900
    assert file.load() is None


class Attempts:
    """The timers of agents that follow each other on a host whose clock a test sets."""

    def __init__(self, run: Path) -> None:
        self.clock = ManualClock()
        self._adapters = SimpleNamespace(run=RunDirectory(run), clock=self.clock)

    def timer(self, revision: str = "r1", sequence: int = 1) -> AttemptTimer:
        return AttemptTimer(self._adapters, revision, sequence)  # type: ignore[arg-type]


@pytest.fixture
def attempts(tmp_path: Path) -> Attempts:
    return Attempts(tmp_path)


def test_an_attempt_counts_from_its_begin_also_while_no_agent_runs(attempts: Attempts) -> None:
    first = attempts.timer()
    attempts.clock.time += 30
    first.keep(first.seconds - 10)  # of which it waited ten for its rollout
    attempts.clock.time += 100

    assert attempts.timer().seconds == 120
    assert (attempts.timer("r2", 2).seconds, attempts.timer("r1", 2).seconds) == (0, 0)


def test_the_time_between_an_abandoned_attempt_and_the_next_one_does_not_count(attempts: Attempts) -> None:
    first = attempts.timer()
    first.keep(first.seconds)
    attempts.clock.time += 40
    first.pause(first.seconds)
    attempts.clock.time += 7200
    second = attempts.timer()
    attempts.clock.time += 5
    second.keep(second.seconds)

    assert attempts.timer().seconds == 45


def test_what_has_changed_nothing_or_has_ended_leaves_nothing(attempts: Attempts) -> None:
    idle, ended = attempts.timer(), attempts.timer()
    attempts.clock.time += 40
    idle.pause(idle.seconds)
    ended.keep(ended.seconds)
    ended.end()
    ended.pause(ended.seconds)

    assert attempts.timer().seconds == 0


def test_a_damaged_file_or_one_that_cannot_be_written_costs_only_the_earlier_time(
    attempts: Attempts, tmp_path: Path
) -> None:
    (tmp_path / "attempt").write_text('{"revision": []')
    timer = attempts.timer()
    (tmp_path / "attempt").unlink()
    (tmp_path / "attempt").mkdir()
    attempts.clock.time += 3
    timer.keep(timer.seconds)
    timer.end()

    assert timer.seconds == 3
