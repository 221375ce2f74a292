"""The audit view of the API."""

from support.service import RunningService
from zkdeployment.base.act import Act
from zkdeployment.service.users.user import NewUser, Role


def test_operators_see_acts_and_failed_logins(service: RunningService):
    operator = service.add_user(Role.OPERATOR)
    assert service.client.get("/api/v1/audit", auth=("operator", "the wrong key")).status_code == 401
    answer = service.client.get("/api/v1/audit", auth=operator)
    assert answer.status_code == 200
    audit = answer.json()
    assert audit["schema"] == "zkdeployment/audit/v1"
    assert [act["what"] for act in audit["acts"]] == ["user"]
    (failed,) = audit["failed_logins"]
    assert (failed["user"], failed["address"]) == ("operator", "127.0.0.1")
    assert failed["problem"] == "the name or the key is wrong"
    assert "the wrong key" not in answer.text
    selected = service.client.get("/api/v1/audit", params={"who": "nobody"}, auth=operator).json()
    assert selected["acts"] == selected["failed_logins"] == []
    assert service.client.get("/api/v1/audit", params={"limit": 0}, auth=operator).status_code == 422


def test_others_do_not_see_the_audit(service: RunningService):
    for role in (Role.VIEWER, Role.TENANT, Role.MONITORING):
        answer = service.client.get("/api/v1/audit", auth=service.add_user(role))
        assert answer.status_code == 403
        assert answer.json()["detail"].startswith(f"the user {role.value} may not read who acted")
    assert service.client.get("/api/v1/audit").status_code == 401


def test_the_page_shows_acts_and_failed_logins_as_text(service: RunningService):
    operator = service.add_user(Role.OPERATOR)
    act = Act("eve<b>", "stop <script>alert(1)</script>", "\u202ereason", 5.0)
    service.adapters.users.add(NewUser(name="mallory", role=Role.VIEWER), act)
    service.client.get("/api/v1/audit", auth=("operator", "wrong"))
    with service.browser(operator) as browser:
        page = browser.get("/audit").text
        assert "stop &lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "<script>alert" not in page
        assert "eve&lt;b&gt;" in page
        assert "the name or the key is wrong" in page
        assert '<a href="/audit" data-key="a" aria-current="page">' in page
        selected = browser.get("/audit", params={"who": 'nobody"><b>'}).text
        assert "No act is recorded for nobody&#34;&gt;&lt;b&gt;." in selected
        assert "No login failed for" in selected
    with service.browser(service.add_user(Role.VIEWER)) as browser:
        assert browser.get("/audit").status_code == 403
        assert 'href="/audit"' not in browser.get("/").text
