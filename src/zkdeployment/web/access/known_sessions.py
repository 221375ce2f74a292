"""The login sessions that this service has seen, for the time when ZooKeeper is away."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import Request

    from zkdeployment.model.user import User

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
