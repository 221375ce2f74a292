"""``/login`` and ``/logout``: people log in with a key, at an OpenID provider or through a proxy."""

import hmac
import re
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from zkdeployment.service.access import cookies
from zkdeployment.service.access.cookies import require_form_token
from zkdeployment.service.access.identity import (
    client_address,
    known_sessions,
    login_headers,
    login_status,
    login_turns,
    proxied_user,
)
from zkdeployment.service.dependencies import Adapters, ConnectedAdapters, ServerAdapters, check_connection
from zkdeployment.service.openid import OpenIdProvider
from zkdeployment.service.pages.live_page import render_page
from zkdeployment.service.users.external_logins import ExternalUser, attempt_of
from zkdeployment.service.users.user import LoginRefusal, User
from zkdeployment.service.views.frame import local_path

router = APIRouter(include_in_schema=False)

#: The path to which the provider redirects browsers.
_CALLBACK = "/login/openid/callback"

_ERROR = re.compile(r"[a-z_]{1,40}")


@router.get("/login/openid")
def begin_openid(
    request: Request, adapters: ConnectedAdapters, target: Annotated[str, Query(alias="next")] = "/"
) -> Response:
    """Redirect the browser to the provider; a cookie binds the login to this browser."""
    secret = cookies.new_login_secret()
    response = RedirectResponse(_provider(adapters).login_url(attempt_of(secret), _callback(request)), 303)
    cookies.set_openid_attempt(request, response, secret, local_path(target))
    return response


@router.get(_CALLBACK)
def finish_openid(
    request: Request,
    adapters: ConnectedAdapters,
    code: Annotated[str, Query(max_length=4096)] = "",
    state: Annotated[str, Query(max_length=200)] = "",
    error: str = "",
) -> Response:
    """Begin a login session for the person whom the provider has authenticated for this browser."""
    provider = _provider(adapters)
    begun = cookies.openid_attempt(request)
    attempt = None if begun is None else attempt_of(begun[0])
    if begun is None or attempt is None or not hmac.compare_digest(attempt.state.encode(), state.encode()):
        raise HTTPException(403, "this login was not begun in this browser, or it took too long; log in again")
    if error or not code:
        reason = error if _ERROR.fullmatch(error) else "it sent no code"
        raise HTTPException(403, f"the provider did not log you in: {reason}; log in again")
    person = provider.find_user(code, attempt, _callback(request))
    if isinstance(person, str):
        raise HTTPException(403, person)
    response = begin_external_session(request, adapters, person, begun[1])
    cookies.end_openid_attempt(request, response)
    return response


def begin_external_session(
    request: Request, adapters: ServerAdapters, person: ExternalUser, target: str
) -> Response:
    """Begin a login session for a person who logged in elsewhere, and redirect the browser to ``target``."""
    outcome = adapters.logins.admit(person, client_address(request))
    if isinstance(outcome, LoginRefusal):
        raise HTTPException(login_status(outcome), f"{person.name} is not logged in: {outcome}")
    request.state.user = outcome
    # A page and not a redirect: a browser from another site sends the new cookie only from our page.
    response = render_page(request, "arrive.html", target=local_path(target))
    cookies.set_session(request, response, adapters.logins.begin_session(outcome))
    return response


def _provider(adapters: ServerAdapters) -> OpenIdProvider:
    if adapters.openid is None:
        raise HTTPException(404, "no OpenID provider is configured: expected openid-issuer in [server]")
    return adapters.openid


def _callback(request: Request) -> str:
    return cookies.site_of(request).url + _CALLBACK


#: The longest name and key that are read.
_MOST_CHARACTERS = 200

FormText = Annotated[str, Form(max_length=_MOST_CHARACTERS)]


@router.get("/login")
def show_login(
    request: Request, adapters: Adapters, target: Annotated[str, Query(alias="next")] = "/"
) -> Response:
    """Return the page with the login form; log in at once a person whom a proxy has authenticated."""
    # Images and frames of other sites must not begin login sessions, which would end older sessions.
    visited = request.headers.get("Sec-Fetch-Dest", "document") == "document"
    person = proxied_user(request) if visited else None
    if person is not None:
        check_connection(adapters)
        return begin_external_session(request, adapters, person, target)
    return _login_page(request, adapters, target)


async def verify_form(
    request: Request, adapters: ConnectedAdapters, name: FormText, key: FormText
) -> User | LoginRefusal:
    """Return the user whose name and key the form has, or why the login is refused."""
    return await login_turns(request).verify(adapters, name.strip(), key.strip(), client_address(request))


@router.post("/login", dependencies=[Depends(require_form_token)])
def submit_login(
    request: Request,
    adapters: ConnectedAdapters,
    outcome: Annotated[User | LoginRefusal, Depends(verify_form)],
    name: FormText,
    target: Annotated[str, Form(alias="next")] = "/",
) -> Response:
    """Begin a login session and return to the page that asked for it."""
    if isinstance(outcome, LoginRefusal):
        return _login_page(request, adapters, target, refusal=outcome, name=name)
    request.state.user = outcome
    response = RedirectResponse(local_path(target), 303)
    cookies.set_session(request, response, adapters.logins.begin_session(outcome))
    return response


@router.post("/logout")
def log_out(request: Request, adapters: ConnectedAdapters) -> Response:
    """End the login session."""
    token = cookies.session_token(request)
    if token is not None:
        adapters.logins.end_session(token)
        known_sessions(request).remember(token, None, adapters.clock.monotonic())
    response = RedirectResponse("/login", 303)
    cookies.end_session(request, response)
    return response


def _login_page(
    request: Request, adapters: ServerAdapters, target: str, *, refusal: LoginRefusal | None = None, name: str = ""
) -> Response:
    known = cookies.form_secrets(request)
    secret = known[0] if known else cookies.new_login_secret()
    response = render_page(
        request,
        "login.html",
        status=200 if refusal is None else login_status(refusal),
        headers=None if refusal is None else login_headers(refusal),
        token=cookies.new_form_token(secret),
        target=local_path(target),
        problem=None if refusal is None else str(refusal),
        name=name,
        openid=adapters.openid is not None,
    )
    if not known:
        cookies.set_login_secret(request, response, secret)
    return response
