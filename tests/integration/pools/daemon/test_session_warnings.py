"""Warnings before sessions expire, by several services on a real ZooKeeper."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from integration.fleet.feed.test_feed import following
from support.waiting import ManualClock, wait_until
from zkdeployment.pools.feed import SessionWarnings, pools_of
from zkdeployment.pools.rules.snapshot import WARNING, NodesSpec, PoolChange, TenantSession
from zkdeployment.pools.store.store import ZooKeeperPools
from zkdeployment.zookeeper.session import Session

HOUR = 3600.0


def new_session(number: int, created: float, hours: float) -> TenantSession:
    specs = (NodesSpec("web", 1),)
    return TenantSession(
        id=number, tenant=4, specs=specs, nodes=(), created_at=created, expires_at=created + hours * HOUR
    )


def writes(store: ZooKeeperPools) -> dict[int, int | None]:
    """Return how often the sessions whose tenants were warned of the present expiry were written."""
    return {number: each.stamp for number, each in store.read().sessions.items() if each.is_warned}


def warned(feed) -> list[str]:
    """Return the sessions of the warnings that a feed reported."""
    return [
        event.subject
        for batch in feed.recent_events().batches
        for event in batch.events
        if event.kind.value == "session" and event.body["step"] == "expiring"
    ]


def test_each_expiry_has_one_warning_however_many_services_run(zookeeper):
    with ExitStack() as stack:
        store, clock = ZooKeeperPools(stack.enter_context(Session(zookeeper))), ManualClock()
        early, late = new_session(7, clock.time, 1), new_session(8, clock.time, 6)
        store.commit(PoolChange(sessions=(early, late)), store.read())
        feeds = [stack.enter_context(following(zookeeper)) for _ in range(3)]
        services = [SessionWarnings(feed, store, clock) for feed in feeds]
        for service in services:
            service.start()
            stack.callback(service.close)

        def change(session: TenantSession) -> None:
            """Change something that every feed reports, so that every service looks at the sessions."""
            store.commit(PoolChange(sessions=(session,)), store.read())
            wait_until(
                lambda: all(session.id in pools_of(feed).snapshot.sessions for feed in feeds),
                "the feeds show the session",
            )

        change(new_session(9, clock.time, 48))
        assert writes(store) == {}
        clock.time += HOUR - WARNING
        change(new_session(10, clock.time, 48))
        wait_until(lambda: all(warned(feed) == ["7"] for feed in feeds), "the warning at every service")
        assert writes(store) == {7: 1}

        read = store.read()
        extended = replace(read.sessions[7], expires_at=read.sessions[7].expires_at + 2 * HOUR)
        store.commit(PoolChange(sessions=(extended,)), read)
        clock.time += 2 * HOUR
        change(new_session(11, clock.time, 48))
        wait_until(lambda: all(warned(feed) == ["7", "7"] for feed in feeds), "the warning of the later expiry")
        assert writes(store) == {7: 3}
