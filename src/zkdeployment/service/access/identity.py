"""Identifies the sender of a request: a program with a key, a person with a login session, or a trusted proxy.

The rights that routes require are types of their parameters.

A key that waits for its turn occupies no thread, so that any number of clients may begin to work at the same time.
Each request reads the user, so that changes of rights and retirements take effect at once.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections import OrderedDict
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import anyio
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Depends, Request, Security
from fastapi.security import HTTPBasic, HTTPBasicCredentials
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from zkdeployment.base.errors import BusyError, UnreachableError
from zkdeployment.fleet.views.history import LoginProblem
from zkdeployment.service.access.cookies import SAFE_METHODS, session_token, site_of
from zkdeployment.service.dependencies import Adapters, ServerAdapters, check_connection
from zkdeployment.service.users.external_logins import PROXY_IDENTITY, ExternalUser
from zkdeployment.service.users.logins import throttled_address
from zkdeployment.service.users.user import LoginRefusal, Right, Role, User, right_refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from zkdeployment.service.site import Site


#: Seconds for which people can read pages after their login session was last confirmed by ZooKeeper.
_LIMIT = 3600.0

_MOST_SESSIONS = 1000


class KnownSessions:
    """Remembers the users of login sessions; a thread-safe, bounded memory without the tokens themselves."""

    def __init__(self) -> None:
        self._users: OrderedDict[bytes, tuple[User, float]] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, token: str, user: User | None, now: float) -> None:
        """Keep the user of a session, or forget a session that has ended; ``now`` is monotonic seconds."""
        digest = _digest(token)
        with self._lock:
            self._users.pop(digest, None)
            if user is not None:
                self._users[digest] = user, now
                if len(self._users) > _MOST_SESSIONS:
                    self._users.popitem(last=False)

    def find(self, token: str, now: float) -> User | None:
        """Return the user of a session that was confirmed within the last hour."""
        with self._lock:
            user, confirmed = self._users.get(_digest(token), (None, 0.0))
        return user if now - confirmed < _LIMIT else None


def known_sessions(request: Request) -> KnownSessions:
    """Return the known sessions of the application that handles a request."""
    sessions: KnownSessions = request.app.state.known_sessions
    return sessions


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", errors="replace")).digest()


#: The number of addresses of which the service compares a key at the same time, one key each.
_AT_ONCE = 20

#: The limits of the keys of an address that wait, and of the seconds they wait: enough for the machines of a
#: network that all begin to work.
_QUEUE = 1000
_PATIENCE = 30.0


class LoginTurns:
    """The turns of one service, in the order of the requests of each address, and of the addresses."""

    def __init__(self) -> None:
        self._threads = CapacityLimiter(_AT_ONCE)
        self._lanes: dict[str, anyio.Lock] = {}

    async def verify(self, adapters: ServerAdapters, name: str, key: str, address: str) -> User | LoginRefusal:
        """Verify a key as ``ZooKeeperLogins.verify`` does.

        Raises ``BusyError`` if the turn does not come in time.
        """
        known = await run_sync(partial(adapters.logins.verify_again, name, key))
        if known is not None:
            return known
        async with self._turn(throttled_address(address)):
            return await run_sync(partial(adapters.logins.verify, name, key, address), limiter=self._threads)

    @asynccontextmanager
    async def _turn(self, network: str) -> AsyncIterator[None]:
        lane = self._lanes.setdefault(network, anyio.Lock())
        if lane.statistics().tasks_waiting >= _QUEUE:
            raise _busy()
        try:
            with anyio.fail_after(_PATIENCE):
                await lane.acquire()
        except TimeoutError:
            raise _busy() from None
        try:
            yield
        finally:
            lane.release()
            if not lane.locked():  # else it belongs to the next key
                del self._lanes[network]


def _busy() -> BusyError:
    return BusyError("the service is busy with other logins from your network; try again")


def login_turns(request: Request) -> LoginTurns:
    """Return the turns of the application that handles a request."""
    turns: LoginTurns = request.app.state.login_turns
    return turns


#: The key of the scope for the address of the connection, which is that of a proxy or of the client.
_PEER = "zkdeployment.peer"


class ProxyClients:
    """An ASGI application that replaces a proxy's address in a request by that of the client behind the proxy."""

    def __init__(self, application: ASGIApp, site: Site) -> None:
        self._application = application
        self._proxies = site.proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request."""
        if scope["type"] == "http" and scope.get("client") is not None:
            peer, port = scope["client"]
            forwarded = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
            client = self._proxies.client_address(peer, forwarded)
            scope = {**scope, _PEER: peer, "client": (client, port)}
        await self._application(scope, receive, send)


def proxied_user(request: Request) -> ExternalUser | None:
    """Return the person whom a proxy has authenticated; answer 403 if the person is not a user of the service."""
    proxies = site_of(request).proxies
    users = request.headers.getlist(proxies.user_header or "")
    groups = request.headers.getlist(proxies.groups_header or "")
    found = proxies.external_user(request.scope.get(_PEER, ""), users, groups)
    if isinstance(found, str):
        raise HTTPException(403, found)
    return found


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
        may_be_known = request.method in SAFE_METHODS
        user = await run_in_threadpool(session_user, request, adapters, may_be_known=may_be_known)
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


def session_user(request: Request, adapters: ServerAdapters, *, may_be_known: bool = True) -> User:
    """Return the user of the login session of a request; answer 401 without one.

    While ZooKeeper is unreachable, a person who has logged in may still read the data of the service: with
    ``may_be_known``, the session counts if ZooKeeper confirmed it within the last hour. Raises
    ``UnreachableError`` otherwise.
    """
    token, now = session_token(request), adapters.clock.monotonic()
    user = None
    if token is not None:
        known = known_sessions(request)
        try:
            check_connection(adapters, waits=request.method not in SAFE_METHODS)
            user = adapters.logins.session_user(token)
        except UnreachableError:
            user = known.find(token, now) if may_be_known else None
            if user is None:
                raise
        else:
            known.remember(token, user, now)
    if user is None:
        raise HTTPException(
            401, "not logged in: expected a user name and a key, or a login session", _challenge(request)
        )
    if user.identity == PROXY_IDENTITY and not _is_still_proxied(request, user):
        raise HTTPException(401, f"the proxy no longer confirms the user {user}", _challenge(request))
    return user


def _is_still_proxied(request: Request, user: User) -> bool:
    """Return whether the proxy confirms the user of the login session for a request."""
    person = proxied_user(request)
    return person is not None and (person.name, person.role) == (user.name, user.role)


def _challenge(request: Request) -> dict[str, str]:
    """Return the header that asks programs for a key; with it, a browser would open a login window of its own."""
    if "Sec-Fetch-Mode" in request.headers:
        return {}
    return {"WWW-Authenticate": f'Basic realm="{REALM}", charset="UTF-8"'}


CurrentUser = Annotated[User, Depends(identify)]


def require(right: Right) -> Callable[[User], User]:
    """Return a dependency that returns the user of a request if it has a right, and answers 403 otherwise."""

    def check(user: CurrentUser) -> User:
        if not user.may(right):
            raise HTTPException(403, right_refusal(user, right))
        return user

    return check


#: A user who may read the fleet.
Reader = Annotated[User, Depends(require(Right.READ_FLEET))]

#: A user who may read pools; tenants may read nothing else, but their own sessions.
PoolReader = Annotated[User, Depends(require(Right.READ_POOLS))]

#: A user who may lease nodes: a tenant, or an admin.
Tenant = Annotated[User, Depends(require(Right.LEASE_NODES))]

#: A user who may act on the fleet.
Operator = Annotated[User, Depends(require(Right.ACT_ON_FLEET))]


def require_monitoring(user: CurrentUser) -> User:
    """Return the user of a request if it is a monitoring system, and answer 403 otherwise.

    Other roles are refused: from a fetched deployment the coordinator concludes that the monitoring system has
    received it.
    """
    if user.role is not Role.MONITORING:
        raise HTTPException(
            403,
            f"the user {user} may not {Right.ANSWER_CHECKS.value}: its role is {user.role.value}; expected"
            f" {Role.MONITORING.value}",
        )
    return require(Right.ANSWER_CHECKS)(user)


#: A monitoring system: a user of its name.
Monitoring = Annotated[User, Depends(require_monitoring)]
