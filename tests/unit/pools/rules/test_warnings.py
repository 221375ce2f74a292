"""Warnings before sessions expire."""

from dataclasses import replace

import pytest

from zkdeployment.pools.rules.snapshot import (
    NodesSpec,
    TenantSession,
    due_warnings,
    next_warning,
    warning_time,
)

LONG = TenantSession(
    id=9, tenant=4, specs=(NodesSpec("metal", 1),), nodes=(1,), created_at=0.0, expires_at=6 * 3600.0
)
SHORT = replace(LONG, id=10, expires_at=600.0)


def test_tenants_are_warned_half_an_hour_before_the_end_or_after_half_of_a_short_session():
    assert warning_time(LONG) == 5.5 * 3600
    assert warning_time(SHORT) == 300.0


@pytest.mark.parametrize(
    ("now", "due"),
    [(0.0, []), (299.0, []), (300.0, [10]), (599.0, [10]), (600.0, []), (5.5 * 3600, [9]), (6 * 3600.0, [])],
)
def test_a_warning_is_due_between_its_time_and_the_end(now, due):
    assert [session.id for session in due_warnings((LONG, SHORT), now)] == due


def test_one_expiry_has_one_warning_and_an_extension_needs_another_one():
    (warned,) = due_warnings((LONG,), 5.6 * 3600)
    assert warned.is_warned
    assert due_warnings((warned,), 5.7 * 3600) == ()
    extended = replace(warned, expires_at=7 * 3600.0)
    assert due_warnings((extended,), 5.7 * 3600) == ()
    assert [session.id for session in due_warnings((extended,), 6.5 * 3600)] == [9]


def test_a_session_that_ended_has_no_warning():
    assert due_warnings((replace(LONG, retired_at=5.0),), 5.6 * 3600) == ()


def test_the_next_warning_is_the_earliest_that_is_still_to_come():
    assert next_warning((LONG, SHORT), 0.0) == 300.0
    assert next_warning((LONG, SHORT), 300.0) == 5.5 * 3600
    assert next_warning((replace(LONG, warned_expiry=LONG.expires_at),), 0.0) is None
