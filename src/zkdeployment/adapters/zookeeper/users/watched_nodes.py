"""A cache of nodes that is as fresh as reading each node again: ZooKeeper reports every change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session

#: Nodes that are kept.
_LIMIT = 5000


class WatchedNodes:
    """Reads nodes and keeps them while they are watched and the session is connected.

    Missing nodes are not kept: they are read again each time.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._nodes: OrderedDict[str, Node] = OrderedDict()
        self._lock = threading.Lock()
        self._events = 0
        session.on_change(self._forget_all)

    def get(self, path: str) -> Node | None:
        """Return a node; ``None`` if it does not exist."""
        with self._lock:
            if self._session.connected and path in self._nodes:
                self._nodes.move_to_end(path)
                return self._nodes[path]
            events = self._events
        node = self._session.get(path, watch=_Forget(self, path))
        with self._lock:
            if node is not None and events == self._events:  # no watch fired since the node was read
                self._nodes[path] = node
                while len(self._nodes) > _LIMIT:
                    self._nodes.popitem(last=False)
        return node

    def forget(self, path: str) -> None:
        """Drop a node, so that it is read again."""
        with self._lock:
            self._events += 1
            self._nodes.pop(path, None)

    def _forget_all(self) -> None:
        with self._lock:
            self._events += 1
            self._nodes.clear()


@dataclass(frozen=True, slots=True)
class _Forget:
    """A watch that drops a node; kazoo keeps only one of equal watches on a node."""

    nodes: WatchedNodes
    path: str

    def __call__(self, _event: object) -> None:
        self.nodes.forget(self.path)
