"""A thread that works for all services while its service is elected, and reads the fleet from the feed."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from zkdeployment.base.daemon.cycles import CycleFailures, FailureKind
from zkdeployment.base.errors import ZkdeploymentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.fleet.feed.feed import ZooKeeperFeed
    from zkdeployment.zookeeper.contender_lock import ContenderLock

#: Seconds of each wait in the queue of the election, and for the end of the thread.
_QUEUED = 1.0
_CLOSING = 2.0


class ElectedThread:
    """Calls ``begin`` when this service is elected by ``lock``, and then ``work`` after each change of ``feed``.

    ``work`` returns the seconds until its next call if nothing changes. Both may raise any error: the service then
    gives up its election and contends again. An error is logged once while it persists. ``name`` names the thread
    and its logs.
    """

    def __init__(
        self,
        name: str,
        *,
        feed: ZooKeeperFeed,
        lock: ContenderLock,
        work: Callable[[], float],
        begin: Callable[[], object] = lambda: None,
    ) -> None:
        self._feed, self._lock, self._work, self._begin = feed, lock, work, begin
        paused = FailureKind(ZkdeploymentError, f"{name}-paused", logging.WARNING)
        self._failures = CycleFailures([paused, FailureKind(Exception, f"{name}-failed", logging.ERROR)])
        self._wake, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to contend for the election."""
        self._feed.subscribe(self._wake.set)
        self._thread.start()

    def close(self) -> None:
        """Stop the work, and let another service be elected."""
        self._closed.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSING)

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                if self._is_elected():
                    self._follow()
                self._failures.end()
            except Exception as error:  # noqa: BLE001  the service's other parts continue
                self._failures.report(error)
                self._lock.release()
                self._closed.wait(_QUEUED)
        self._lock.release()

    def _is_elected(self) -> bool:
        """Contend for a moment, once the fleet was read."""
        if self._feed.recent_events().base:
            return self._lock.acquire(_QUEUED)
        self._wake.wait(_QUEUED)
        self._wake.clear()
        return False

    def _follow(self) -> None:
        """Work until the end; raises ``LockLostError`` if this service is no longer elected."""
        self._begin()
        while not self._closed.is_set():
            self._wake.clear()
            self._lock.check()
            pause = self._work()
            self._failures.end()
            self._wake.wait(pause)
