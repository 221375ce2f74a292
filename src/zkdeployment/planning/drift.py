"""Whether the live nodes that a change concerns still have their published content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.model.publishing.tree_change import TreeChange
from zkdeployment.tree.diff import describe_change, stored_alike

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.model.publishing.tree_change import LiveNode
    from zkdeployment.model.tree import Tree


def drift(change: TreeChange, published: Tree, nodes: Mapping[str, LiveNode]) -> Iterator[str]:
    """Yield a message, which starts with the path, for each difference from what was published.

    ``nodes`` are those of ``change.paths`` that exist.
    """
    for path in sorted(change.paths):
        node = nodes.get(path)
        if path in change.create:
            if node is not None:
                yield f"{path} is there already"
        elif node is None:
            yield f"{path} is gone"
        elif node.ephemeral:
            yield f"{path} has become an ephemeral node"
        elif not stored_alike(published.properties(path) or {}, node.properties):
            yield from describe_change(TreeChange(update={path: node.properties}), published)


def has_foreign_children(change: TreeChange, published: Tree, nodes: Mapping[str, LiveNode]) -> bool:
    """Whether a node to be deleted has children that were not published, usually registered instances."""
    return any(path in nodes and nodes[path].children > len(published.children(path)) for path in change.delete)
