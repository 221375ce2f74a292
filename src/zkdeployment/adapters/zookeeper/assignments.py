"""Reading what a host is to run: from the targets compiled with the publication, else from the whole tree."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper import paths
from zkdeployment.adapters.zookeeper.live_tree import read_live_tree
from zkdeployment.errors import ConflictError, TreeError
from zkdeployment.model.cluster import Cluster
from zkdeployment.planning import targets as planning

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.nodes import Node
    from zkdeployment.adapters.zookeeper.session import Session
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.deployment import Wanted
    from zkdeployment.model.host import Identity


def read_wanted(session: Session, identity: Identity, revision: Revision) -> Wanted:
    """Return what ``identity`` is to run at ``revision``.

    A session's reads are answered in their order, so a publication between them shows in the last two. Raises
    ``ConflictError`` then, ``TreeError`` if the tree contradicts itself for this host.
    """
    names = identity.published_names
    before, *mine, cluster, after = session.get_many(
        [paths.TARGETS, *map(paths.target_path, names), paths.HOSTS, paths.TARGETS]
    )
    _check_cluster(cluster, revision)
    if before is not None and before.properties.get("version") == revision:
        if after is None or after.changed != before.changed:
            raise ConflictError(f"the targets changed while those of {identity} were read")
        found = {
            name: planning.assignments_from_json(_json(name, node.data))
            for name, node in zip(names, mine, strict=True)
            if node is not None
        }
        return planning.wanted_for(identity, found)
    return _from_tree(session, identity, revision, cluster)


def _from_tree(session: Session, identity: Identity, revision: Revision, before: Node | None) -> Wanted:
    """Walk the tree, which a version set by hand stands for."""
    tree = read_live_tree(session).tree
    after = session.get(paths.HOSTS)
    _check_cluster(after, revision)
    if before is None or after is None or after.changed != before.changed:
        raise ConflictError(f"the cluster version changed while the tree was read for {identity}")
    return planning.wanted_from_tree(identity, tree)


def _check_cluster(node: Node | None, revision: Revision) -> None:
    found = None if node is None else Cluster.from_properties(node.properties)
    if found is None or found.revision != revision:
        state = "gone" if found is None else found.state.value
        version = None if found is None else found.version
        raise ConflictError(f"the cluster moved on from {revision} while it was read: it is {state} at {version}")


def _json(name: str, data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TreeError(f"{paths.target_path(name)} does not hold a list of assignments: {error}") from error
