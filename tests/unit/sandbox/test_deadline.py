import os
import time

import pytest

from zkdeployment.sandbox.processes import Deadline, slowdown


@pytest.fixture
def machine(monkeypatch):
    """A machine with two processors, whose time and load the test sets."""
    values = {"time": 1000.0, "load": 0.0}
    monkeypatch.setattr(time, "monotonic", lambda: values["time"])
    monkeypatch.setattr(os, "getloadavg", lambda: (values["load"], 0.0, 0.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    return values


def test_a_quiet_machine_has_the_whole_time(machine):
    machine["load"] = 1.9
    deadline = Deadline(60)
    machine["time"] += 60
    assert not deadline.passed
    machine["time"] += 1
    assert deadline.passed
    assert str(deadline) == "61 s"


def test_a_second_counts_less_while_more_programs_want_to_run_than_there_are_processors(machine):
    deadline = Deadline(60)
    machine["load"] = 8.0
    machine["time"] += 200
    assert not deadline.passed
    machine["load"] = 0.0
    machine["time"] += 10
    assert not deadline.passed
    machine["time"] += 1
    assert deadline.passed
    assert str(deadline) == "211 s on a machine that is too busy to judge (it had time for 61 s of work)"


def test_a_time_limit_ends_on_any_machine(machine):
    deadline = Deadline(60)
    machine["load"] = 1000.0
    machine["time"] += 600
    assert not deadline.passed
    machine["time"] += 1
    assert deadline.passed
    assert "too busy to judge" in str(deadline)


def test_a_machine_without_a_known_load_counts_as_quiet(monkeypatch):
    def fail():
        raise OSError

    monkeypatch.setattr(os, "getloadavg", fail)
    assert slowdown() == 1.0
