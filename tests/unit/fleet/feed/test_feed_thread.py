"""The thread of an elected service: what it logs, and that it tries again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from structlog.testing import capture_logs

from support.waiting import wait_until
from zkdeployment.base.errors import UnreachableError
from zkdeployment.fleet.feed.feed_thread import FeedThread

if TYPE_CHECKING:
    import pytest


class Lock:
    """A lock that this service has, unless ZooKeeper ``is_away``."""

    def __init__(self) -> None:
        self.is_away = False
        self.attempts = 0

    def acquire(self, _seconds: float) -> bool:
        self.attempts += 1
        self.check()
        return True

    def check(self) -> None:
        if self.is_away:
            raise UnreachableError("ZooKeeper does not answer")

    def release(self) -> None:
        """Do nothing."""


def test_while_zookeeper_is_away_the_pause_is_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zkdeployment.fleet.feed.feed_thread._QUEUED", 0.01)
    lock: Any = Lock()
    calls: list[int] = []

    class Work(FeedThread):
        NAME = "traces"

        def _work(self) -> float:
            calls.append(1)
            return 0.01

    feed: Any = SimpleNamespace(subscribe=lambda _: None, recent_events=lambda: SimpleNamespace(base=1))
    thread = Work(feed, lock)
    with capture_logs() as logs:
        thread.start()
        for number in range(2):
            before = len(calls)
            wait_until(lambda before=before: len(calls) > before + 1, "the work")
            lock.is_away, attempts = True, lock.attempts
            wait_until(lambda attempts=attempts: lock.attempts > attempts + 3, "attempts without ZooKeeper")
            assert [line["event"] for line in logs] == ["traces-paused"] * (number + 1)
            lock.is_away = False
        thread.close()
