"""``/login`` and ``/logout``: the login sessions of people."""

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import RedirectResponse, Response

from zkdeployment.model.user import LoginRefusal, User
from zkdeployment.ports.server import ServerAdapters
from zkdeployment.web.access import cookies
from zkdeployment.web.access.cross_site import require_form_token
from zkdeployment.web.access.identity import client_address, login_headers, login_status
from zkdeployment.web.access.known_sessions import known_sessions
from zkdeployment.web.access.local_paths import local_path
from zkdeployment.web.access.login_turns import login_turns
from zkdeployment.web.access.proxies import proxied_user
from zkdeployment.web.dependencies import Adapters, ConnectedAdapters, check_connection
from zkdeployment.web.pages.external_logins import begin_external_session
from zkdeployment.web.pages.rendering import render_page

router = APIRouter(include_in_schema=False)

#: The longest name and key that are read.
_MOST_CHARACTERS = 200

FormText = Annotated[str, Form(max_length=_MOST_CHARACTERS)]


@router.get("/login")
def show_login(
    request: Request, adapters: Adapters, target: Annotated[str, Query(alias="next")] = "/"
) -> Response:
    """Return the page with the login form; a person whom a proxy has authenticated is logged in at once."""
    # Pictures and frames of other sites must not begin login sessions, which would end older ones.
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
