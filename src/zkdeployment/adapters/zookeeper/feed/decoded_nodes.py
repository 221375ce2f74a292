"""The values in followed nodes; what has not changed is not decoded again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.feed.followed_nodes import FollowedNodes

T = TypeVar("T")


class DecodedNodes:
    """The values in nodes; only one thread may call the methods."""

    def __init__(self, nodes: FollowedNodes) -> None:
        self._nodes = nodes
        self._decoded: dict[str, tuple[Node, Any]] = {}

    def value(self, path: str, name: str, decode: Callable[[str, Node], T]) -> T | None:
        """Return the value of a node, the same object for as long as the node has not changed."""
        node = self._nodes.node(path)
        if node is None:
            return None
        known = self._decoded.get(path)
        if known is None or known[0] is not node:
            known = self._decoded[path] = node, decode(name, node)
        value: T = known[1]
        return value

    def forget(self) -> None:
        """Drop the values of nodes that are no longer followed."""
        gone = [path for path, (node, _) in self._decoded.items() if self._nodes.node(path) is not node]
        for path in gone:
            del self._decoded[path]
