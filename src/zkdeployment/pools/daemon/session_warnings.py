"""Warns tenants before their sessions expire; sessions record warnings, so that each is given once.

Every service checks the sessions. The service that first records a warning has given it; all services report it as
an event of the session, and the elected service sends it to the receivers of webhooks.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConflictError, UnreachableError, ZkdeploymentError
from zkdeployment.base.log import get_logger
from zkdeployment.pools.feed import pools_of
from zkdeployment.pools.rules.snapshot import PoolChange, TenantSession, due_warnings, next_warning

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.fleet.feed.feed import ZooKeeperFeed
    from zkdeployment.pools.store.store import ZooKeeperPools

#: The longest time in seconds between two checks of the sessions, because the clock may be set.
_LONGEST = 60.0

#: Seconds until the next attempt after an error.
_AGAIN = 1.0

#: Seconds for the thread to end; it may be waiting for an answer of ZooKeeper.
_CLOSING = 6.0


class SessionWarnings:
    """Gives the warnings of the sessions that ``feed`` shows, in a thread of its own."""

    def __init__(self, feed: ZooKeeperFeed, store: ZooKeeperPools, clock: Clock) -> None:
        self._feed, self._store, self._clock = feed, store, clock
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="session-warnings", daemon=True)

    def start(self) -> None:
        """Begin to check the sessions."""
        self._feed.subscribe(self._wake.set)
        self._thread.start()

    def close(self) -> None:
        """Give no more warnings."""
        self._closed.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSING)

    def _run(self) -> None:
        while True:
            self._wake.clear()
            if self._closed.is_set():  # checked after the event was cleared, so that no call of close is missed
                return
            pause = _AGAIN
            try:
                pause = self._look()
            except UnreachableError:
                pass  # the feed reports that
            except ZkdeploymentError as error:
                get_logger().warning("session-warning-failed", reason=str(error))
            except Exception:  # noqa: BLE001  the other parts of the service continue, and this thread tries again
                get_logger().exception("session-warnings-failed")
            self._wake.wait(pause)

    def _look(self) -> float:
        """Give the warnings that are due, and return the seconds until the next check."""
        sessions = pools_of(self._feed).snapshot.sessions
        now = self._clock.now()
        if due_warnings(sessions.values(), now):
            sessions = self._warn(now)
        coming = next_warning(sessions.values(), now)
        return _LONGEST if coming is None else min(coming - now, _LONGEST)

    def _warn(self, now: float) -> Mapping[int, TenantSession]:
        """Record the warnings that are due, each in a transaction of its own; return the present sessions."""
        read = self._store.read()
        for session in due_warnings(read.sessions.values(), now):
            try:
                self._store.commit(PoolChange(sessions=(session,)), read)
            except ConflictError:
                continue  # another service gave the warning, or the session changed; the feed shows which
            get_logger().info("session-warned", session=session.id, tenant=session.tenant)
        return read.sessions
