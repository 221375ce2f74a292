"""Attacks on logins, login sessions and rights, at two services that share one ZooKeeper."""

from __future__ import annotations

import math
import re
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from fastapi.routing import APIRoute

from support.service import RunningService, form_token, running_service
from support.waiting import wait_until
from zkdeployment.base.act import Act
from zkdeployment.fleet.views.history import LoginProblem
from zkdeployment.service.application import api_routers, page_routers
from zkdeployment.service.users.user import Role

ACT = Act("tests", "change", "a test", 0.0)

#: The routes that need no login begin with one of these.
PUBLIC = ("/docs", "/healthz", "/login", "/logout", "/schemas", "/static/")

#: The routes of tenants begin with one of these; what belongs to others is refused there.
#: A tenant receives the frame without the state of the fleet.
OF_TENANTS = (
    "/api/v1/events",
    "/api/v1/nodes",
    "/api/v1/pool",
    "/api/v1/session",
    "/api/v1/tenants",
    "/frame",
    "/pools",
)

ROUTES = sorted(
    (method, route.path)
    for router in (*api_routers(), *page_routers())
    for route in router.routes
    if isinstance(route, APIRoute) and not route.path.startswith(PUBLIC)
    for method in route.methods
)


@pytest.fixture
def services(zookeeper):
    with running_service(zookeeper) as one, running_service(zookeeper) as other:
        yield one, other


def path_of(route: str) -> str:
    """Return a path of a route, with 1 for each parameter."""
    return re.sub(r"\{[^}]*\}", "1", route)


def read(service: RunningService, session: str) -> int:
    """Return the status of a request in a login session."""
    answer = httpx.get(f"{service.url}/api/v1/audit", headers={"Cookie": f"session={session}"}, timeout=None)
    return answer.status_code


def test_every_route_asks_for_a_login_and_every_act_for_the_right_to_act(service: RunningService):
    assert len(ROUTES) > 15
    logins = {role: service.add_user(role) for role in (Role.VIEWER, Role.TENANT, Role.MONITORING)}
    for method, route in ROUTES:
        path = path_of(route)
        answer = service.client.request(method, path)
        assert (answer.status_code == 303 and answer.headers["Location"].startswith("/login?next=")) or (
            answer.status_code == 401
        ), (method, path)
        for role, login in logins.items():
            if role is Role.TENANT and (route == "/" or route.startswith(OF_TENANTS)):  # / leads to /pools
                continue
            if role is not Role.VIEWER or method != "GET" or route.startswith("/api/v1/session"):
                refused = service.client.request(method, path, auth=login)
                # A monitoring system may ask, but 1 is neither an instance nor its name, and a body is missing.
                is_asking = role is Role.MONITORING and route.startswith("/deployments/")
                assert refused.status_code in ({400, 403, 422} if is_asking else {403}), (role, method, path)


@pytest.mark.nightly
def test_guesses_at_two_services_share_the_throttle(services):
    name, key = services[0].add_user(Role.OPERATOR)
    statuses = []

    def guess(number: int) -> None:
        answer = services[number % 2].client.get("/api/v1/audit", auth=(name, f"guess {number}"))
        while answer.status_code == 503:  # a slow machine: too many logins wait already
            answer = services[number % 2].client.get("/api/v1/audit", auth=(name, f"guess {number}"))
        statuses.append(answer.status_code)
        assert (answer.status_code == 429) == ("Retry-After" in answer.headers)

    begun = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(guess, range(60)))
    assert set(statuses) == {401, 429}
    # 20 guesses are free; each further one waits twice as long, so that few fit into the time of this test.
    assert 20 <= statuses.count(401) <= 23 + math.log2(2 + time.monotonic() - begun)

    def wait() -> int:
        answer = services[0].client.get("/api/v1/audit", auth=(name, "another guess"))
        return int(answer.headers.get("Retry-After", 0))

    wait_until(lambda: wait() >= 8, "the wait is longer than the rest of this test")
    for one in services:
        page = one.client.get("/login")
        fields = {"name": name, "key": key, "csrf_token": form_token(page.text)}
        slowed = one.client.post("/login", data=fields | {"key": "another guess"})
        assert (slowed.status_code, "session" in one.client.cookies) == (429, False)
        assert int(slowed.headers["Retry-After"]) >= 1

        def log_in(one: RunningService = one, fields: dict[str, str] = fields) -> bool:
            return one.client.post("/login", data=fields).status_code == 303

        wait_until(log_in, "the login with the right key from the address of the guesses")


def test_a_login_never_adopts_a_session_that_the_browser_had(services):
    one, other = services
    victim, attacker = one.add_user(Role.OPERATOR, "victim"), one.add_user(Role.OPERATOR, "attacker")
    planted = "planted-by-an-attacker"
    with one.browser(attacker) as browser:
        valid = browser.cookies["session"]
    for fixed in (planted, valid):
        with httpx.Client(base_url=one.url, cookies={"session": fixed}, timeout=None) as browser:
            page = browser.get("/login")
            name, key = victim
            answer = browser.post("/login", data={"name": name, "key": key, "csrf_token": form_token(page.text)})
            assert answer.status_code == 303
            issued = answer.headers["Set-Cookie"].partition("=")[2].partition(";")[0]
        assert issued not in {planted, valid}
        assert one.adapters.logins.session_user(issued).name == "victim"
    assert other.adapters.logins.session_user(valid).name == "attacker"
    assert read(other, planted) == 401


@pytest.mark.parametrize("end", ["reset_key", "retire"])
def test_all_sessions_and_the_key_of_a_user_end_at_every_service(services, end):
    one, other = services
    name, key = one.add_user(Role.OPERATOR)
    with one.browser((name, key)) as first, other.browser((name, key)) as second:
        sessions = [first.cookies["session"], second.cookies["session"]]
    for service in services:
        assert [read(service, session) for session in sessions] == [200, 200]
        assert service.client.get("/api/v1/audit", auth=(name, key)).status_code == 200
    getattr(one.adapters.users, end)(name, ACT)
    status = {"reset_key": 401, "retire": 403}[end]
    for service in services:
        for session in sessions:
            wait_until(lambda service=service, session=session: read(service, session) == 401, "the end")
        assert service.client.get("/api/v1/audit", auth=(name, key)).status_code == status


def test_a_logged_out_cookie_is_of_no_use(services):
    one, other = services
    with one.browser(one.add_user(Role.OPERATOR)) as browser:
        session = browser.cookies["session"]
        assert read(other, session) == 200
        token = form_token(browser.get("/login").text)
        forged = browser.post("/logout")
        assert forged.status_code == 403
        assert browser.post("/logout", data={"csrf_token": token}).status_code == 303
        assert "session" not in browser.cookies
    for service in services:
        wait_until(lambda service=service: read(service, session) == 401, "the session has ended")


def test_an_unknown_name_takes_as_long_as_a_wrong_key(service: RunningService):
    for number in range(8):
        service.add_user(Role.VIEWER, f"known{number}")
    logins = service.adapters.logins

    def seconds(name: str, address: str) -> float:
        begun = time.process_time()
        assert logins.verify(name, "wrong", address).problem is LoginProblem.WRONG
        return time.process_time() - begun

    seconds("warm-up", "203.0.113.99")
    known, unknown = [], []
    for number in range(8):
        known.append(seconds(f"known{number}", f"198.51.100.{number}"))
        unknown.append(seconds(f"unknown{number}", f"203.0.113.{number}"))
    assert 0.5 < min(unknown) / min(known) < 2


def test_forms_and_cookies_of_another_user_do_not_fit(service: RunningService):
    with (
        service.browser(service.add_user(Role.OPERATOR, "eve")) as eve,
        service.browser(service.add_user(Role.OPERATOR, "ann")) as ann,
    ):
        token = form_token(eve.get("/login").text)
        headers = {"X-CSRF-Token": token}
        assert ann.post("/api/v1/stop", json={"reason": "x"}, headers=headers).status_code == 403
        own = {"X-CSRF-Token": form_token(ann.get("/login").text)}
        for origin in ("https://evil.example.com", "null", f"{service.url}.evil.example.com"):
            forged = ann.post("/api/v1/stop", json={"reason": "x"}, headers=own | {"Origin": origin})
            assert (forged.status_code, "another site" in forged.json()["detail"]) == (403, True)
        assert ann.post("/api/v1/stop", json={"reason": "x"}, headers=own).status_code != 403


@pytest.mark.parametrize(
    "header",
    [
        "Basic",
        "Basic !!!",
        "Basic YQ==",
        "Basic //8=",
        "Bearer x",
        "basic\tYTpi",
        "Basic " + "A" * 20_000,
    ],
)
def test_malformed_credentials_are_refused(service: RunningService, header: str):
    answer = httpx.get(f"{service.url}/api/v1/audit", headers={"Authorization": header}, timeout=None)
    assert answer.status_code == 401


def test_no_key_and_no_token_is_in_zookeeper_or_in_the_log(service, client, capfd):
    name, key = service.add_user(Role.OPERATOR)
    with service.browser((name, key)) as browser:
        session = browser.cookies["session"]
        browser.get("/audit", params={"who": "x"})
    service.client.get("/api/v1/audit", auth=(name, key))
    service.client.get("/api/v1/audit", auth=(name, "not " + key))

    def nodes(path: str) -> str:
        below = (nodes(f"{path}/{child}") for child in client.get_children(path))
        return f"{path}: {client.get(path)[0]!r}\n" + "".join(below)

    stored = nodes("/zkdeployment")
    assert f"/zkdeployment/users/{name}" in stored
    printed = "".join(capfd.readouterr())
    for secret in (key, session):
        assert secret not in stored
        assert secret not in printed
