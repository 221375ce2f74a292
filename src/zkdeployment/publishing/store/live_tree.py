"""Snapshots of the live tree, read in pipelined requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.publishing.store.assignments import top_paths, walk
from zkdeployment.tree.values import LiveNode, LiveTree, Tree, parent_path
from zkdeployment.zookeeper.nodes import check_path

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.tree.values import Properties
    from zkdeployment.zookeeper.session import Session


def read_live_tree(session: Session) -> LiveTree:
    """Return the whole tree without reserved top-level nodes and ephemeral nodes."""
    nodes = walk(session, top_paths(session))
    kept = {path: node for path, node in nodes.items() if not node.owner}
    pinned: set[str] = set()
    for path in nodes.keys() - kept.keys():
        above = parent_path(path)
        while above and above not in pinned:
            pinned.add(above)
            above = parent_path(above)
    return LiveTree(
        tree=Tree({path: node.properties for path, node in kept.items()}),
        versions={path: node.version for path, node in kept.items()},
        pinned=frozenset(pinned),
    )


def read_live_nodes(session: Session, paths: Collection[str]) -> dict[str, LiveNode]:
    """Return these nodes, without nodes that do not exist."""
    return {
        path: LiveNode(node.properties, node.version, node.children, ephemeral=node.owner != 0)
        for path, node in zip(paths, session.get_many(paths), strict=True)
        if node is not None
    }


def read_subtree(session: Session, path: str) -> dict[str, Properties] | None:
    """Return a node and all nodes below it, ephemeral ones included; ``None`` if there is no such node.

    The empty path is the whole tree without the reserved nodes; a path may lead to a reserved node.
    """
    nodes = walk(session, [check_path(path)] if path else top_paths(session))
    if path and path not in nodes:
        return None
    return {found_path: node.properties for found_path, node in nodes.items()}


def read_providers(session: Session, services: Collection[str]) -> dict[str, dict[str, Properties]]:
    """Return the registered instances of services, the children of ``SERVICE/providers``: path, name, properties.

    Services without such a node are omitted; everything is read in two pipelined rounds.
    """
    directories = {f"{path}/providers": path for path in services}
    _, lists = session.look((), list(directories))
    names = {
        directory: children for directory, children in zip(directories, lists, strict=True) if children is not None
    }
    wanted = [f"{directory}/{name}" for directory, children in names.items() for name in children]
    nodes = dict(zip(wanted, session.get_many(wanted), strict=True))
    return {
        directories[directory]: {
            name: node.properties for name in children if (node := nodes[f"{directory}/{name}"]) is not None
        }
        for directory, children in names.items()
    }
