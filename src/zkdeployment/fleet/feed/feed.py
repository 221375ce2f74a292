"""The cached fleet: a thread that follows ZooKeeper, and the reads that clients request.

Inventories are read at the first use, and again only after a change.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from zkdeployment.base.errors import UnreachableError, ZkdeploymentError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.calls import turn
from zkdeployment.fleet.events.differences import events_between
from zkdeployment.fleet.events.event import RESET_EVENT, EventLog, FleetEvent, connection_event
from zkdeployment.fleet.feed.fleet_assembly import CachedFleet, FleetAssembly, FleetReading
from zkdeployment.fleet.feed.live_outputs import LiveOutputs
from zkdeployment.fleet.store.audit import read_acts
from zkdeployment.fleet.store.contention import read_locks
from zkdeployment.publishing.store.assignments import KeptTargets, read_left, read_withheld
from zkdeployment.publishing.store.history import PublicationMemory, read_history, read_publication, read_results
from zkdeployment.publishing.store.hosts import decode
from zkdeployment.publishing.store.live_tree import ZooKeeperLiveTree
from zkdeployment.publishing.store.requests import read_refusals
from zkdeployment.strategies.store.records import read_attempts
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.connection import call_safely
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.shared_nodes import FollowedNodes, SharedReads, late_read

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from zkdeployment.base.act import Act
    from zkdeployment.base.deployment import HostResult
    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.json_values import Properties
    from zkdeployment.base.lock import Lock
    from zkdeployment.base.publication import LeftService, Targets
    from zkdeployment.base.stop import LiveOutput
    from zkdeployment.publishing.records import PublicationRecord, PublicationSummary, Refusal
    from zkdeployment.publishing.targets.compiler import ServiceTarget
    from zkdeployment.strategies.state import RolloutState
    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session


T = TypeVar("T")

#: The number of inventories that are kept.
_KEPT = 20_000

#: Seconds that a client waits for the read of another client.
_PATIENCE = 5.0


class DeployedInventories:
    """The inventories through one session; each kept inventory has a watch that drops it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._kept: dict[str, KnownHost | None] = {}
        self._changed: set[str] = set()
        self._connection: int | None = None

    def get(self, host_ids: Collection[str]) -> tuple[KnownHost, ...]:
        """Return the inventories of these hosts, by id; hosts without one are omitted."""
        with turn(self._lock, _PATIENCE, late_read):
            self._drop_outdated()
            missing = sorted(set(host_ids) - self._kept.keys())
            reads = [Read(f"{paths.INVENTORY}/{host_id}") for host_id in missing]
            for read, node in self._session.follow(reads, self._note):
                host_id = read.path.rpartition("/")[2]
                self._kept[host_id] = _deployed_part(host_id, node)
            found = tuple(known for host_id in sorted(host_ids) if (known := self._kept[host_id]) is not None)
            while len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
        return found

    def _drop_outdated(self) -> None:
        connection = self._session.link.connections
        if self._connection != connection:  # the watches ended with the connection
            self._kept.clear()
            self._connection = connection
        for host_id in tuple(self._changed):
            self._changed.discard(host_id)
            self._kept.pop(host_id, None)

    def _note(self, event: Any) -> None:
        """Note a change; kazoo calls this method on its thread."""
        if event.path is not None:
            self._changed.add(event.path.rpartition("/")[2])


def _deployed_part(host_id: str, node: Node | None) -> KnownHost | None:
    """Return the inventory in a node without the packages that were never deployed."""
    if node is None:
        return None
    known = decode(host_id, node.data)
    inventory = known.inventory
    if inventory is None:
        return known
    return replace(known, inventory=replace(inventory, packages=inventory.deployed_packages))


#: Seconds between the starts of two readings: changes in between are read together.
COALESCED = 0.5

#: Seconds between two checks that the reading is still current, while nothing changes.
CONFIRMED = 2.0

#: Seconds until ZooKeeper is tried again after an error.
_AGAIN = 1.0

#: Seconds for the thread to end; it may be waiting for an answer of ZooKeeper.
_CLOSING = 6.0


class ZooKeeperFeed:
    """The fleet through sessions of its own.

    ``new_session`` returns a session that is not open yet; it is called again when a session's client is beyond
    repair. Watches report the changes; without changes, one small request every ``CONFIRMED`` seconds confirms
    that the reading is current. All methods may be called from any thread; those that read ZooKeeper raise
    ``UnreachableError`` while it is away.
    """

    def __init__(self, new_session: Callable[[], Session]) -> None:
        self._new_session = new_session
        self._session: Session | None = None
        self._inventories: DeployedInventories | None = None
        self._live_outputs: LiveOutputs | None = None
        self._of_session: dict[object, Any] = {}
        self._shared = SharedReads()
        self._targets = KeptTargets()
        self._lock = threading.Lock()
        self._reading: FleetReading | None = None
        self._read_at = 0.0
        self._confirmed = 0
        self._connected = False
        self._log = EventLog()
        self._subscribers: list[Callable[[], None]] = []
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fleet-feed", daemon=True)

    def start(self) -> None:
        """Begin to read and to follow the fleet, in the background and until ``close``; does not wait."""
        self._thread.start()

    def close(self) -> None:
        """End the reading and the session; subscribers are called a last time."""
        self._closed.set()
        self._wake.set()
        self._notify()
        if self._thread.is_alive():
            self._thread.join(_CLOSING)

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called: clients must no longer wait for changes."""
        return self._closed.is_set()

    # Requests of clients

    def snapshot(self) -> CachedFleet:
        """Return the last reading of the fleet, with its age; never waits.

        Raises ``UnreachableError`` before the first reading is complete.
        """
        with self._lock:
            if self._reading is None:
                raise UnreachableError("the fleet has not been read yet: ZooKeeper has not answered")
            session = self._session
            connected = self._connected and session is not None and session.connected
            return CachedFleet(self._reading, self._read_at, self._confirmed, connected)

    def recent_events(self) -> EventLog:
        """Return the recent events; never waits."""
        return self._log

    def last_transaction(self) -> int:
        """Return the last transaction of ZooKeeper that this service has seen (a zxid); never waits."""
        session = self._session
        return 0 if session is None else session.seen

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call ``changed`` (which must not block) after each change of ``snapshot`` or ``recent_events``.

        Return the function that ends the subscription.
        """
        with self._lock:
            self._subscribers = [*self._subscribers, changed]

        def end() -> None:
            with self._lock:
                self._subscribers = [subscriber for subscriber in self._subscribers if subscriber is not changed]

        return end

    def known_hosts(self, host_ids: Collection[str]) -> tuple[KnownHost, ...]:
        """Return the inventories of these hosts, by id; hosts without one are omitted.

        Of the packages, an inventory here has only those that were deployed.
        """
        self._ready()
        return () if self._inventories is None else self._inventories.get(host_ids)

    def targets(self) -> Targets:
        """Return the targets of the last publication, by name."""
        session = self._ready()
        return self._shared.get("targets", lambda: self._targets.read(session, session.get(paths.TARGETS)))

    def providers(self, services: Collection[str]) -> Mapping[str, Mapping[str, Properties]]:
        """Return the registered instances of services: for each path of a service, name to properties."""
        session, wanted = self._ready(), tuple(sorted(services))
        return self._shared.get(("providers", wanted), lambda: ZooKeeperLiveTree(session).providers(wanted))

    def results(self) -> Mapping[str, HostResult]:
        """Return the results of hosts in the last publication that concerned them, by host id."""
        session, since = self._ready(), self.snapshot().fleet.since
        return self._shared.get(("results", since), lambda: read_results(session, since))

    def locks(self) -> tuple[Lock, ...]:
        """Return every lock that is held or waited for, as ``ZooKeeperLocks`` does."""
        session = self._ready()
        return self._shared.get("locks", lambda: read_locks(session))

    def history(self, last: int) -> tuple[PublicationRecord, ...]:
        """Return the records of the ``last`` publications, newest first."""
        session = self._ready()
        return self._shared.get(("history", last), lambda: read_history(session, last))

    def summaries(self, *, fresh: bool = False) -> tuple[PublicationSummary, ...]:
        """Return the summaries of the last publications, newest first: at most a second old, or ``fresh``."""
        memory, sequence = self.of_session(PublicationMemory), self.snapshot().reading.sequence
        return self._shared.get(("summaries", sequence), memory.read, fresh=fresh)

    def refusals(self, *, fresh: bool = False) -> tuple[Refusal, ...]:
        """Return the recorded refusals of tips, oldest first; they are at most a second old, or ``fresh``."""
        session, current = self._ready(), self.snapshot().fleet.refusal
        return self._shared.get(("refusals", current), lambda: read_refusals(session), fresh=fresh)

    def publication(self, sequence: int) -> tuple[PublicationRecord, ...]:
        """Return the record of a publication, after that of the next publication if there is one.

        Empty if the history has no publication with this sequence.
        """
        session = self._ready()
        return self._shared.get(("publication", sequence), lambda: read_publication(session, sequence))

    def rollouts(self, sequence: int) -> tuple[RolloutState, ...]:
        """Return all rollouts of the publication with this sequence, in order."""
        session = self._ready()
        return self._shared.get(("rollouts", sequence), lambda: read_attempts(session, sequence))

    def live_output(self, host_id: str) -> LiveOutput | None:
        """Return the output of a host's running script, for which the host is asked; ``None`` until it answers."""
        self._ready()
        outputs = self._live_outputs
        return None if outputs is None else self._shared.get(("output", host_id), lambda: outputs.ask(host_id))

    def subtree(self, path: str) -> Mapping[str, Properties] | None:
        """Return a node of the live tree and all nodes below it, as ``ZooKeeperLiveTree`` does."""
        session = self._ready()
        return self._shared.get(("subtree", path), lambda: ZooKeeperLiveTree(session).subtree(path))

    def acts(self) -> tuple[Act, ...]:
        """Return the recorded acts of operators, oldest first."""
        session = self._ready()
        return self._shared.get("acts", lambda: read_acts(session))

    def read(self, key: object, read: Callable[[Session], T]) -> T:
        """Return the result of ``read`` for the present session, which clients with the same ``key`` share."""
        session = self._ready()
        return self._shared.get(key, lambda: read(session))

    def of_session(self, make: Callable[[Session], T]) -> T:
        """Return the one object that ``make`` returned for the present session."""
        session = self._ready()
        with self._lock:
            kept = self._of_session
            if make not in kept:
                kept[make] = make(session)
            found: T = kept[make]
            return found

    def withheld(self) -> frozenset[ServiceTarget]:
        """Return the services and targets that are not deployed because of the state of their intents."""
        session = self._ready()
        return self._shared.get("withheld", lambda: read_withheld(session))

    def left(self) -> tuple[LeftService, ...]:
        """Return the services that left the governance of their intents."""
        session = self._ready()
        return self._shared.get("left", lambda: read_left(session))

    def _ready(self) -> Session:
        session = self._session
        if session is None or not session.link.answers:
            raise UnreachableError("ZooKeeper does not answer; the service tries again by itself")
        return session

    # The thread that follows ZooKeeper

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._run_session(self._new_session())
            except ZkdeploymentError as error:  # among these errors: this session's client cannot be used any more
                get_logger().error("feed-session-failed", reason=str(error))
                self._closed.wait(_AGAIN)
            except Exception:  # noqa: BLE001  the last reading stays, and everything is read again
                get_logger().exception("feed-failed")
                self._closed.wait(_AGAIN)

    def _run_session(self, session: Session) -> None:
        try:
            self._open(session)
            self._follow(session)
        finally:
            self._note_connection(connected=False)
            self._session = None
            session.close()

    def _open(self, session: Session) -> None:
        while not self._closed.is_set():
            try:
                session.open()
            except UnreachableError as error:
                get_logger().warning("zookeeper-unreachable", reason=str(error))
                self._closed.wait(_AGAIN)
            else:
                break

    def _follow(self, session: Session) -> None:
        """Follow the fleet until the end; raises only errors that a new session may resolve."""
        nodes = FollowedNodes(session, self._wake.set)
        assembly = FleetAssembly(nodes, partial(self._targets.read_valid, session))
        session.on_change(self._wake.set)
        self._inventories, self._of_session = DeployedInventories(session), {}
        self._live_outputs = outputs = LiveOutputs(session)
        self._session = session
        while not self._closed.is_set():
            self._wake.clear()
            begun = time.monotonic()
            try:
                self._read(session, nodes, assembly)
                outputs.withdraw_outdated()
            except UnreachableError as error:
                self._note_connection(connected=False)
                get_logger().warning("zookeeper-unreachable", reason=str(error))
                self._closed.wait(_AGAIN)
                continue
            self._closed.wait(max(0.0, begun + COALESCED - time.monotonic()))
            if not nodes.are_stale:
                self._wake.wait(CONFIRMED)

    def _read(self, session: Session, nodes: FollowedNodes, assembly: FleetAssembly) -> None:
        """Read the changes, or confirm that there are no changes; a maintenance may also end by itself."""
        if not session.connected:
            self._note_connection(connected=False)
        started, read_at = session.last_transaction(), time.time()
        changed = nodes.refresh(assembly.wanted) if nodes.are_stale else frozenset()
        if changed or self._reading is None or self._reading.fleet.is_outdated(read_at):
            number = 1 if self._reading is None else self._reading.number + 1
            self._publish(assembly.reading(started=started, finished=session.seen, number=number), read_at)
        with self._lock:
            self._read_at, self._confirmed = read_at, started
        self._note_connection(connected=True)

    def _publish(self, reading: FleetReading, read_at: float) -> None:
        former = self._reading
        if former is None:
            log = EventLog(base=reading.finished)
        elif reading.started < former.started:  # another ensemble, or one with older data: ids begin again
            log = EventLog(base=reading.finished, last=self._log.last)
            log = log.appended(reading.started, reading.finished, (RESET_EVENT,), read_at)
        else:
            events = events_between(former, reading)
            log = self._log
            if events:
                log = log.appended(reading.started, reading.finished, events, read_at)
        with self._lock:
            self._reading, self._read_at, self._log = reading, read_at, log
        self._notify()

    def _note_connection(self, *, connected: bool) -> None:
        """Record whether ZooKeeper answers; clients are notified of a change."""
        with self._lock:
            if self._connected == connected:
                return
            self._connected = connected
            reading = self._reading
            if reading is not None:
                event: FleetEvent = connection_event(connected=connected, read_at=self._read_at)
                self._log = self._log.appended(self._confirmed, self._confirmed, (event,), self._read_at)
        self._notify()

    def _notify(self) -> None:
        for changed in self._subscribers:
            call_safely(changed)
