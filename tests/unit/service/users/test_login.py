from dataclasses import replace

import pytest

from support.builders import make_user
from zkdeployment.base.durations import CLOCK_TOLERANCE
from zkdeployment.fleet.views.history import FailedLogin, LoginProblem
from zkdeployment.service.users.logins import (
    SESSION_SECONDS,
    SESSIONS_OF_ALL,
    SESSIONS_OF_USER,
    LoginSession,
    begin_login,
    sessions_to_end,
)
from zkdeployment.service.users.user import Role

ALICE = make_user("alice", Role.OPERATOR, id=3, created_at=1.0)
LOGIN = begin_login(ALICE, 100.0)


def test_a_login_session_lasts_for_its_time():
    assert LoginSession("alice", 3, 1, 100.0, 100.0 + SESSION_SECONDS) == LOGIN
    assert LOGIN.belongs_to(ALICE, 100.0)
    assert not LOGIN.belongs_to(ALICE, 100.0 + SESSION_SECONDS)
    assert begin_login(ALICE, 100.0 + CLOCK_TOLERANCE).belongs_to(ALICE, 100.0)
    assert not begin_login(ALICE, 101.0 + CLOCK_TOLERANCE).belongs_to(ALICE, 100.0)  # it would last too long


@pytest.mark.parametrize(
    "changes",
    [{"retired_at": 150.0}, {"key_number": 2}, {"key_expires_at": 200.0}, {"id": 4}, {"name": "bob"}],
)
def test_a_login_session_ends_with_the_key_and_the_user(changes):
    assert not LOGIN.belongs_to(replace(ALICE, **changes), 200.0)


def test_expired_and_unreadable_sessions_end_when_another_begins():
    sessions = {"valid": LOGIN, "expired": LoginSession("bob", 1, 1, 0.0, 100.0), "damaged": None}
    assert sessions_to_end(sessions, "alice", 100.0) == ["damaged", "expired"]


def test_the_oldest_sessions_of_the_user_end_beyond_the_largest_number():
    sessions = {f"s{number:02}": begin_login(ALICE, 100.0 + number) for number in range(SESSIONS_OF_USER + 1)}
    assert sessions_to_end(sessions, "alice", 200.0) == ["s00", "s01"]
    assert sessions_to_end(sessions, "bob", 200.0) == []


def test_the_oldest_sessions_of_all_end_beyond_the_largest_number():
    sessions = {
        f"s{number:04}": replace(begin_login(ALICE, 100.0 + number), user=f"u{number}")
        for number in range(SESSIONS_OF_ALL)
    }
    assert sessions_to_end(sessions, "alice", 200.0) == ["s0000"]


def test_a_failed_login_reads_back_and_damage_reads_as_unknown():
    failed = FailedLogin(5.0, None, "192.0.2.7", LoginProblem.EXPIRED)
    assert FailedLogin.from_json(failed.to_json()) == failed
    assert FailedLogin.from_json({"time": "x", "user": 3}) == FailedLogin(0.0, None, "?", LoginProblem.WRONG)
