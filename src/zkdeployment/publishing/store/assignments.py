"""The wanted state of a host, read from the compiled targets or from the live tree, and what is withheld from it.

A role's node also contains its controller, the assignment of the node ``/roles/ROLE``, so that an agent reads at
most three nodes.
"""

from __future__ import annotations

import json
from collections import deque
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from zkdeployment.base.errors import ConflictError, TreeError
from zkdeployment.base.log import get_logger
from zkdeployment.base.names import RESERVED
from zkdeployment.base.publication import LeftService, Targets
from zkdeployment.publishing.store.cluster import cluster_of
from zkdeployment.publishing.targets.compiler import (
    ServiceTarget,
    wanted_for,
    wanted_from_tree,
    withheld_from_json,
    withheld_to_json,
)
from zkdeployment.publishing.targets.groups import GoverningGroups
from zkdeployment.publishing.targets.services import decode_target, deploy_node, node_of_target
from zkdeployment.publishing.targets.systems import system_target
from zkdeployment.tree.values import Tree
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, encode_content, is_path, unpack
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.transactions import Create, Operation, Set

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.deployment import Assignment, DesiredState
    from zkdeployment.base.host import Identity
    from zkdeployment.zookeeper.session import Session


def read_tree(session: Session) -> Tree:
    """Return the whole tree without reserved top-level nodes and ephemeral nodes."""
    nodes = walk(session, top_paths(session))
    return Tree({path: node.properties for path, node in nodes.items() if not node.owner})


def top_paths(session: Session) -> list[str]:
    """Return the paths of the top-level nodes that are not reserved."""
    return [f"/{name}" for name in session.children("/") or () if name not in RESERVED]


def walk(session: Session, paths: Sequence[str]) -> dict[str, Node]:
    """Return these nodes and all nodes below them, parents first; nodes removed in the meantime are omitted."""
    nodes_by_path: dict[str, Node] = {}
    waiting = deque(Read(path) for path in sorted(paths))
    for read, answer in session.pipeline(waiting):
        if answer is None:
            continue
        if read.children:
            waiting.extend(Read(f"{read.path}/{name}") for name in sorted(answer))
            continue
        nodes_by_path[read.path] = answer
        if answer.children:
            waiting.append(Read(read.path, children=True))
    return nodes_by_path


#: The path above the nodes of controllers, which is the prefix of the names of their targets.
ROLES = "/roles/"
_encode_canonically = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def node_paths(names: Collection[str]) -> list[str]:
    """Return the paths of the nodes of these targets, sorted; a target shares its node with its controller."""
    return sorted({paths.target_path(node_of_target(name)) for name in names})


def encode_targets(
    targets: Targets, names: Collection[str], known: Mapping[str, bytes] = MappingProxyType({})
) -> dict[str, bytes]:
    """Return the data of the nodes of these targets, by path; names without a target have no node.

    ``known`` are the data of targets that were encoded already, by path.
    """
    written: dict[int, str] = {}  # each assignment's text by its identity: all targets of a service share one
    encoded = {}
    for name in sorted(set(map(node_of_target, names))):
        path = paths.target_path(name)
        if path in known:
            encoded[path] = known[path]
            continue
        systems = targets.get(system_target(name), ())
        assignments = (*targets.get(ROLES + name, ()), *targets.get(name, ()), *systems)
        if assignments or name in targets:
            for assignment in assignments:
                if id(assignment) not in written:
                    written[id(assignment)] = _encode_canonically(assignment.to_json())
            data = f"[{','.join(written[id(assignment)] for assignment in assignments)}]"
            encoded[path] = data.encode("ascii")
    return encoded


def decode_targets(nodes: Mapping[str, Node | None]) -> Targets:
    """Return the targets in these nodes, which are given by name; raises ``TreeError`` if one is invalid."""
    targets: dict[str, tuple[Assignment, ...]] = {}
    for name, node in nodes.items():
        if node is not None:
            targets |= decode_target(name, node.data)
    return targets


def is_same_work(before: bytes, after: bytes) -> bool:
    """Whether two versions of a target's node have the same assignments, apart from digests of properties."""
    try:
        listed = [json.loads(data) for data in (before, after)]
        bare = [
            [{key: each[key] for key in each if key != "properties"} for each in assignments]
            for assignments in listed
        ]
    except (ValueError, TypeError, RecursionError):
        return False
    return bare[0] == bare[1]


def read_targets(session: Session, names: Iterable[str]) -> Targets:
    """Return the published targets with these node names."""
    listed = list(names)
    nodes = session.get_many(f"{paths.TARGETS}/{name}" for name in listed)
    return decode_targets({unquote(name): node for name, node in zip(listed, nodes, strict=True)})


class KeptTargets:
    """The published targets, read again only after their parent node changed, as each import does."""

    def __init__(self) -> None:
        self._kept: tuple[object, Targets] | None = None

    def read(self, session: Session, parent: Node | None) -> Targets:
        """Return the targets; ``parent`` is their parent node as read. Raises ``TreeError`` if one is invalid."""
        stamp, kept = None if parent is None else (parent.changed, parent.born), self._kept
        if kept is None or kept[0] != stamp:
            kept = self._kept = stamp, read_targets(session, session.children(paths.TARGETS) or ())
        return kept[1]

    def read_valid(self, session: Session, parent: Node | None) -> Targets:
        """Return the targets as ``read`` does, but none if one of them is invalid."""
        try:
            return self.read(session, parent)
        except TreeError as error:
            get_logger().warning("targets-unreadable", reason=str(error))
            return {}


def read_wanted(session: Session, identity: Identity, revision: Revision) -> DesiredState:
    """Return the wanted state of ``identity`` at ``revision``; needs one request for a published revision.

    Raises ``ConflictError`` if a publication interfered (call the function again), or if the cluster is at another
    revision; ``TreeError`` if the tree contradicts itself for this host.
    """
    names = identity.target_names
    seen, (*mine, targets) = session.get_many_seen([*map(paths.target_path, names), paths.TARGETS])
    if targets is None or targets.properties.get("version") != revision:
        return _from_tree(session, identity, revision)
    # Every publication, even of the same revision, and every import writes the parent node of the targets: in its
    # only transaction, or in the first and the last of several. All reads saw a state at least as new as ``seen``,
    # and the parent node was read last. If that node has not changed since ``seen``, no target had changed when it
    # was read. An agent reads the cluster version first, so ``seen`` is as new as the publication that it follows.
    if targets.changed > seen:
        raise ConflictError(f"the targets changed while those of {identity} were read")
    return wanted_for(identity, decode_targets(dict(zip(names, mine, strict=True))))


def read_services(session: Session, services: Collection[str]) -> frozenset[str]:
    """Return the paths that are service nodes of the live tree; without paths no request is sent."""
    asked = [path for path in services if is_path(path)]
    nodes = session.get_many(map(deploy_node, asked)) if asked else ()
    return frozenset(path for path, node in zip(asked, nodes, strict=True) if node is not None)


def _from_tree(session: Session, identity: Identity, revision: Revision) -> DesiredState:
    """Return the wanted state of a host from the whole tree, because a version set by hand has no targets."""
    before, targets, withheld = session.get_many([paths.HOSTS, paths.TARGETS, paths.WITHHELD])
    _check_cluster(before, revision)
    tree = read_tree(session)
    after, targets_after = session.get_many([paths.HOSTS, paths.TARGETS])
    _check_cluster(after, revision)
    # An import by hand of one transaction changes the tree and the targets' node, but not the cluster version. The
    # withheld services change only in transactions that write the targets' node.
    if _changed(before) != _changed(after) or _changed(targets) != _changed(targets_after):
        raise ConflictError(f"the tree or the cluster version changed while the tree was read for {identity}")
    return wanted_from_tree(identity, tree, decode_withheld(withheld))


def _changed(node: Node | None) -> int | None:
    return None if node is None else node.changed


def _check_cluster(node: Node | None, revision: Revision) -> None:
    current = None if node is None else cluster_of(node)
    if current is None or current.revision != revision:
        state = "gone" if current is None else current.state.value
        version = None if current is None else current.version
        raise ConflictError(
            f"the cluster version changed while the tree was read: expected {revision}, found {version} ({state})"
        )


def read_withheld(session: Session) -> frozenset[ServiceTarget]:
    """Return the services and targets that the last publication withheld; raises ``TreeError`` for damage."""
    return decode_withheld(session.get(paths.WITHHELD))


def decode_withheld(node: Node | None) -> frozenset[ServiceTarget]:
    """Return the withheld services in their node; raises ``TreeError`` if it is damaged."""
    if node is None or not node.data:
        return frozenset()
    try:
        value = unpack(node.data)
    except ValueError as error:
        raise TreeError(f"{paths.WITHHELD} cannot be read: {error}; publish again") from error
    if not isinstance(value, dict):
        raise TreeError(f"{paths.WITHHELD} holds no mapping of services to targets; publish again")
    return withheld_from_json(value)


def withheld_operations(withheld: Collection[ServiceTarget], node: Node | None) -> Iterator[Operation]:
    """Yield the operation that writes the withheld services, if they changed."""
    yield from writing(paths.WITHHELD, encode_content(withheld_to_json(withheld)) if withheld else b"", node)


def read_groups(session: Session, services: Collection[str]) -> dict[str, str]:
    """Return the groups of those of these services that belong to one, by path; without paths no request is sent.

    The groups are those of the last publication. Raises ``TreeError`` for damage.
    """
    node = session.get(paths.GROUPS) if services else None
    if node is None or not node.data:
        return {}
    try:
        listed: Any = unpack(node.data)
        groups = GoverningGroups({str(subject): tuple(governed) for subject, governed in listed.items()})
    except (ValueError, TypeError, AttributeError) as error:
        raise TreeError(f"{paths.GROUPS} cannot be read: {error}; publish again") from error
    return {path: group for path in services if (group := groups.of(path)) is not None}


def group_operations(groups: GoverningGroups, node: Node | None) -> Iterator[Operation]:
    """Yield the operation that writes the groups that failures stop, with their paths, if they changed."""
    yield from writing(paths.GROUPS, encode_content(groups.paths) if groups else b"", node)


def writing(path: str, data: bytes, node: Node | None) -> Iterator[Operation]:
    """Yield the operation that gives a node these data, if they changed; a node without data need not exist."""
    if node is None:
        if data:
            yield Create(path, data)
    elif node.data != data:
        yield Set(path, data, node.version)


def read_left(session: Session) -> tuple[LeftService, ...]:
    """Return the services that left the governance of their intents; raises ``TreeError`` for a damaged node."""
    node = session.get(paths.LEFT)
    if node is None or not node.data:
        return ()
    try:
        value: Any = unpack(node.data)
        return tuple(map(LeftService.from_json, value["services"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TreeError(f"{paths.LEFT} cannot be read: {error}; restore the node from a backup") from error


def left_operations(left: Collection[LeftService], node: Node | None) -> Iterator[Operation]:
    """Yield the operation that writes the services that left their intents, if they changed."""
    yield from writing(
        paths.LEFT, encode_content({"services": [one.to_json() for one in left]}) if left else b"", node
    )
