"""Reads the wanted state of a host: from the compiled targets if possible, else from the whole tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import is_path
from zkdeployment.adapters.zookeeper.publication.compiled import decode_targets
from zkdeployment.adapters.zookeeper.publication.tree_nodes import read_tree
from zkdeployment.adapters.zookeeper.publication.withheld import decode_withheld
from zkdeployment.errors import ConflictError
from zkdeployment.model.cluster import Cluster
from zkdeployment.planning.services import deploy_node
from zkdeployment.planning.targets.wanted import wanted_for, wanted_from_tree

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.deployment import DesiredState
    from zkdeployment.model.host import Identity


def read_wanted(session: Session, identity: Identity, revision: Revision) -> DesiredState:
    """Return what ``identity`` is to run at ``revision``; needs one request if that revision is published.

    Raises ``ConflictError`` if a publication interfered (then call again) or the cluster is at another revision,
    ``TreeError`` if the tree contradicts itself for this host.
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
    """Return those of these paths that are service nodes of the live tree; without paths no request is sent."""
    asked = [path for path in services if is_path(path)]
    nodes = session.get_many(map(deploy_node, asked)) if asked else ()
    return frozenset(path for path, node in zip(asked, nodes, strict=True) if node is not None)


def _from_tree(session: Session, identity: Identity, revision: Revision) -> DesiredState:
    """Return the wanted state of a host from the whole tree: a version set by hand has no compiled targets."""
    before, targets, withheld = session.get_many([paths.HOSTS, paths.TARGETS, paths.WITHHELD])
    _check_cluster(before, revision)
    tree = read_tree(session)
    after, targets_after = session.get_many([paths.HOSTS, paths.TARGETS])
    _check_cluster(after, revision)
    # An import by hand of one transaction changes the tree and the targets' node, but not the cluster version.
    # What is withheld changes only in transactions that write the targets' node.
    if _changed(before) != _changed(after) or _changed(targets) != _changed(targets_after):
        raise ConflictError(f"the tree or the cluster version changed while the tree was read for {identity}")
    return wanted_from_tree(identity, tree, decode_withheld(withheld))


def _changed(node: Node | None) -> int | None:
    return None if node is None else node.changed


def _check_cluster(node: Node | None, revision: Revision) -> None:
    current = None if node is None else Cluster.from_properties(node.properties)
    if current is None or current.revision != revision:
        state = "gone" if current is None else current.state.value
        version = None if current is None else current.version
        raise ConflictError(
            f"the cluster version changed while the tree was read: expected {revision}, found {version} ({state})"
        )
