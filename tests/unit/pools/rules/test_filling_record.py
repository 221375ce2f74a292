"""Failures of filling in a row."""

from __future__ import annotations

from zkdeployment.pools.rules.snapshot import FillingRecord


def test_failures_of_nodes_that_were_chosen_together_count_once() -> None:
    record = FillingRecord().after_failure("no power", begun=100, now=110)
    assert (record.failures, record.last_failure, record.reason) == (1, 110, "no power")
    same = record.after_failure("no net", begun=100, now=115)
    assert (same.failures, same.last_failure, same.reason) == (1, 115, "no net")
    assert same.after_failure("no net", begun=180, now=190).failures == 2


def test_a_success_ends_the_failures_and_keeps_the_description_of_the_pool() -> None:
    record = FillingRecord(3, 9.0, "no power", {"name": "metal"}, stamp=4)
    assert record.after_success() == FillingRecord(values={"name": "metal"})
    assert record.after_success().stamp == 4


def test_a_long_reason_is_recorded_in_part() -> None:
    assert len(FillingRecord().after_failure("x" * 100_000, begun=100, now=110).reason) == 2000
