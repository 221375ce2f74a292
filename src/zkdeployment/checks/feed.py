"""The changes of check instances in the readings of the fleet, and the instances that clients ask for.

Instances and results are read at the first use, and again only where they changed. Only the listed part of each
instance is kept. 100,000 instances with results need some 220 MB.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.base.errors import TreeError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.calls import SharedCall
from zkdeployment.checks import paths as check_paths
from zkdeployment.checks.documents import CHECK_GROUP, CheckGroup
from zkdeployment.checks.rules.findings import CheckReading, SystemRecord, check_reading, silent_systems
from zkdeployment.checks.rules.listing import listed_part
from zkdeployment.checks.rules.monitoring_system import CheckResult, SystemContact
from zkdeployment.checks.store.instances import decode_changes, decode_instances, unwritten_in
from zkdeployment.checks.store.systems import callback_in, results_in
from zkdeployment.documents.collection import PublishedDocuments
from zkdeployment.fleet.events.event import MANY_CHECKS, EventKind, FleetEvent
from zkdeployment.fleet.feed.fleet_assembly import FeedPart
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, unpack
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.shared_nodes import DecodedNodes, FollowedNodes, late_read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.base.act import Maintenance
    from zkdeployment.checks.rules.instance import CheckInstance, LastCheckChanges
    from zkdeployment.fleet.feed.feed import ZooKeeperFeed
    from zkdeployment.zookeeper.session import Session

#: The directory of the published documents of groups.
_GROUPS = f"{paths.DOCUMENTS}/{CHECK_GROUP.name}"

#: Seconds between the end of a reading and the start of the next one.
PAUSE = 1.0

#: Seconds that a client waits for the reading of another client.
_PATIENCE = 5.0


class CheckReadings:
    """The readings through one session, shared by all clients; any thread may call ``get``."""

    def __init__(self, session: Session) -> None:
        self._nodes = FollowedNodes(session, lambda: None)  # the next client reads the changed nodes
        self._decoded = DecodedNodes(self._nodes)
        self._shared: SharedCall[CheckReading] = SharedCall(patience=_PATIENCE, late=late_read, failure_age=0.0)
        self._free = -math.inf  # when the next reading may begin
        self._reading: CheckReading | None = None  # the last reading; ``None`` after a failure
        self._systems: Mapping[str, SystemRecord] = {}
        self._silent: frozenset[str] = frozenset()

    def get(self, now: float, maintenance: Mapping[str, Maintenance]) -> CheckReading:
        """Return a reading with every change that watches reported before this call.

        Clients that call this method at the same time share a reading, or its failure. ``now`` is in seconds since
        the epoch. ``maintenance`` is that of hosts, by host id.
        """
        return self._shared.get(lambda: self._current(now, maintenance))

    def _current(self, now: float, maintenance: Mapping[str, Maintenance]) -> CheckReading:
        """Return a reading that is not outdated; one thread calls this at a time."""
        reading = self._reading
        is_current = reading is not None and reading.maintenance == maintenance and not self._nodes.are_stale
        if reading is None or not is_current or self._silent != silent_systems(self._systems, now):
            time.sleep(max(0.0, self._free - time.monotonic()))
            self._reading = None
            try:
                reading = self._reading = self._read(now, maintenance)
            finally:
                self._free = time.monotonic() + PAUSE
        return reading

    def _read(self, now: float, maintenance: Mapping[str, Maintenance]) -> CheckReading:
        if self._nodes.are_stale:
            self._nodes.refresh(self._wanted)
        instances: dict[str, CheckInstance] = {}
        for bucket in self._buckets(check_paths.INSTANCES):
            instances |= self._decoded.value(bucket, bucket, _listed_parts) or {}
        names = self._nodes.children(check_paths.SYSTEMS)
        self._systems = {unquote(name): self._record(f"{check_paths.SYSTEMS}/{name}") for name in names}
        self._silent = silent_systems(self._systems, now)
        decoded = [self._decoded.value(path, path, _group) for path in self._buckets(_GROUPS)]
        groups = [group for group in decoded if group is not None]
        self._decoded.forget()
        unwritten = unwritten_in(self._nodes.node(check_paths.UNWRITTEN))
        return check_reading(
            instances, self._systems, now, unwritten=unwritten, groups=groups, maintenance=maintenance
        )

    def _record(self, path: str) -> SystemRecord:
        """Return the records of the monitoring system whose node has this path."""
        node, contact = self._nodes.node(path), self._nodes.node(f"{path}/contact")
        results: dict[str, CheckResult] = {}
        for bucket in self._buckets(f"{path}/results"):
            results |= self._decoded.value(bucket, bucket, results_in) or {}
        return SystemRecord(
            None if node is None else callback_in(node),
            SystemContact() if contact is None else SystemContact.from_json(contact.properties),
            results,
        )

    def _buckets(self, directory: str) -> Iterator[str]:
        """Return the paths of the buckets in a directory."""
        return (f"{directory}/{bucket}" for bucket in self._nodes.children(directory))

    def _wanted(self) -> Iterator[Read]:
        """Yield all reads to follow: of all instances, and of the records of all monitoring systems."""
        yield Read(check_paths.INSTANCES, children=True)
        yield Read(check_paths.SYSTEMS, children=True)
        yield Read(check_paths.UNWRITTEN)
        yield Read(_GROUPS, children=True)
        yield from map(Read, self._buckets(_GROUPS))
        yield from map(Read, self._buckets(check_paths.INSTANCES))
        for name in self._nodes.children(check_paths.SYSTEMS):
            path = f"{check_paths.SYSTEMS}/{name}"
            yield from (Read(path), Read(f"{path}/contact"), Read(f"{path}/results", children=True))
            yield from map(Read, self._buckets(f"{path}/results"))


def _group(_path: str, node: Node) -> CheckGroup | None:
    """Return the group in the node of a document; ``None`` for a damaged one, which other readers log."""
    try:
        content = unpack(node.data)
    except ValueError:
        return None
    documents = PublishedDocuments({(CHECK_GROUP.name, ("",)): content} if isinstance(content, dict) else {})
    return documents.of(CHECK_GROUP).get(("",))


def _listed_parts(path: str, node: Node) -> Mapping[str, CheckInstance]:
    """Return the instances of a bucket; a damaged bucket is logged and counts as empty."""
    try:
        instances = decode_instances(path, node)
    except TreeError as error:
        get_logger().warning("check-instances-damaged", path=path, reason=str(error))
        return {}
    return {instance_id: listed_part(found) for instance_id, found in instances.items()}


class _CheckAssembly:
    """The last changes of check instances, as a followed node describes them."""

    def __init__(self, nodes: FollowedNodes) -> None:
        self._decoded = DecodedNodes(nodes)

    def wanted(self) -> Iterator[Read]:
        """Yield the node of the changes."""
        yield Read(check_paths.CHANGED)

    def reading(self) -> LastCheckChanges | None:
        """Return the changes; ``None`` before the first one."""
        changes = self._decoded.value(check_paths.CHANGED, "", lambda _name, node: decode_changes(node))
        self._decoded.forget()
        return changes


def _events(before: LastCheckChanges | None, after: LastCheckChanges | None) -> Iterator[FleetEvent]:
    """Yield an event for each check instance that changed, or one for many if they are not all known."""
    if after is None or after == before:
        return
    if after.number - (-1 if before is None else before.number) != 1 or after.total > len(after.changes):
        yield FleetEvent(EventKind.CHECK, MANY_CHECKS)
        return
    for change in after.changes:
        yield FleetEvent(EventKind.CHECK, change.instance, change.to_json())


#: The last changes of check instances.
CHECKS_PART: FeedPart[LastCheckChanges | None] = FeedPart("checks", None, _CheckAssembly, _events)

FEED_PARTS = (CHECKS_PART,)


def check_reading_of(feed: ZooKeeperFeed) -> CheckReading:
    """Return all check instances with their known results.

    The first call reads all of them; later calls read only the changed ones, at most once a second.
    """
    return feed.of_session(CheckReadings).get(time.time(), feed.snapshot().fleet.maintenance)
