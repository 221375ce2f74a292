"""The nodes of the cluster version, the publication, stops, outputs of failed scripts, and hosts in maintenance.

Each of the first ``FIRST`` stops has a node of its own. Later stops share ``LAST`` nodes: each replaces the
previous stop in its node, and the node's version counts them. Creating a node, and each stop of an operator, also
changes the parent node, so that a transaction that forgets the stops fails if it does not know all of them.

Each stopped group of deployment intents has a node until it changes or is resumed. Each change of these nodes
also writes ``/hosts`` with the same cluster version. A transaction that begins a step checks the version of
``/hosts``, so no step of the group begins after the stop; and the watches on ``/hosts`` wake all hosts.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from zkdeployment.base.act import Maintenance
from zkdeployment.base.cluster import Cluster, ClusterEvent, Revision, advance, is_revision
from zkdeployment.base.errors import ConflictError, ZkdeploymentError
from zkdeployment.base.log import get_logger
from zkdeployment.base.stop import FailureOutput, GroupStop, Stop
from zkdeployment.base.values import dataclass
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, encode
from zkdeployment.zookeeper.transactions import Check, Create, Delete, Operation, Set, commit_afresh

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from zkdeployment.base.publication import Published
    from zkdeployment.tree.values import TreeChange
    from zkdeployment.zookeeper.session import Session


def maintenance_of(name: str, node: Node) -> Maintenance:
    """Decode the record of the host whose node has this name."""
    return Maintenance.from_json(node.properties, host_id=unquote(name))


def in_force(records: Iterable[Maintenance], now: float) -> dict[str, Maintenance]:
    """Return the records that are in force at ``now``, in seconds since the epoch, by host id."""
    return {each.host_id: each for each in records if each.is_in_force(now)}


def read_maintenance(session: Session, now: float, names: Iterable[str] | None = None) -> dict[str, Maintenance]:
    """Return the maintenance in force at ``now``, by host id; ``names`` are the nodes to read, by default all."""
    listed = sorted((session.children(paths.MAINTENANCE) or ()) if names is None else names)
    nodes = session.get_many(f"{paths.MAINTENANCE}/{name}" for name in listed)
    found = (maintenance_of(name, node) for name, node in zip(listed, nodes, strict=True) if node is not None)
    return in_force(found, now)


def cluster_of(hosts: Node) -> Cluster:
    """Return the cluster in the node ``/hosts``."""
    return Cluster.from_properties(hosts.properties, stamp=hosts.version, hosts=hosts.children)


def changing_cluster(hosts: Node, event: ClusterEvent, revision: Revision | None = None) -> Operation:
    """Return the operation that changes ``/hosts`` for an event; raises ``RefusedError`` as ``advance`` does."""
    return setting_cluster(hosts, advance(cluster_of(hosts), event, revision))


def setting_cluster(hosts: Node, cluster: Cluster) -> Operation:
    """Return the operation that writes ``cluster`` to ``/hosts``, unless that has changed since it was read."""
    properties = cluster.properties(hosts.properties, stamp=hosts.version + 1)
    return Set(paths.HOSTS, encode(properties), hosts.version)


FIRST = 64
LAST = 64

#: The prefix of shared nodes; no host id has this prefix, and names of operators with it are escaped.
_SHARED = "~later-"
_ESCAPED = "~%6Cater-"

#: The most nodes that one transaction removes, if other programs created more than the limit.
_BATCH = 500


@dataclass(frozen=True)
class RecordedStops:
    """The names of the nodes of all stops, and the version of their parent node, which was read first."""

    names: tuple[str, ...]
    version: int


def read_stops(session: Session) -> tuple[Stop, ...]:
    """Return the recorded stops; read in one pipelined round."""
    names = session.children(paths.STOPS) or ()
    nodes = session.get_many(f"{paths.STOPS}/{name}" for name in names)
    return tuple(stop_of(name, node) for name, node in zip(names, nodes, strict=True) if node is not None)


def stop_of(name: str, node: Node) -> Stop:
    """Decode the node of a stop; its ``name`` shows whether the node is shared."""
    return replace(Stop.from_json(node.properties), replaced=node.version if name.startswith(_SHARED) else 0)


def recorded_stops(session: Session) -> RecordedStops:
    """Return the names of the recorded stops; create their parent node if it is missing."""
    (above,), (names,) = session.look([paths.STOPS], [paths.STOPS])
    if above is None:
        session.ensure(paths.STOPS)
        (above,), (names,) = session.look([paths.STOPS], [paths.STOPS])
    if above is None:
        raise ConflictError(f"{paths.STOPS} was removed right after it was created; check what removes it")
    return RecordedStops(tuple(names or ()), above.version)


def recording_stop(session: Session, stop: Stop) -> list[Operation]:
    """Return the operations that record a stop; it replaces an earlier stop of the same host or operator.

    Commit them together with a check of ``/hosts``: a stop is recorded only while the fleet is stopped.
    """
    recorded = recorded_stops(session)
    name = quote(stop.key, safe="~@")
    if name.startswith(_SHARED):
        name = _ESCAPED + name.removeprefix(_SHARED)
    if name not in recorded.names and len(recorded.names) >= FIRST:
        name = f"{_SHARED}{zlib.crc32(name.encode()) % LAST}"
    path, data = f"{paths.STOPS}/{name}", encode(stop.to_json())
    if name not in recorded.names:
        return [Create(path, data), _touch(recorded)]
    replaces_another = name.startswith(_SHARED) and stop.is_failure
    return [Set(path, data)] if replaces_another else [Set(path, data), _touch(recorded)]


def forgetting_stops(recorded: RecordedStops) -> list[Operation]:
    """Return the operations that remove all recorded stops; they fail if another stop was recorded since."""
    if not recorded.names:
        return [Check(paths.STOPS, recorded.version)]
    return [_touch(recorded), *(Delete(f"{paths.STOPS}/{name}") for name in recorded.names)]


def few_stops(session: Session, hosts: int, recorded: RecordedStops | None = None) -> RecordedStops:
    """Return the recorded stops, after removing so many that one transaction can remove the rest.

    Call this for a fleet that is about to be resumed. ``hosts`` is the version of the node ``/hosts``,
    ``recorded`` are the stops if they were read already. Raises ``ConflictError`` if the node has changed.
    """
    recorded = recorded or recorded_stops(session)
    surplus: Sequence[str] = recorded.names[FIRST + LAST :]
    for start in range(0, len(surplus), _BATCH):
        batch = surplus[start : start + _BATCH]
        session.commit(Check(paths.HOSTS, hosts), *(Delete(f"{paths.STOPS}/{name}") for name in batch))
    return replace(recorded, names=recorded.names[: FIRST + LAST])


def _touch(recorded: RecordedStops) -> Operation:
    return Set(paths.STOPS, b"", recorded.version)


#: The most hosts whose outputs are kept; if many hosts fail in the same way, a few outputs are enough.
OUTPUTS_LIMIT = 20


def write_output(session: Session, output: FailureOutput) -> bool:
    """Write the output of a host's failed script, in place of an earlier one; return whether there was room."""
    path, data = paths.output_path(output.host_id), encode(output.to_json())

    def make() -> list[Operation] | None:
        session.ensure(paths.OUTPUTS)
        (above, node), (names,) = session.look([paths.OUTPUTS, path], [paths.OUTPUTS])
        if node is not None:
            return [Set(path, data)]
        if len(names or ()) >= OUTPUTS_LIMIT:
            return None
        # The new version of the parent node makes every other host count the outputs again.
        return [Create(path, data), Set(paths.OUTPUTS, b"", 0 if above is None else above.version)]

    return commit_afresh(session, make, f"write {path}")


def read_output(session: Session, host_id: str) -> FailureOutput | None:
    """Return the end of the output of a host's failed script, if it is kept."""
    node = session.get(paths.output_path(host_id))
    return None if node is None else FailureOutput.from_json(node.properties, host_id=host_id)


def read_outputs(session: Session) -> tuple[FailureOutput, ...]:
    """Return the kept outputs of all failed hosts, oldest first."""
    ids = [*map(unquote, session.children(paths.OUTPUTS) or ())]
    nodes = zip(ids, session.get_many(map(paths.output_path, ids)), strict=True)
    outputs = (FailureOutput.from_json(node.properties, host_id=name) for name, node in nodes if node is not None)
    return tuple(sorted(outputs, key=lambda output: (output.time, output.host_id)))


def remove_outputs(session: Session, names: Collection[str]) -> None:
    """Remove the outputs with these names, which belong to an earlier publication. Errors are logged."""
    try:
        if names:
            session.commit(*(Delete(f"{paths.OUTPUTS}/{name}") for name in names))
    except ZkdeploymentError as error:
        get_logger().warning("outputs-not-removed", reason=str(error))


def stopped_groups(session: Session) -> frozenset[str]:
    """Return the subjects of the groups that are stopped."""
    return frozenset(map(unquote, session.children(paths.GROUP_STOPS) or ()))


def group_stop_of(name: str, node: Node) -> GroupStop:
    """Decode the node of a stop."""
    return GroupStop.from_json(node.properties, group=unquote(name))


def stopping_group(session: Session, stop: GroupStop) -> list[Operation] | None:
    """Return the operations that stop a group; empty if it is already stopped.

    ``None``: the fleet no longer has to deploy the failed revision, so the failure must not stop the group.
    """
    session.ensure(paths.GROUP_STOPS)
    path = paths.group_stop_path(stop.group)
    hosts, targets, node = session.get_many([paths.HOSTS, paths.TARGETS, path])
    if hosts is None:
        return None
    if not decode_published(targets).is_wanted(cluster_of(hosts), stop.stop.revision, stop.sequence):
        return None
    return [] if node is not None else [Create(path, encode(stop.to_json())), _touch_hosts(hosts)]


def resuming_group(hosts: Node, group: str) -> list[Operation]:
    """Return the operations that end the stop of a group; they fail if it is not stopped."""
    return [Delete(paths.group_stop_path(group)), _touch_hosts(hosts)]


def ending_stops(session: Session, groups: Collection[str]) -> list[Operation]:
    """Return the operations that end the stops of the stopped ones among these ``groups``.

    Commit them together with a change of ``/hosts`` that fails if ``/hosts`` was written since.
    """
    ended = stopped_groups(session) & frozenset(groups)
    return [Delete(paths.group_stop_path(group)) for group in sorted(ended)]


def _touch_hosts(hosts: Node) -> Operation:
    return setting_cluster(hosts, cluster_of(hosts))  # a retry stays in force


_NAMES = "names"
_BEGUN = "begun"


def managed_tops(node: Node | None) -> frozenset[str]:
    """Return the paths of the top-level nodes that a ``.zk`` file of any publication contained."""
    return _tops(node, _NAMES)


def begun_tops(node: Node | None) -> frozenset[str]:
    """Return the paths of the top-level nodes that unfinished publications and imports created."""
    return _tops(node, _BEGUN)


def encode_managed(managed: Collection[str], begun: Collection[str]) -> bytes:
    """Encode the node's data for these paths."""
    lists = {_NAMES: managed, _BEGUN: begun} if begun else {_NAMES: managed}
    return encode({name: [path[1:] for path in sorted(tops)] for name, tops in lists.items()})


def made_tops(change: TreeChange) -> frozenset[str]:
    """Return the paths of the top-level nodes that a change creates."""
    return frozenset(path for path in change.create if path.count("/") == 1)


def _tops(node: Node | None, name: str) -> frozenset[str]:
    names = None if node is None else node.properties.get(name)
    listed = names if isinstance(names, list) else []
    return frozenset(f"/{name}" for name in listed if isinstance(name, str))


def decode_published(targets: Node | None, managed: Node | None = None, tops: Collection[str] = ()) -> Published:
    """Return the last publication as the nodes ``/zkdeployment/targets`` and, if given, ``managed`` record it.

    ``tops`` are the names of the existing top-level nodes; managed names that are not among them are omitted.
    """
    from zkdeployment.base.publication import Published, is_sequence  # noqa: PLC0415  the check of a host needs neither

    if targets is None:
        return Published()
    properties = targets.properties
    version, exact, sequence = properties.get("version"), properties.get("exact"), properties.get("sequence")
    since, intents = properties.get("since"), properties.get("intents")
    strategy, ordered, left = properties.get("strategy"), properties.get("ordered"), properties.get("left")
    existing = {f"/{name}" for name in tops}
    return Published(
        revision=version if is_revision(version) else None,
        exact=exact if isinstance(exact, str) else None,
        managed=managed_tops(managed) & existing,
        begun=begun_tops(managed) & existing,
        stamp=targets.version,
        sequence=sequence if is_sequence(sequence) else 0,
        since=since if is_sequence(since) else 0,
        strategy=strategy if isinstance(strategy, str) else None,
        ordered=ordered if is_revision(ordered) else None,
        intents=intents if isinstance(intents, int) and intents >= 0 else None,
        left=left if isinstance(left, str) else None,
    )


def published_revision(targets: Node | None) -> Revision | None:
    """Return the revision whose tree and targets are completely published; ``None`` during a publication."""
    version = None if targets is None else targets.properties.get("version")
    return version if is_revision(version) else None
