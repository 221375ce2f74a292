"""Nodes that many readers share: copies that watches keep current, decoded values, and bounded reads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar

from kazoo.protocol.states import EventType

from zkdeployment.base.errors import UnreachableError
from zkdeployment.base.machine.calls import SharedCall
from zkdeployment.base.values import dataclass
from zkdeployment.zookeeper.reads import Read

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session


#: Rounds of one refresh: a list of children leads to the children, and these may lead to further nodes.
_ROUNDS = 5


class NodeCopies:
    """Copies of nodes and of lists of children, from their last reads."""

    def __init__(self, values: dict[Read, Any] | None = None) -> None:
        self._values: dict[Read, Any] = values or {}
        self._missing: set[str] = set()  # the paths of nodes that do not exist

    def node(self, path: str) -> Node | None:
        """Return the last read state of a node; ``None`` if it does not exist."""
        found: Node | None = self._values.get(Read(path))
        return found

    def children(self, path: str) -> Sequence[str]:
        """Return the sorted names of a node's children at the last read; empty without the node."""
        found: Sequence[str] = self._values.get(Read(path, children=True)) or ()
        return found

    def existing(self, path: str) -> frozenset[str]:
        """Return the names of a node's children, without those that were removed after the list had been read."""
        above = f"{path}/"
        removed = (missing.removeprefix(above) for missing in self._missing if missing.startswith(above))
        return frozenset(self.children(path)).difference(removed)


class ReadNodes(NodeCopies):
    """Copies that each refresh reads anew, without watches. Only one thread may call the methods.

    Nodes whose paths ``last`` do not change while they are wanted: they are read once.
    """

    def __init__(self, session: Session, last: Callable[[str], bool] = lambda _path: False) -> None:
        super().__init__()
        self._session = session
        self._last = last

    def refresh(self, wanted: Callable[[], Iterable[Read]]) -> None:
        """Read everything that ``wanted`` returns, which is called again after reads on which it may depend.

        Raises ``UnreachableError``.
        """
        former, self._values, self._missing = self._values, {}, set()
        for _ in range(_ROUNDS):
            due = frozenset(wanted()) - self._values.keys()
            if not due:
                break
            known = {read for read in due & former.keys() if former[read] is not None and self._is_lasting(read)}
            self._values |= {read: former[read] for read in known}
            self._read(due - known)

    def _is_lasting(self, read: Read) -> bool:
        return not read.children and self._last(read.path)

    def _read(self, due: Collection[Read]) -> None:
        nodes, lists = (sorted(read.path for read in due if read.children is of) for of in (False, True))
        found, names = self._session.look(nodes, lists)
        self._values |= dict(zip(map(Read, nodes), found, strict=True))
        self._missing.update(path for path, node in zip(nodes, found, strict=True) if node is None)
        self._values |= {Read(path, children=True): each for path, each in zip(lists, names, strict=True)}


class FollowedNodes(NodeCopies):
    """A copy of the followed nodes and lists of children.

    ``wake`` (which must not block) is called when something may be outdated. Only one thread may call the methods;
    the watches call from kazoo's thread.
    """

    def __init__(self, session: Session, wake: Callable[[], None]) -> None:
        super().__init__()
        self._session = session
        self._wake = wake
        self._lock = threading.Lock()
        self._stale: set[Read] = set()
        self._changed: set[Read] = set()  # changes that ``refresh`` has not returned yet
        self._is_complete = True  # everything that has to be followed was read in the last refresh
        self._connection: int | None = None  # the connection that has the watches; a new one has none

    @property
    def are_stale(self) -> bool:
        """Whether something may be outdated."""
        return bool(self._stale) or not self._is_complete or self._connection != self._session.link.connections

    def refresh(self, wanted: Callable[[], Iterable[Read]]) -> frozenset[Read]:
        """Read the outdated nodes, and return the changes since the last call that returned.

        ``wanted`` returns everything that has to be followed; it is called again after reads on which its result
        may depend. If nodes change again and again during the call, it returns, and ``wake`` is called for the
        rest. Raises ``UnreachableError`` if the connection was lost during the call: then everything is outdated.
        """
        connection, former = self._session.link.connections, self._connection
        self._connection = None
        if connection != former:
            with self._lock:
                self._stale |= self._values.keys()
        for _ in range(_ROUNDS):
            due = self._due(frozenset(wanted()))
            self._is_complete = not due
            if not due:
                break
            self._read(due)
        else:
            self._wake()
        if connection != self._session.link.connections:
            raise UnreachableError(f"the connection to ZooKeeper at {self._session.connection} was lost")
        self._connection = connection
        changed, self._changed = frozenset(self._changed), set()
        return changed

    def _due(self, wanted: frozenset[Read]) -> list[Read]:
        """Return the nodes to read, lists of children first, and drop nodes that are no longer wanted."""
        with self._lock:
            for read in self._values.keys() - wanted:
                del self._values[read]
                self._missing.discard(read.path)
            due = (wanted - self._values.keys()) | (self._stale & wanted)
            self._stale.clear()
        return sorted(due, key=lambda read: (not read.children, read.path))

    def _read(self, due: list[Read]) -> None:
        for read, answer in self._session.follow(due, self._note):
            value = tuple(sorted(answer)) if read.children and answer is not None else answer
            if read not in self._values or self._values[read] != value:
                self._changed.add(read)
                self._values[read] = value
                if value is None:
                    self._missing.add(read.path)
                else:
                    self._missing.discard(read.path)

    def _note(self, event: Any) -> None:
        """Record the event of a watch; kazoo calls this method on its thread."""
        if event.type == EventType.NONE:
            return  # the connection was lost, which the next refresh notices by itself
        of_children = event.type == EventType.CHILD
        with self._lock:
            self._stale.add(Read(event.path))  # of children, too: the node counts their changes
            if of_children or event.type in {EventType.CREATED, EventType.DELETED}:
                self._stale.add(Read(event.path, children=True))
        self._wake()


T = TypeVar("T")


class DecodedNodes:
    """The values in nodes; only one thread may call the methods."""

    def __init__(self, nodes: NodeCopies) -> None:
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

    def children(self, path: str) -> Sequence[str]:
        """Return the sorted names of a node's children."""
        return self._nodes.children(path)

    def forget(self) -> None:
        """Drop the values of nodes that are no longer followed."""
        gone = [path for path, (node, _) in self._decoded.items() if self._nodes.node(path) is not node]
        for path in gone:
            del self._decoded[path]


#: The highest age of a returned value, in seconds.
MAX_AGE = 1.0

#: Seconds that a client waits for the read of another client.
PATIENCE = 2.0

#: The limit of kept values; the least recently used ones are dropped.
_KEPT = 64


def late_read(seconds: float) -> UnreachableError:
    """Return the error for clients who would wait longer for the read of another client."""
    return UnreachableError(f"ZooKeeper has not answered for {seconds:g} s; the service tries again by itself")


class SharedReads:
    """Values by key, each read by one thread while others wait for it. Failures are shared, too."""

    def __init__(self, *, max_age: float = MAX_AGE) -> None:
        self._max_age = max_age
        self._lock = threading.Lock()
        self._reads: OrderedDict[Hashable, SharedCall[Any]] = OrderedDict()

    def get(self, key: Hashable, read: Callable[[], T], *, fresh: bool = False) -> T:
        """Return the value of ``key``; ``read`` returns it anew and may raise ``ZkdeploymentError``.

        A ``fresh`` value is one whose read began after this call.
        """
        with self._lock:
            shared = self._reads.setdefault(key, SharedCall(patience=PATIENCE, late=late_read))
            self._reads.move_to_end(key)
            while len(self._reads) > _KEPT:
                self._reads.popitem(last=False)
        value: T = shared.get(read, 0.0 if fresh else self._max_age)
        return value


#: The limit of kept nodes.
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
