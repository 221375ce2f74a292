"""The part of a service that reports hosts which did not come back from their reboots in time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from zkdeployment.fleet.feed.feed_thread import FeedThread
from zkdeployment.publishing.store.reboots import expire_reboots

if TYPE_CHECKING:
    from zkdeployment.fleet.feed.feed import ZooKeeperFeed
    from zkdeployment.zookeeper.session import Session

#: Seconds between two checks.
_INTERVAL = 15.0


class RebootWatch(FeedThread):
    """Reports reboots whose deadline has passed."""

    NAME: ClassVar[str] = "reboot-watch"

    def __init__(self, feed: ZooKeeperFeed, session: Session) -> None:
        super().__init__(feed)
        self._session = session
        self._due = 0.0

    def _work(self) -> float:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + _INTERVAL
            expire_reboots(self._session, time.time())
        return max(0.0, self._due - now)
