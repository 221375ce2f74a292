"""Logins of people: the form, the cookie, the redirect, throttling, and the end of the session."""

import httpx
import pytest

from support.service import RunningService, form_token, running_service
from zkdeployment.service.site import Site
from zkdeployment.service.users.user import Role


def submit(client: httpx.Client, login: tuple[str, str], **fields: str) -> httpx.Response:
    """Fill in and send the login form."""
    page = client.get("/login")
    name, key = login
    data = {"name": name, "key": key, "csrf_token": form_token(page.text), "next": "/"}
    return client.post("/login", data=data | fields)


def test_a_login_sets_a_session_cookie_that_scripts_and_other_sites_cannot_use(service: RunningService):
    login = service.add_user(Role.VIEWER)
    answer = submit(service.client, login)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    session, forgotten = sorted(answer.headers.get_list("Set-Cookie"), reverse=True)
    assert session.startswith("session=")
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(session.split("; "))
    assert "Expires" not in session
    assert forgotten.startswith('login=""')
    assert login[1] not in session


def test_under_tls_the_cookie_is_secure_and_bound_to_the_host(zookeeper: str):
    site = Site(hosts=frozenset({"127.0.0.1"}), authority="deploy.example.com", encrypted=True)
    with running_service(zookeeper, site) as service:
        page = service.client.get("/login")
        (cookie,) = page.headers.get_list("Set-Cookie")
    assert cookie.startswith("__Host-login=")
    assert {"HttpOnly", "Secure", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
    assert "Domain" not in cookie
    assert page.headers["Strict-Transport-Security"] == "max-age=31536000"


def test_a_wrong_key_and_an_unknown_name_get_the_same_answer(service: RunningService):
    name, _ = service.add_user(Role.VIEWER)
    wrong, unknown = submit(service.client, (name, "x")), submit(service.client, ("nobody", "x"))
    assert wrong.status_code == unknown.status_code == 401
    assert "the name or the key is wrong" in wrong.text
    assert "session" not in service.client.cookies


def test_failed_logins_are_slowed_down(service: RunningService):
    login = service.add_user(Role.VIEWER)
    answers = [submit(service.client, (login[0], f"wrong-{number}")) for number in range(25)]
    throttled = [answer for answer in answers if answer.status_code == 429]
    assert throttled
    assert int(throttled[0].headers["Retry-After"]) >= 1
    assert "too many failed logins" in throttled[0].text


@pytest.mark.parametrize(
    ("target", "arrival"),
    [
        ("/hosts/host1?sort=state", "/hosts/host1?sort=state"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example/", "/"),
        ("/\t/evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\r\nSet-Cookie: a=b", "/"),
        ("", "/"),
    ],
)
def test_a_login_leads_to_paths_of_this_site_only(service: RunningService, target: str, arrival: str):
    login = service.add_user(Role.VIEWER)
    assert submit(service.client, login, next=target).headers["Location"] == arrival


def test_a_login_without_the_token_of_the_form_is_refused(service: RunningService):
    name, key = service.add_user(Role.VIEWER)
    bare = service.client.post("/login", data={"name": name, "key": key})
    forged = submit(service.client, (name, key), csrf_token="0" * 32 + "." + "0" * 64)
    assert bare.status_code == forged.status_code == 403


def test_the_login_page_shows_hostile_names_as_text(service: RunningService):
    answer = submit(service.client, ('"><script>alert(1)</script>', "x"), next='/"><script>alert(1)</script>')
    assert "<script>" not in answer.text


def test_logging_out_ends_the_session_everywhere(service: RunningService):
    login = service.add_user(Role.VIEWER)
    with service.browser(login) as browser:
        token = browser.cookies["session"]
        assert service.adapters.logins.session_user(token) is not None
        page = browser.get("/login")
        answer = browser.post("/logout", data={"csrf_token": form_token(page.text)})
        assert (answer.status_code, answer.headers["Location"]) == (303, "/login")
        assert "session" not in browser.cookies
    assert service.adapters.logins.session_user(token) is None
