"""How often commit statuses are sent to a forge that refuses them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from support.waiting import wait_until
from support.web.servers import web_server
from zkdeployment.base.cluster import Cluster
from zkdeployment.fleet.feed.fleet_assembly import FleetReading
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.webhooks.commit_status import Forge, ForgeRepository
from zkdeployment.fleet.webhooks.status_sender import CommitStatusSender


class Feed:
    """A feed that reports a change each time when the sender reads it."""

    def __init__(self) -> None:
        self.reads = 0
        self.changed = lambda: None

    def subscribe(self, changed: Any) -> None:
        self.changed = changed

    def recent_events(self) -> Any:
        return SimpleNamespace(base=1)

    def snapshot(self) -> Any:
        self.reads += 1
        revision = f"{self.reads:040x}"
        self.changed()
        return SimpleNamespace(
            reading=FleetReading(FleetSnapshot(Cluster(revision), revision), sequence=7), zxid=1
        )


def test_changes_do_not_shorten_the_pause_after_a_failure(monkeypatch):
    monkeypatch.setattr("zkdeployment.fleet.webhooks.status_sender.retry_delay", lambda _: 3600.0)
    requests: list[str] = []
    feed: Any = Feed()
    lock: Any = SimpleNamespace(acquire=lambda _: True, check=lambda: None, release=lambda: None)
    with web_server({}) as url:  # it answers 501 to POST

        def request(found):
            requests.append(found.commit)
            return f"{url}/statuses", b"{}", {}

        sender = CommitStatusSender(ForgeRepository(Forge.GITHUB, url), request, feed=feed, lock=lock)
        sender.start()
        wait_until(lambda: feed.reads > 20, "twenty changes", timeout=10)
        sender.close()
    assert len(requests) == 1
