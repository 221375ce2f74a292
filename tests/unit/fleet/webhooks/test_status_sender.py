"""How often commit statuses are sent to a forge that fails, and where to."""

from __future__ import annotations

from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from support.waiting import wait_until
from support.web.servers import WebServer
from zkdeployment.base.cluster import Cluster
from zkdeployment.fleet.feed.fleet_assembly import FleetReading
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.webhooks.commit_status import CommitStatusSender, Forge, ForgeRepository
from zkdeployment.publishing.records import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

WANTED, OTHER = "a" * 40, "b" * 40


class Feed:
    """A feed with the wanted commit and, perhaps, a refused one; with ``is_busy``, each reading is a change."""

    def __init__(self, *, refused: str | None = None, is_busy: bool = False) -> None:
        self.reads = 0
        self._refused, self._is_busy = refused, is_busy
        self.changed = lambda: None

    def subscribe(self, changed: Any) -> None:
        self.changed = changed

    def recent_events(self) -> Any:
        return SimpleNamespace(base=1)

    def snapshot(self) -> Any:
        self.reads += 1
        revision = WANTED
        if self._is_busy:
            revision = f"{self.reads:040x}"
            self.changed()
        refusal = None if self._refused is None else Refusal(self._refused, ("wrong",))
        fleet = FleetSnapshot(Cluster(revision), revision, refusal=refusal)
        return SimpleNamespace(reading=FleetReading(fleet, sequence=7), zxid=1)


class ForgeServer(WebServer):
    """Answers a request for a commit with its status and headers, else with 201; keeps the requested commits."""

    def __init__(self, answers: dict[str, tuple[int, dict[str, str]]]) -> None:
        self.requests: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                commit = self.path.rpartition("/")[2]
                server.requests.append(commit)
                status, headers = answers.get(commit, (201, {}))
                self.send_response(status)
                for name, value in {"Content-Length": "0", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        super().__init__(Handler)


@contextmanager
def sending(feed: Any, answers: dict[str, tuple[int, dict[str, str]]]) -> Iterator[ForgeServer]:
    """Send the statuses of a feed to a forge with these answers."""
    lock: Any = SimpleNamespace(acquire=lambda _: True, check=lambda: None, release=lambda: None)
    with ForgeServer(answers) as server:

        def request(status: Any) -> tuple[str, bytes, dict[str, str]]:
            return f"{server.url}/{status.commit}", b"{}", {}

        sender = CommitStatusSender(ForgeRepository(Forge.GITHUB, server.url), request, feed=feed, lock=lock)
        sender.start()
        yield server
        sender.close()


@pytest.mark.parametrize("status", [429, 502, 503])
def test_changes_do_not_shorten_the_pause_after_a_failure(monkeypatch, status):
    monkeypatch.setattr("zkdeployment.fleet.webhooks.commit_status.retry_delay", lambda _: 3600.0)
    feed = Feed(is_busy=True)
    with sending(feed, dict.fromkeys((f"{number:040x}" for number in range(100)), (status, {}))) as server:
        wait_until(lambda: feed.reads > 20, "twenty changes", timeout=10)
    assert len(server.requests) == 1


def test_a_commit_for_which_the_forge_fails_does_not_delay_another_one(monkeypatch):
    monkeypatch.setattr("zkdeployment.fleet.webhooks.commit_status.retry_delay", lambda _: 0.01)
    with sending(Feed(refused=OTHER), {WANTED: (500, {})}) as server:
        wait_until(lambda: OTHER in server.requests and server.requests.count(WANTED) > 2, "both commits")
    assert server.requests.count(OTHER) == 1


def test_the_pause_that_a_forge_asks_for_holds_for_all_commits(monkeypatch):
    monkeypatch.setattr("zkdeployment.fleet.webhooks.commit_status.retry_delay", lambda _: 0.0)
    feed = Feed(refused=OTHER)
    with sending(feed, {WANTED: (500, {"Retry-After": "1000"})}) as server:
        wait_until(lambda: server.requests, "the first request")
        feed.changed()
        wait_until(lambda: feed.reads > 1, "a further turn")
    assert server.requests == [WANTED]


def test_the_status_of_a_repository_that_was_renamed_follows_it():
    with sending(Feed(), {WANTED: (301, {"Location": "/repositories/7/statuses/moved"})}) as server:
        wait_until(lambda: server.requests == [WANTED, "moved"], "the request at the new place")
