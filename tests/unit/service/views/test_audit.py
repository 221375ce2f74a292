from zkdeployment.base.act import Act
from zkdeployment.fleet.views.history import AuditRecords
from zkdeployment.service.users.logins import FailedLogin
from zkdeployment.service.users.user import LoginProblem
from zkdeployment.service.views.frame import moment
from zkdeployment.service.views.history import AuditedActRow, FailedLoginRow, audit_view


def test_acts_and_failed_logins_have_ages():
    records = AuditRecords(
        (Act("alice", "stop", "fire", 100.0), Act("bob", "resume", "", 0.0)),
        (FailedLogin(40.0, None, "192.0.2.1", LoginProblem.WRONG),),
    )
    view = audit_view(records, "", 160.0)
    assert view.acts == (
        AuditedActRow(moment(100.0, 160.0), "alice", "stop", "fire"),
        AuditedActRow(None, "bob", "resume", ""),
    )
    assert view.acts[0].at.age == "1 min ago"
    assert view.failed_logins == (
        FailedLoginRow(moment(40.0, 160.0), "an unknown name", "192.0.2.1", "the name or the key is wrong"),
    )
