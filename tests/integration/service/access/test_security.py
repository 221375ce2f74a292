"""Attacks on the service: foreign pages and hosts, stolen and retired logins, missing rights, hostile requests."""

import json
import socket

import pytest

from support.service import RunningService, form_token
from support.waiting import wait_until
from zkdeployment.base.act import Act
from zkdeployment.service.users import key_hashes
from zkdeployment.service.users.user import Role

ACT = Act("tests", "user", "a test", 0.0)

GROUP_ACTS = ("adopt", "approve", "instantiate", "terminate")
CLUSTER_ACTS = ("adopt", "apply", "terminate")

#: The response to a request by role: 403 without the right, else the answer of an empty fleet.
MATRIX = {
    ("GET", "/api/v1/discovery/prometheus?service=/shop/web", None): {
        Role.VIEWER: 200,
        Role.OPERATOR: 200,
        Role.ADMIN: 200,
    },
    ("GET", "/api/v1/audit", None): {Role.OPERATOR: 200, Role.ADMIN: 200},
    ("POST", "/api/v1/stop", '{"reason": "r"}'): {Role.OPERATOR: 409, Role.ADMIN: 409},
    ("POST", "/api/v1/hold", '{"reason": "r"}'): {Role.OPERATOR: 409, Role.ADMIN: 409},
    ("POST", "/api/v1/cordon", '{"reason": "r", "hosts": ["h9"]}'): {Role.OPERATOR: 404, Role.ADMIN: 404},
    ("POST", "/api/v1/uncordon", '{"hosts": ["h9"]}'): {Role.OPERATOR: 404, Role.ADMIN: 404},
    ("POST", "/api/v1/resume", "{}"): {Role.OPERATOR: 409, Role.ADMIN: 409},
    ("POST", "/api/v1/publish", '{"reason": "r", "timeout": 0}'): {Role.OPERATOR: 503, Role.ADMIN: 503},
    ("POST", "/api/v1/rollout/promote", '{"reason": "r", "group": "g"}'): {Role.OPERATOR: 409, Role.ADMIN: 409},
    ("POST", "/api/v1/rollout/pause", '{"reason": "r"}'): {Role.OPERATOR: 409, Role.ADMIN: 409},
    ("POST", "/api/v1/rollout/resume", "{}"): {Role.OPERATOR: 409, Role.ADMIN: 409},
    ("POST", "/api/v1/rollout/abort", '{"reason": "r"}'): {Role.OPERATOR: 409, Role.ADMIN: 409},
    ("POST", "/api/v1/rollback", '{"reason": "r"}'): {Role.OPERATOR: 409, Role.ADMIN: 409},
    ("GET", "/api/v1/jobs/0123", None): {Role.VIEWER: 409, Role.OPERATOR: 409, Role.ADMIN: 409},
    **{
        ("POST", f"/v2/{path}", '{"reason": "r"}'): {Role.OPERATOR: 409, Role.ADMIN: 409}
        for path in (
            *(f"projects/p/composite-apps/a/v/deployment-intent-groups/g/{act}" for act in GROUP_ACTS),
            *(f"cluster-providers/p/clusters/c/{act}" for act in CLUSTER_ACTS),
        )
    },
    ("DELETE", "/v2/cluster-providers/p/clusters/c", None): {Role.OPERATOR: 409, Role.ADMIN: 409},
    ("GET", "/api/v1/left-services", None): {Role.VIEWER: 200, Role.OPERATOR: 200, Role.ADMIN: 200},
    ("POST", "/api/v1/releases", '{"reason": "r", "paths": ["/x"]}'): {Role.OPERATOR: 409, Role.ADMIN: 409},
    ("POST", "/api/v1/checks", '{"metadata": {"name": "c"}, "data": {}}'): {Role.OPERATOR: 422, Role.ADMIN: 422},
    ("DELETE", "/api/v1/checks/c", None): {Role.OPERATOR: 409, Role.ADMIN: 409},
    ("POST", "/api/v1/checks/instances/00000000-0000-5000-8000-000000000000/retry", "{}"): {
        Role.OPERATOR: 404,
        Role.ADMIN: 404,
    },
    ("GET", "/api/v1/checks", None): {Role.VIEWER: 200, Role.OPERATOR: 200, Role.ADMIN: 200},
    ("GET", "/api/v1/sessions", None): {Role.TENANT: 200, Role.ADMIN: 200},
    ("GET", "/api/v1/session", None): {Role.TENANT: 200, Role.ADMIN: 200},
    ("POST", "/api/v1/sessions", "{}"): {Role.TENANT: 422, Role.ADMIN: 422},
    ("PUT", "/api/v1/sessions/99", "{}"): {Role.TENANT: 404, Role.ADMIN: 404},
    ("GET", "/api/v1/pools", None): dict.fromkeys((Role.VIEWER, Role.OPERATOR, Role.TENANT, Role.ADMIN), 200),
    ("GET", "/api/v1/pool-usage", None): {Role.TENANT: 200, Role.ADMIN: 200},
    ("GET", "/api/v1/nodes/99", None): dict.fromkeys((Role.VIEWER, Role.OPERATOR, Role.TENANT, Role.ADMIN), 404),
    ("POST", "/api/v1/nodes", "{}"): {Role.ADMIN: 422},
    ("GET", "/api/v1/tenants", None): {Role.TENANT: 200, Role.ADMIN: 200},
    ("POST", "/api/v1/tenants", "{}"): {Role.ADMIN: 422},
    ("PUT", "/api/v1/tenants/99", '{"active": false}'): {Role.TENANT: 404, Role.ADMIN: 404},
    ("POST", "/api/v1/locks/release", '{"reason": "r", "name": "n"}'): {Role.OPERATOR: 404, Role.ADMIN: 404},
}


def test_each_role_has_exactly_the_rights_of_the_table(service: RunningService):
    logins = {role: service.add_user(role) for role in Role}
    found = {
        request: {
            role: answer.status_code
            for role, login in logins.items()
            if (
                answer := service.client.request(
                    request[0], request[1], json=None if request[2] is None else json.loads(request[2]), auth=login
                )
            ).status_code
            != 403
        }
        for request in MATRIX
    }
    assert found == MATRIX


def test_every_response_restricts_browsers(service: RunningService):
    viewer = service.add_user(Role.VIEWER)
    get = service.client.get
    answers = [get("/login"), get("/healthz"), get("/nothing"), get("/api/v1/audit"), get("/", auth=viewer)]
    for answer in answers:
        policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Referrer-Policy"] == "same-origin"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "Server" not in answer.headers
        assert "Strict-Transport-Security" not in answer.headers  # there is no TLS


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "192.0.2.1"])
def test_a_request_for_another_host_is_refused(service: RunningService, host: str):
    answer = service.client.get("/login", headers={"Host": host})
    assert answer.status_code == 400
    assert "unknown host name" in answer.json()["detail"]
    assert "Set-Cookie" not in answer.headers


def test_a_browser_acts_only_with_the_token_of_a_page(service: RunningService):
    login = service.add_user(Role.OPERATOR)
    with service.browser(login) as browser:
        token = form_token(browser.get("/login").text)
        bare = browser.post("/api/v1/stop", json={"reason": "r"})
        as_form = browser.post("/api/v1/stop", data={"reason": "r"})
        forged = browser.post("/api/v1/stop", json={"reason": "r"}, headers={"X-CSRF-Token": "a.b"})
        out = browser.post("/logout")
        allowed = browser.post("/api/v1/stop", json={"reason": "r"}, headers={"X-CSRF-Token": token})
    assert {bare.status_code, as_form.status_code, forged.status_code, out.status_code} == {403}
    assert "the form has expired" in bare.json()["detail"]
    assert allowed.status_code == 409  # there is no fleet to stop


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_foreign_page_cannot_act_with_the_login_that_a_browser_keeps(service: RunningService, headers):
    login = service.add_user(Role.OPERATOR)
    key = service.client.post("/api/v1/stop", json={"reason": "r"}, auth=login, headers=headers)
    with service.browser(login) as browser:
        token = {"X-CSRF-Token": form_token(browser.get("/login").text)}
        session = browser.post("/api/v1/stop", json={"reason": "r"}, headers=headers | token)
    assert key.status_code == session.status_code == 403
    assert "another site" in key.json()["detail"]


def test_a_retired_user_is_out_at_once(service: RunningService):
    login = service.add_user(Role.OPERATOR, "ann")
    with service.browser(login) as browser:
        before = [service.client.get("/api/v1/audit", auth=login), browser.get("/api/v1/audit")]
        service.adapters.users.retire("ann", ACT)
        after = [service.client.get("/api/v1/audit", auth=login), browser.get("/api/v1/audit")]
    assert [answer.status_code for answer in before] == [200, 200]
    assert [answer.status_code for answer in after] == [403, 401]
    assert after[0].json() == {"detail": "the user is retired"}


def test_error_pages_do_not_show_the_fleet_to_a_retired_user(service: RunningService):
    with service.browser(service.add_user(Role.OPERATOR, "ann")) as browser:
        assert 'id="fleet-state"' in browser.get("/missing").text
        service.adapters.users.retire("ann", ACT)
        missing = browser.get("/missing")
    assert missing.status_code == 404
    assert 'id="fleet-state"' not in missing.text


def test_a_new_key_ends_the_old_one_and_its_sessions(service: RunningService):
    login = service.add_user(Role.OPERATOR, "ann")
    with service.browser(login) as browser:
        issued = service.adapters.users.reset_key("ann", ACT)
        assert browser.get("/api/v1/audit").status_code == 401
    assert service.client.get("/api/v1/audit", auth=login).status_code == 401
    assert service.client.get("/api/v1/audit", auth=("ann", issued.key)).status_code == 200


def test_a_person_without_a_login_is_led_to_the_login_page_and_back(service: RunningService):
    answer = service.client.get("/?state=failed&page=2")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/login?next=/%3Fstate%3Dfailed%26page%3D2"
    # A browser that follows a link of another site keeps its cookies back once.
    arrival = service.client.get("/?state=failed", headers={"Sec-Fetch-Site": "cross-site"})
    assert arrival.status_code == 200
    assert '<meta http-equiv="refresh" content="0; url=/?state=failed">' in arrival.text


def test_programs_are_asked_for_a_key_and_scripts_of_pages_are_not(service: RunningService):
    program = service.client.get("/api/v1/audit")
    assert program.headers["WWW-Authenticate"] == 'Basic realm="zkdeployment", charset="UTF-8"'
    script = service.client.get("/api/v1/audit", headers={"Sec-Fetch-Mode": "cors"})
    assert (script.status_code, "WWW-Authenticate" in script.headers) == (401, False)
    for malformed in ("Basic", "Basic !", "Basic YQ==", "Bearer a", "Basic w6Q6w6Q="):
        assert service.client.get("/api/v1/audit", headers={"Authorization": malformed}).status_code == 401


def test_failed_logins_of_programs_are_slowed_down(service: RunningService):
    name, _ = service.add_user(Role.VIEWER)
    answers = [service.client.get("/api/v1/audit", auth=(name, f"wrong-{number}")) for number in range(25)]
    assert answers[0].status_code == 401
    throttled = [answer for answer in answers if answer.status_code == 429]
    assert throttled
    assert int(throttled[0].headers["Retry-After"]) >= 1


def test_a_key_is_hashed_once_for_many_requests(service: RunningService, monkeypatch: pytest.MonkeyPatch):
    login = service.add_user(Role.OPERATOR)
    hashed = []
    verify = key_hashes.KeyHasher.matches
    monkeypatch.setattr(key_hashes.KeyHasher, "matches", lambda *arguments: hashed.append(1) or verify(*arguments))
    statuses = {service.client.get("/api/v1/audit", auth=login).status_code for _ in range(20)}
    assert (statuses, len(hashed)) == ({200}, 1)


def test_the_service_answers_hostile_requests_and_continues(service: RunningService):
    port = int(service.url.rpartition(":")[2])
    for text in (
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /%00%ff/../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00",
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as raw:
            raw.sendall(text)
            raw.shutdown(socket.SHUT_WR)
            status = raw.recv(64).split(b" ")[1:2]
        assert status in ([b"400"], [b"404"], [b"431"], []), text[:40]
    wait_until(lambda: service.client.get("/healthz").status_code == 200, "the service still answers")
