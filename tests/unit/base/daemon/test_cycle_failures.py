"""How a daemon logs the failures of its cycles."""

from __future__ import annotations

import logging

from structlog.testing import capture_logs

from zkdeployment.base.daemon.cycles import CycleFailures, FailureKind
from zkdeployment.base.errors import ConflictError, LockLostError, UnreachableError

GONE = FailureKind(UnreachableError, "unreachable", logging.WARNING)
LOST = FailureKind(LockLostError, "lead-lost", logging.WARNING)
FAILED = FailureKind(Exception, "failed", logging.ERROR)


def test_a_failure_is_logged_once_while_it_persists_and_again_after_a_good_cycle():
    failures = CycleFailures([LOST, FAILED])
    with capture_logs() as logs:
        for _ in range(2):
            failures.report(UnreachableError("no answer"))
        failures.report(UnreachableError("no route"))
        failures.report(UnreachableError("no answer"))
        failures.end()
        failures.report(UnreachableError("no answer"))
    assert [line["reason"] for line in logs] == ["no answer", "no route", "no answer", "no answer"]


def test_the_first_kind_that_matches_gives_event_and_level():
    failures = CycleFailures([LOST, FAILED])
    with capture_logs() as logs:
        assert failures.report(LockLostError("the lock is gone")) is LOST
        assert failures.report(ConflictError("the node has changed")) is FAILED
    assert [(line["event"], line["log_level"]) for line in logs] == [("lead-lost", "warning"), ("failed", "error")]


def test_only_a_defect_of_the_program_has_a_traceback():
    failures, defect = CycleFailures([FAILED]), KeyError("version")
    with capture_logs() as logs:
        failures.report(defect)
        failures.report(ConflictError("the node has changed"))
    assert [line["exc_info"] for line in logs] == [defect, None]


def test_the_status_is_the_first_line_of_each_message():
    shown: list[str] = []
    failures = CycleFailures([FAILED], shown.append)
    failures.report(ConflictError("two problems:\n/web: no version\n/db: no type"))
    failures.report(ConflictError("two problems:\n/web: no version\n/db: no type"))
    assert shown == ["two problems:", "two problems:"]


def test_operators_see_an_unexpected_failure_until_a_cycle_ends_without_one():
    recorded: list[str] = []
    failures = CycleFailures([GONE, LOST, FAILED], record=recorded.append)
    failures.report(KeyError("topdir"))
    failures.report(UnreachableError("no answer"))  # says nothing about the defect
    assert recorded == ["unexpected KeyError: 'topdir'; see the log"]
    failures.end()
    failures.report(ConflictError("the node has changed"))
    failures.report(LockLostError("the lock is gone"))
    assert recorded == ["unexpected KeyError: 'topdir'; see the log", "", "the node has changed", ""]
