"""The pools in the readings of the fleet: events, metrics, ended sessions, and warnings before sessions expire.

A session that ends is followed for one more reading, in the directory of ended sessions, to show how it ended.
Every service checks the sessions. The service that first records a warning has given it; all services report it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.daemon.metrics import Metric, gauge, labelled
from zkdeployment.base.errors import ConflictError
from zkdeployment.base.log import get_logger
from zkdeployment.base.names import NameKind, is_name
from zkdeployment.documents.collection import DocumentKey, PublishedDocuments
from zkdeployment.fleet.events.event import EventKind, FleetEvent
from zkdeployment.fleet.feed.feed_thread import FeedThread
from zkdeployment.fleet.feed.fleet_assembly import FeedPart, FleetReading
from zkdeployment.pools import paths as pool_paths
from zkdeployment.pools.documents import POOLS, PoolConfiguration, pools_in_force
from zkdeployment.pools.rules.listing import level_changes, node_changes, pool_views, session_changes
from zkdeployment.pools.rules.node import NodeState
from zkdeployment.pools.rules.snapshot import PoolChange, PoolReading, TenantSession, due_warnings, next_warning
from zkdeployment.pools.store.store import (
    EndedRecords,
    ZooKeeperPools,
    decode_record,
    pool_snapshot,
    record_path,
    stamped,
)
from zkdeployment.publishing.store.documents import decode_document, document_path
from zkdeployment.service.users.user_store import USERS
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.shared_nodes import DecodedNodes, FollowedNodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.fleet.feed.feed import ZooKeeperFeed
    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session

#: The limit of ended sessions that are read.
_MOST_ENDED = 1000

_DOCUMENT: DocumentKey = (POOLS.name, ())
_DOCUMENT_PATH = document_path(_DOCUMENT)

#: The nodes whose children are read.
_DIRECTORIES = (pool_paths.NODES, pool_paths.SESSIONS, pool_paths.FILLING, USERS)

#: The nodes whose children hold all information in their names.
_LISTS = (pool_paths.CLAIMS, pool_paths.WORKERS)


class PoolAssembly:
    """The pools in followed nodes: the parts of the snapshot that pages and events need."""

    def __init__(self, nodes: FollowedNodes) -> None:
        self._nodes = nodes
        self._decoded = DecodedNodes(nodes)
        self._reading = PoolReading()

    def wanted(self) -> Iterator[Read]:
        """Yield everything that has to be followed, as far as the nodes read so far show it."""
        yield Read(_DOCUMENT_PATH)
        yield from (Read(path, children=True) for path in (*_DIRECTORIES, *_LISTS))
        for directory in _DIRECTORIES:
            yield from (Read(f"{directory}/{name}") for name in self._nodes.children(directory))
        yield from map(Read, self._ended_paths())

    def reading(self) -> PoolReading:
        """Return the reading: the same object if nothing in it has changed."""
        configuration = self._decoded.value(_DOCUMENT_PATH, _DOCUMENT_PATH, _configuration)
        ended = (self._decoded.value(path, path, stamped(TenantSession)) for path in self._ended_paths())
        names = (name for name in self._nodes.children(USERS) if is_name(NameKind.USER, name))
        users = (self._decoded.value(f"{USERS}/{name}", name, _user) for name in names)
        reading = PoolReading(
            PoolConfiguration() if configuration is None else configuration,
            pool_snapshot(self._decoded),
            {session.id: session for session in ended if session is not None},
            dict(user for user in users if user is not None),
        )
        if reading != self._reading:
            self._reading = reading
        self._decoded.forget()
        return self._reading

    def _ended_paths(self) -> list[str]:
        """Return the paths of the sessions that have ended since the last reading."""
        present = set(self._nodes.children(pool_paths.SESSIONS))
        gone = (number for number in self._reading.snapshot.sessions if str(number) not in present)
        return [record_path(pool_paths.SESSIONS_ENDED, number) for number in gone]


def _events(before: PoolReading, after: PoolReading) -> Iterator[FleetEvent]:
    if before is after:
        return
    for session in session_changes(before, after):
        yield FleetEvent(EventKind.SESSION, str(session.session.id), session.to_json())
    for node in node_changes(before, after):
        yield FleetEvent(EventKind.NODE, str(node.node.id), node.to_json())
    for level in level_changes(before, after):
        yield FleetEvent(EventKind.POOL, level.name, level.to_json())


#: The pools, with their nodes and sessions.
POOLS_PART = FeedPart("pools", PoolReading(), PoolAssembly, _events)


def pools_of(feed: ZooKeeperFeed) -> PoolReading:
    """Return the pools of the last reading of the fleet; never waits."""
    return feed.snapshot().reading.of(POOLS_PART)


class _EndedSessions:
    """The sessions that have ended; they are read again only after the active ones changed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._read: tuple[frozenset[int], tuple[TenantSession, ...]] | None = None

    def get(self, active: frozenset[int]) -> tuple[TenantSession, ...]:
        """Return the newest sessions that have ended, newest first; ``active`` are the ids of the active ones."""
        if self._read is None or self._read[0] != active:
            records = EndedRecords(self._session, pool_paths.SESSIONS_ENDED).newest(_MOST_ENDED)
            found = (decode_record(path, node, TenantSession) for path, node in records)
            self._read = active, tuple(ended for ended in found if ended is not None)
        return self._read[1]


def ended_sessions(feed: ZooKeeperFeed) -> tuple[TenantSession, ...]:
    """Return the newest of the sessions of tenants that have ended, newest first."""
    active = frozenset(pools_of(feed).snapshot.sessions)
    ended = feed.of_session(_EndedSessions)
    return feed.read(("ended sessions", active), lambda _session: ended.get(active))


def _configuration(path: str, node: Node) -> PoolConfiguration | None:
    content = decode_document(path, node)
    return None if content is None else pools_in_force(PublishedDocuments({_DOCUMENT: content}))


def _user(name: str, node: Node) -> tuple[int, str] | None:
    """Return the id and the name of a user, without anything from the key."""
    number = node.properties.get("id")
    return (number, name) if isinstance(number, int) else None


def pool_metrics(reading: PoolReading) -> Iterator[Metric]:
    """Yield the metrics of pools, ``zkdeployment_pool_…``."""
    pools, snapshot = pool_views(reading.configuration, reading.snapshot), reading.snapshot
    states = [state for state in NodeState if state not in {NodeState.UNUSED, NodeState.DONE}]
    levels = {pool.name: float(pool.level) for pool in pools if pool.level is not None}
    missing = {pool.name: 0.0 if pool.shortage is None else float(pool.shortage.missing) for pool in pools}
    nodes: dict[tuple[str, ...], float] = {
        (pool.name, state.value): pool.states.get(state, 0) for pool in pools for state in states
    }
    unused = sum(node.state is NodeState.UNUSED for node in snapshot.nodes.values())
    failures = {pool.name: float(pool.failures) for pool in pools}
    yield labelled("pool_level", "The number of nodes that a pool keeps ready.", "pool", levels)
    yield labelled("pool_missing_nodes", "The ready nodes that a pool lacks at its level.", "pool", missing)
    yield Metric("zkdeployment_pool_nodes", "The nodes of a pool, by state.", nodes, ("pool", "state"))
    yield labelled("pool_filling_failures", "Failures to fill a pool, in a row.", "pool", failures)
    yield gauge("pool_unused_nodes", "The nodes that are in no pool.", unused)
    yield gauge("pool_sessions", "The active sessions of tenants.", len(snapshot.sessions))
    yield gauge("pool_workers", "The workers of pools that run.", len(snapshot.workers))


FEED_PARTS = (POOLS_PART,)


def metrics(reading: FleetReading) -> Iterator[Metric]:
    """Yield the metrics of pools in a reading of the fleet."""
    return pool_metrics(reading.of(POOLS_PART))


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
