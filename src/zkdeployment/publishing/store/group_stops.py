"""The stops of deployment intent groups: one node for each stopped group, until it changes or is resumed.

Each change of these nodes also writes ``/hosts`` with unchanged data. A transaction that begins a step checks the
version of ``/hosts``, so no step of the group begins after the stop; and the watches on ``/hosts`` wake all hosts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.base.cluster import Cluster
from zkdeployment.base.stop import GroupStop
from zkdeployment.publishing.store.last_publication import decode_published
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode
from zkdeployment.zookeeper.transactions import Create, Delete, Set

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session
    from zkdeployment.zookeeper.transactions import Operation


def stopped_groups(session: Session) -> frozenset[str]:
    """Return the subjects of the groups that are stopped."""
    return frozenset(map(unquote, session.children(paths.GROUP_STOPS) or ()))


def read_group_stops(session: Session) -> tuple[GroupStop, ...]:
    """Return the stops of groups, sorted by group."""
    names = sorted(session.children(paths.GROUP_STOPS) or ())
    nodes = session.get_many(f"{paths.GROUP_STOPS}/{name}" for name in names)
    return tuple(group_stop_of(name, node) for name, node in zip(names, nodes, strict=True) if node is not None)


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
    cluster = None if hosts is None else Cluster.from_properties(hosts.properties)
    if hosts is None or cluster is None:
        return None
    if not decode_published(targets).is_wanted(cluster, stop.stop.revision, stop.sequence):
        return None
    return [] if node is not None else [Create(path, encode(stop.to_json())), _touch(hosts)]


def resuming_group(hosts: Node, group: str) -> list[Operation]:
    """Return the operations that end the stop of a group; they fail if it is not stopped."""
    return [Delete(paths.group_stop_path(group)), _touch(hosts)]


def ending_stops(session: Session, groups: Collection[str]) -> list[Operation]:
    """Return the operations that end the stops of the stopped ones among these ``groups``.

    Commit them together with a change of ``/hosts`` that fails if ``/hosts`` was written since.
    """
    ended = stopped_groups(session) & frozenset(groups)
    return [Delete(paths.group_stop_path(group)) for group in sorted(ended)]


def _touch(hosts: Node) -> Operation:
    return Set(paths.HOSTS, hosts.data, hosts.version)
