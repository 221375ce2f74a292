"""The node that lists the managed top-level nodes: those of tree files, and those of unfinished publications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client.nodes import encode

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.model.publishing.tree_change import TreeChange

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
