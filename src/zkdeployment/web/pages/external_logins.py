"""``/login/openid``: people log in at an OpenID provider; login sessions for people who logged in elsewhere."""

import hmac
import re
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from zkdeployment.model.logins.external import ExternalUser, attempt_of
from zkdeployment.model.user import LoginRefusal
from zkdeployment.ports.identity import IdentityProvider
from zkdeployment.ports.server import ServerAdapters
from zkdeployment.web.access import cookies
from zkdeployment.web.access.identity import client_address, login_status
from zkdeployment.web.access.local_paths import local_path
from zkdeployment.web.dependencies import ConnectedAdapters
from zkdeployment.web.pages.rendering import render_page

router = APIRouter(include_in_schema=False)

#: Where the provider sends browsers to.
_CALLBACK = "/login/openid/callback"

_ERROR = re.compile(r"[a-z_]{1,40}")


@router.get("/login/openid")
def begin_openid(
    request: Request, adapters: ConnectedAdapters, target: Annotated[str, Query(alias="next")] = "/"
) -> Response:
    """Lead the browser to the provider; a cookie binds the login to this browser."""
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
    """Begin a login session for a person who logged in elsewhere, and lead the browser on to ``target``."""
    outcome = adapters.logins.admit(person, client_address(request))
    if isinstance(outcome, LoginRefusal):
        raise HTTPException(login_status(outcome), f"{person.name} is not logged in: {outcome}")
    request.state.user = outcome
    # A page and not a redirect: a browser that comes from another site sends the new cookie only from our page.
    response = render_page(request, "arrive.html", target=local_path(target))
    cookies.set_session(request, response, adapters.logins.begin_session(outcome))
    return response


def _provider(adapters: ServerAdapters) -> IdentityProvider:
    if adapters.openid is None:
        raise HTTPException(404, "no OpenID provider is configured: expected openid-issuer in [server]")
    return adapters.openid


def _callback(request: Request) -> str:
    return cookies.site_of(request).url + _CALLBACK
