"""Whether the nodes that a change touches are what was published before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.model.publication import TreeChange
from zkdeployment.tree.diff import describe_change, stored_alike

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.model.publication import LiveNode
    from zkdeployment.model.tree import Tree


def drift(change: TreeChange, published: Tree, found: Mapping[str, LiveNode]) -> Iterator[str]:
    """Say of each node to be touched what is not as it was published, beginning with its path.

    ``found`` are those that exist of ``change.paths``.
    """
    for path in sorted(change.paths):
        node = found.get(path)
        if path in change.create:
            if node is not None:
                yield f"{path} is there already"
        elif node is None:
            yield f"{path} is gone"
        elif node.ephemeral:
            yield f"{path} has become an ephemeral node"
        elif not stored_alike(published.nodes[path], node.properties):
            yield from describe_change(TreeChange(update={path: node.properties}), published)


def has_others_below(change: TreeChange, published: Tree, found: Mapping[str, LiveNode]) -> bool:
    """Whether a node to be deleted has more below it than what was published: instances, as a rule."""
    return any(path in found and found[path].children > len(published.children(path)) for path in change.delete)
