import pytest

from zkdeployment.base.act import Act
from zkdeployment.fleet.views.history import AuditRecords, FailedLogin, LoginProblem, Period, audit_records

ACTS = (
    Act("root@ops1", "stop", "fire", 1.0),
    Act("alice", "resume", "out", 2.0),
    Act("root@ops2", "hold", "", 3.0),
)
FAILED = (
    FailedLogin(1.0, "alice", "192.0.2.1", LoginProblem.WRONG),
    FailedLogin(2.0, None, "192.0.2.2", LoginProblem.WRONG),
)


def test_the_newest_records_come_first_up_to_the_limit():
    assert audit_records(ACTS, FAILED, limit=2) == AuditRecords((ACTS[2], ACTS[1]), (FAILED[1], FAILED[0]))
    assert audit_records(ACTS, FAILED, limit=1) == AuditRecords((ACTS[2],), (FAILED[1],))


@pytest.mark.parametrize(
    ("who", "acts", "failed"),
    [
        ("alice", (ACTS[1],), (FAILED[0],)),
        ("root", (ACTS[2], ACTS[0]), ()),
        ("root@ops1", (ACTS[0],), ()),
        ("192.0.2.2", (), (FAILED[1],)),
        ("nobody", (), ()),
    ],
)
def test_records_are_selected_by_user_operator_and_address(who, acts, failed):
    assert audit_records(ACTS, FAILED, who=who, limit=10) == AuditRecords(acts, failed)


def test_records_are_selected_by_their_period():
    assert audit_records(ACTS, FAILED, period=Period(since=2.0), limit=9) == audit_records(
        ACTS[1:], FAILED[1:], limit=9
    )
    assert audit_records(ACTS, FAILED, period=Period(until=2.0), limit=9) == audit_records(
        ACTS[:1], FAILED[:1], limit=9
    )


def test_the_json_has_both_kinds_of_records():
    assert audit_records(ACTS[:1], FAILED[1:], limit=9).to_json() == {
        "acts": [{"by": "root@ops1", "what": "stop", "reason": "fire", "time": 1.0}],
        "failed_logins": [
            {"time": 2.0, "user": None, "address": "192.0.2.2", "problem": "the name or the key is wrong"}
        ],
    }
