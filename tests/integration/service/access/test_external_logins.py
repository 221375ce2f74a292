"""People log in at an OpenID provider or through a proxy that has authenticated them."""

from ipaddress import ip_network

import httpx
import pytest

from support.service import form_token, running_service
from support.waiting import wait_until
from support.web.openid import CLIENT_ID, SECRET, OpenIdServer
from zkdeployment.base.act import Act
from zkdeployment.service.settings import ServerSettings
from zkdeployment.service.users.external_logins import RoleRule, group_rule
from zkdeployment.service.users.user import Role

ACT = Act("tests", "retire", "a test", 0.0)
LOCAL = (ip_network("127.0.0.0/8"),)


@pytest.fixture
def provider():
    with OpenIdServer() as server:
        server.claims["groups"] = ["ops"]
        yield server


@pytest.fixture
def openid_service(zookeeper, provider, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    settings = ServerSettings(
        openid_issuer=provider.url,
        openid_client_id=CLIENT_ID,
        openid_client_secret=secret,
        openid_roles=(RoleRule(Role.OPERATOR, "groups", "ops"),),
    )
    with running_service(zookeeper, settings=settings) as service:
        yield service


def log_in(browser: httpx.Client, target: str = "/audit") -> httpx.Response:
    """Log in as a browser does that follows the redirects; return the last response."""
    begun = browser.get("/login/openid", params={"next": target})
    assert begun.status_code == 303
    arrival = httpx.get(begun.headers["Location"], timeout=None)
    return browser.get(arrival.headers["Location"])


def audit(browser: httpx.Client) -> httpx.Response:
    return browser.get("/api/v1/audit")


def test_a_person_logs_in_at_the_provider_and_returns_to_the_page(openid_service):
    browser = openid_service.client
    assert "/login/openid?next=/" in browser.get("/login").text
    answer = log_in(browser, "/history?last=5")
    assert answer.status_code == 200
    assert 'content="0; url=/history?last=5"' in answer.text
    cookies = {cookie.partition("=")[0]: cookie for cookie in answer.headers.get_list("Set-Cookie")}
    assert {"HttpOnly", "SameSite=strict"} <= set(cookies["session"].split("; "))
    assert 'openid=""' in cookies["openid"]
    shown = audit(browser).json()
    assert [act["what"] for act in shown["acts"]] == ["add user ann (operator), who logged in elsewhere"]
    user = openid_service.adapters.users.user("ann")
    assert (user.role, user.identity.startswith("openid http://127.0.0.1:")) == (Role.OPERATOR, True)


def test_the_role_follows_the_groups_and_a_retired_person_is_out(openid_service, provider):
    browser = openid_service.client
    log_in(browser)
    assert audit(browser).status_code == 200
    provider.claims["groups"] = ["others"]
    refused = log_in(browser)
    assert (refused.status_code, "no role is configured for ann" in refused.text) == (403, True)
    openid_service.adapters.users.retire("ann", ACT)
    assert audit(browser).status_code == 401
    provider.claims["groups"] = ["ops"]
    again = log_in(browser)
    assert (again.status_code, "ann is not logged in: the user is retired" in again.text) == (403, True)


def test_a_name_belongs_to_one_person(openid_service, provider):
    openid_service.add_user(Role.ADMIN, "root")
    provider.claims["preferred_username"] = "root"
    refused = log_in(openid_service.client)
    assert (refused.status_code, "another user has this name" in refused.text) == (403, True)
    provider.claims["preferred_username"] = "ann"
    assert log_in(openid_service.client).status_code == 200
    provider.claims["sub"] = "another person"
    assert log_in(openid_service.client).status_code == 403
    failed = openid_service.adapters.logins.failed_logins()
    assert [one.user for one in failed] == ["root", "ann"]


def test_a_login_that_another_browser_began_is_refused(openid_service):
    with httpx.Client(base_url=openid_service.url, timeout=None) as attacker:
        begun = attacker.get("/login/openid")
        arrival = httpx.get(begun.headers["Location"], timeout=None).headers["Location"]
    victim = openid_service.client
    refused = victim.get(arrival)
    assert (refused.status_code, "not begun in this browser" in refused.text) == (403, True)
    victim.get("/login/openid")
    assert victim.get(arrival).status_code == 403
    assert "session" not in victim.cookies


@pytest.mark.parametrize("target", ["https://evil.example.com/", "//evil.example.com", "/\\evil.example.com"])
def test_a_login_does_not_lead_to_another_site(openid_service, target):
    answer = log_in(openid_service.client, target)
    assert 'content="0; url=/"' in answer.text
    assert "evil" not in answer.text


def test_a_refusal_of_the_provider_is_shown_as_text(openid_service):
    browser = openid_service.client
    for error in ("access_denied", "<script>alert(1)</script>"):
        begun = browser.get("/login/openid")
        state = httpx.URL(begun.headers["Location"]).params["state"]
        refused = browser.get("/login/openid/callback", params={"error": error, "state": state})
        assert refused.status_code == 403
        assert "the provider did not log you in" in refused.text
        assert "<script>alert" not in refused.text


def test_a_provider_that_is_away_is_reported_and_keys_still_work(openid_service, provider):
    provider.stop()
    away = openid_service.client.get("/login/openid")
    assert (away.status_code, "cannot be reached" in away.text) == (502, True)
    assert audit_with_key(openid_service) == 200


def audit_with_key(service) -> int:
    return service.client.get("/api/v1/audit", auth=service.add_user(Role.ADMIN)).status_code


def test_without_a_provider_there_is_no_such_login(service):
    assert service.client.get("/login/openid").status_code == 404
    assert "single sign-on" not in service.client.get("/login").text


PROXIES = ServerSettings(
    proxies=LOCAL,
    proxy_user="X-Remote-User",
    proxy_groups="X-Remote-Groups",
    proxy_roles=(group_rule(Role.OPERATOR, "ops"), group_rule(Role.VIEWER, "*")),
)


class TestProxies:
    def test_a_person_behind_the_proxy_is_logged_in_without_a_form(self, zookeeper):
        with running_service(zookeeper, settings=PROXIES) as service:
            headers = {"X-Remote-User": "ann", "X-Remote-Groups": "staff, ops", "X-Forwarded-For": "198.51.100.7"}
            with httpx.Client(base_url=service.url, headers=headers, timeout=None) as browser:
                embedded = browser.get("/login", headers={"Sec-Fetch-Dest": "image"})
                assert "session" not in embedded.cookies
                arrived = browser.get("/login", params={"next": "/audit"})
                assert 'content="0; url=/audit"' in arrived.text
                assert audit(browser).status_code == 200
                # The protection against forged requests stays: the cookie alone permits no act.
                assert browser.post("/api/v1/stop", json={"reason": "x"}).status_code == 403
                # Another person at the same proxy, another role, or a request around the proxy needs a new login.
                assert audit_as(browser, {"X-Remote-User": "bob"}) == 401
                assert audit_as(browser, {"X-Remote-Groups": "staff"}) == 401
                wait_until(service.has_read, "the service has read the fleet")
                assert 'id="fleet-state"' in browser.get("/missing").text
                assert 'id="fleet-state"' not in browser.get("/missing", headers={"X-Remote-User": "bob"}).text
                session = {"Cookie": f"session={browser.cookies['session']}"}
            assert httpx.get(f"{service.url}/api/v1/audit", headers=session, timeout=None).status_code == 401

    def test_failures_are_counted_for_the_clients_of_the_proxy(self, zookeeper):
        with running_service(zookeeper, settings=PROXIES) as service:
            for number in range(2):
                forwarded = {"X-Forwarded-For": f"203.0.113.9, 198.51.100.{number}"}
                service.client.get("/api/v1/audit", auth=("nobody", "x"), headers=forwarded)
            failed = service.adapters.logins.failed_logins()
            assert [one.address for one in failed] == ["198.51.100.0", "198.51.100.1"]

    def test_headers_of_clients_that_are_not_proxies_are_ignored(self, service):
        headers = {"X-Remote-User": "root", "X-Forwarded-For": "198.51.100.7", "X-Remote-Groups": "ops"}
        page = service.client.get("/login", headers=headers)
        assert form_token(page.text)
        assert "session" not in service.client.cookies
        service.client.get("/api/v1/audit", auth=("nobody", "x"), headers=headers)
        assert [one.address for one in service.adapters.logins.failed_logins()] == ["127.0.0.1"]


def audit_as(browser: httpx.Client, headers: dict[str, str]) -> int:
    return browser.get("/api/v1/audit", headers=headers).status_code
