"""Copies of nodes that watches keep current: after a change only what changed is read again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from kazoo.protocol.states import EventType

from zkdeployment.adapters.zookeeper.client.reads import Read
from zkdeployment.errors import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session

#: Rounds of one refresh: a list of children leads to the children, and these may lead to further nodes.
_ROUNDS = 5


class FollowedNodes:
    """The followed nodes and lists of children.

    ``wake`` (which must not block) is called when something may be outdated. Only one thread may call the methods;
    the watches call from kazoo's thread.
    """

    def __init__(self, session: Session, wake: Callable[[], None]) -> None:
        self._session = session
        self._wake = wake
        self._lock = threading.Lock()
        self._values: dict[Read, Any] = {}
        self._stale: set[Read] = set()
        self._changed: set[Read] = set()  # not returned yet
        self._connection: int | None = None  # the connection that has the watches; they end with it

    @property
    def are_stale(self) -> bool:
        """Whether something may be outdated."""
        return bool(self._stale) or self._connection != self._session.link.connections

    def node(self, path: str) -> Node | None:
        """Return the last read state of a followed node; ``None`` if it does not exist."""
        found: Node | None = self._values.get(Read(path))
        return found

    def children(self, path: str) -> Sequence[str]:
        """Return the sorted names of a followed node's children at the last read; empty without the node."""
        found: Sequence[str] = self._values.get(Read(path, children=True)) or ()
        return found

    def refresh(self, wanted: Callable[[], Iterable[Read]]) -> frozenset[Read]:
        """Read the outdated nodes, and return the changes since the last call that returned.

        ``wanted`` returns everything that is to be followed; it is called again when that may depend on what was
        read. Raises ``UnreachableError`` if the connection was lost during the call: then everything is outdated.
        """
        connection, former = self._session.link.connections, self._connection
        self._connection = None
        if connection != former:
            with self._lock:
                self._stale |= self._values.keys()
        for _ in range(_ROUNDS):
            due = self._due(frozenset(wanted()))
            if not due:
                break
            self._read(due)
        if connection != self._session.link.connections:
            raise UnreachableError(f"the connection to ZooKeeper at {self._session.connection} was lost")
        self._connection = connection
        changed, self._changed = frozenset(self._changed), set()
        return changed

    def _due(self, wanted: frozenset[Read]) -> list[Read]:
        """Return the nodes to read, lists of children first, and drop nodes that are not followed any more."""
        with self._lock:
            for read in self._values.keys() - wanted:
                del self._values[read]
            due = (wanted - self._values.keys()) | (self._stale & wanted)
            self._stale.clear()
        return sorted(due, key=lambda read: (not read.children, read.path))

    def _read(self, due: list[Read]) -> None:
        for read, answer in self._session.follow(due, self._note):
            value = tuple(sorted(answer)) if read.children and answer is not None else answer
            if read not in self._values or self._values[read] != value:
                self._changed.add(read)
                self._values[read] = value

    def _note(self, event: Any) -> None:
        """Record the report of a watch; kazoo calls this on its thread."""
        if event.type == EventType.NONE:
            return  # the connection was lost, which the next refresh notices by itself
        of_children = event.type == EventType.CHILD
        with self._lock:
            if not of_children:
                self._stale.add(Read(event.path))
            if of_children or event.type in {EventType.CREATED, EventType.DELETED}:
                self._stale.add(Read(event.path, children=True))
        self._wake()
