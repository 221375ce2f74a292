"""The thread of an elected service: its logs, its attempts, and its end."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from structlog.testing import capture_logs

from support.waiting import UNLIMITED, wait_until
from zkdeployment.base.errors import UnreachableError
from zkdeployment.fleet.feed.feed_thread import FeedThread

if TYPE_CHECKING:
    import pytest

FEED: Any = SimpleNamespace(subscribe=lambda _: None, recent_events=lambda: SimpleNamespace(base=1))


class Lock:
    """A lock that this service has, unless ZooKeeper ``is_away``."""

    def __init__(self) -> None:
        self.is_away = False
        self.attempts = 0
        self.releases = 0

    def acquire(self, _seconds: float) -> bool:
        self.attempts += 1
        self.check()
        return True

    def check(self) -> None:
        if self.is_away:
            raise UnreachableError("ZooKeeper does not answer")

    def release(self) -> None:
        self.releases += 1


def test_while_zookeeper_is_away_the_pause_is_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zkdeployment.fleet.feed.feed_thread._QUEUED", 0.01)
    lock: Any = Lock()
    calls: list[int] = []

    class Work(FeedThread):
        NAME = "traces"

        def _work(self) -> float:
            calls.append(1)
            return 0.01

    thread = Work(FEED, lock)
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


def test_at_its_end_the_work_in_progress_has_ended_and_the_lock_is_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("zkdeployment.fleet.feed.feed_thread._CLOSING", UNLIMITED)
    lock: Any = Lock()
    begun = threading.Event()

    class Work(FeedThread):
        NAME = "traces"

        def _work(self) -> float:
            begun.set()
            wait_until(self._closed.is_set, "the end of the service")
            return 0.0

    thread = Work(FEED, lock)
    thread.start()
    begun.wait()
    thread.close()
    assert lock.releases == 1
