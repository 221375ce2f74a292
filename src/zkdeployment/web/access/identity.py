"""Identifies the sender of a request: a program with a user name and a key, or a person with a login session.

The user is read for each request, so that changes of rights and retirements count at once.
"""

import math
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBasic, HTTPBasicCredentials
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from zkdeployment.errors import UnreachableError
from zkdeployment.model.logins.trusted_proxy import PROXY_IDENTITY
from zkdeployment.model.user import LoginProblem, LoginRefusal, User
from zkdeployment.ports.server import ServerAdapters
from zkdeployment.web.access.cookies import session_token
from zkdeployment.web.access.cross_site import SAFE_METHODS
from zkdeployment.web.access.known_sessions import known_sessions
from zkdeployment.web.access.login_turns import login_turns
from zkdeployment.web.access.proxies import proxied_user
from zkdeployment.web.dependencies import Adapters, check_connection

REALM = "zkdeployment"

_basic = HTTPBasic(
    scheme_name="key",
    realm=REALM,
    description="The name of a user, and its key as the password.",
    auto_error=False,
)

_STATUSES = {
    LoginProblem.WRONG: 401,
    LoginProblem.EXPIRED: 401,
    LoginProblem.RETIRED: 403,
    LoginProblem.THROTTLED: 429,
    LoginProblem.TAKEN: 403,
}


async def identify(
    request: Request, adapters: Adapters, credentials: Annotated[HTTPBasicCredentials | None, Security(_basic)]
) -> User:
    """Return the user who sent a request; answer 401, 403 or 429 without one."""
    if credentials is None:
        user = await run_in_threadpool(_user_of_session, request, adapters)
        if user.identity == PROXY_IDENTITY and not _is_still_proxied(request, user):
            raise HTTPException(401, f"the proxy no longer confirms the user {user}", _challenge(request))
    else:
        check_connection(adapters, waits=request.method not in SAFE_METHODS)
        turns, address = login_turns(request), client_address(request)
        outcome = await turns.verify(adapters, credentials.username, credentials.password, address)
        if isinstance(outcome, LoginRefusal):
            status = login_status(outcome)
            challenge = _challenge(request) if status == 401 else {}
            raise HTTPException(status, str(outcome), challenge | login_headers(outcome))
        user = outcome
    request.state.user = user
    return user


def login_status(refusal: LoginRefusal) -> int:
    """Return the status of the response to a refused login."""
    return _STATUSES[refusal.problem]


def login_headers(refusal: LoginRefusal) -> dict[str, str]:
    """Return the headers of the response to a refused login: when to try again."""
    throttled = refusal.problem is LoginProblem.THROTTLED
    return {"Retry-After": str(max(1, math.ceil(refusal.retry_after)))} if throttled else {}


def client_address(request: Request) -> str:
    """Return the address of the client of a request."""
    return "" if request.client is None else request.client.host


def _user_of_session(request: Request, adapters: ServerAdapters) -> User:
    token = session_token(request)
    known = known_sessions(request)
    user = None
    if token is not None:
        try:
            check_connection(adapters, waits=request.method not in SAFE_METHODS)
            user = adapters.logins.session_user(token)
        except UnreachableError:
            # A person who has logged in may still read the data of the service.
            user = known.find(token, adapters.clock.monotonic()) if request.method in SAFE_METHODS else None
            if user is None:
                raise
            return user
        known.remember(token, user, adapters.clock.monotonic())
    if user is None:
        raise HTTPException(
            401, "not logged in: expected a user name and a key, or a login session", _challenge(request)
        )
    return user


def _is_still_proxied(request: Request, user: User) -> bool:
    """Return whether the proxy confirms the user of the login session for a request."""
    person = proxied_user(request)
    return person is not None and (person.name, person.role) == (user.name, user.role)


def _challenge(request: Request) -> dict[str, str]:
    """Return the header that asks programs for a key; browsers would ask people with a window of their own."""
    if "Sec-Fetch-Mode" in request.headers:
        return {}
    return {"WWW-Authenticate": f'Basic realm="{REALM}", charset="UTF-8"'}


CurrentUser = Annotated[User, Depends(identify)]
