"""Warns tenants before their sessions expire; sessions record warnings, so that each is given once.

Every service checks the sessions. The service that first records a warning has given it; all services report it as
an event of the session, and the elected service sends it to the receivers of webhooks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConflictError
from zkdeployment.base.log import get_logger
from zkdeployment.fleet.feed.feed_thread import FeedThread
from zkdeployment.pools.feed import pools_of
from zkdeployment.pools.rules.snapshot import PoolChange, TenantSession, due_warnings, next_warning

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.fleet.feed.feed import ZooKeeperFeed
    from zkdeployment.pools.store.store import ZooKeeperPools

#: The longest time in seconds between two checks of the sessions, because the clock may be set.
_LONGEST = 60.0


class SessionWarnings(FeedThread):
    """Gives the warnings of the sessions that ``feed`` shows."""

    NAME = "session-warnings"

    def __init__(self, feed: ZooKeeperFeed, store: ZooKeeperPools, clock: Clock) -> None:
        super().__init__(feed)
        self._store, self._clock = store, clock

    def _work(self) -> float:
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
