"""Login sessions: one node for each, named by a digest of its token, which is stored nowhere."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from typing import TYPE_CHECKING

from zkdeployment.adapters.shared_calls import SharedCall
from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Create, Delete
from zkdeployment.adapters.zookeeper.users.throttle import make_parents
from zkdeployment.adapters.zookeeper.users.watched_nodes import WatchedNodes
from zkdeployment.errors import ConflictError, UnreachableError
from zkdeployment.model.logins.login import LoginSession, begin_login, sessions_to_end

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.servers import AclEntry
    from zkdeployment.model.user import User

_TOKEN_BYTES = 32
#: Characters; no token is longer.
_LONGEST_TOKEN = 100

#: Seconds that a request waits for ZooKeeper's answer to another one.
_PATIENCE = 2.0


class LoginSessions:
    """The login sessions below ``/zkdeployment/logins/sessions``."""

    def __init__(self, session: Session, acl: tuple[AclEntry, ...]) -> None:
        self._session, self._acl = session, acl
        self._nodes = WatchedNodes(session)
        self._synced: SharedCall[None] = SharedCall(patience=_PATIENCE, late=_late)

    def begin(self, user: User, now: float) -> str:
        """Create a login session and return its token; remove expired ones and the oldest of too many."""
        make_parents(self._session, self._acl, paths.LOGIN_SESSIONS)
        self._make_room(user, now)
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        path = _path(token)
        try:
            self._session.commit(Create(path, _encode(begin_login(user, now)), acl=self._acl))
        except UnreachableError:
            if self._session.get(path) is None:
                raise
        return token

    def find(self, token: str) -> LoginSession | None:
        """Return the login session of a token; ``None`` if it does not exist.

        A session that another service began a moment ago is found: the server that this service asks may lag
        behind.
        """
        if not _is_token(token):
            return None
        login = _decode(self._nodes.get(_path(token)))
        if login is not None:
            return login
        self._synced.get(self._session.sync)
        return _decode(self._nodes.get(_path(token)))

    def end(self, token: str) -> None:
        """Remove the login session of a token, if there is one."""
        if _is_token(token):
            self._remove(_path(token))

    def _make_room(self, user: User, now: float) -> None:
        names = self._session.children(paths.LOGIN_SESSIONS) or []
        nodes = self._session.get_many(f"{paths.LOGIN_SESSIONS}/{name}" for name in names)
        sessions = {name: _decode(node) for name, node in zip(names, nodes, strict=True)}
        for name in sessions_to_end(sessions, user.name, now):
            self._remove(f"{paths.LOGIN_SESSIONS}/{name}")

    def _remove(self, path: str) -> None:
        with contextlib.suppress(ConflictError):  # another service removed it
            self._session.commit(Delete(path))
        self._nodes.forget(path)


def _late(seconds: float) -> UnreachableError:
    return UnreachableError(f"ZooKeeper has not answered for {seconds:g} s; try again")


def _path(token: str) -> str:
    return f"{paths.LOGIN_SESSIONS}/{hashlib.sha256(token.encode('ascii')).hexdigest()}"


def _is_token(token: str) -> bool:
    return token.isascii() and 0 < len(token) <= _LONGEST_TOKEN


def _encode(login: LoginSession) -> bytes:
    return encode(
        {
            "user": login.user,
            "user_id": login.user_id,
            "key_number": login.key_number,
            "created_at": login.created_at,
            "expires_at": login.expires_at,
        }
    )


def _decode(node: Node | None) -> LoginSession | None:
    """Decode the node of a login session; ``None`` if it does not exist, or if it is malformed."""
    match {} if node is None else node.properties:
        case {
            "user": str(user),
            "user_id": int(user_id),
            "key_number": int(key_number),
            "created_at": int(created_at) | float(created_at),
            "expires_at": int(expires_at) | float(expires_at),
        }:
            return LoginSession(user, user_id, key_number, created_at, expires_at)
        case _:
            return None
