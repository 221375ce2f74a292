"""A simulated ZooKeeper: a leader that orders all writes, servers that follow it, sessions and watches.

Clients reach a server through ``simulated_client``. Each answer comes after what the server has applied by then,
so that a slow server shows old data. The leader never changes.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from kazoo.protocol.states import EventType

from simulation.green import EPOCH
from simulation.server_tree import Change, ServerTree, Write, parent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from kazoo.exceptions import KazooException

    from simulation.green import Scheduler


class Watcher(Protocol):
    """The connection of a client, as a server sees it."""

    def fire(self, kind: str, path: str) -> None:
        """Send the event of a watch."""


class Server:
    """One server, which applies the leader's changes in order and later than the leader by ``lag`` seconds."""

    def __init__(self, ensemble: Ensemble, tree: ServerTree, *, leads: bool) -> None:
        self._ensemble = ensemble
        self.tree = tree
        self.leads = leads
        self.lag = 0.0
        self.down = False
        self.data_watches: dict[str, dict[Watcher, None]] = {}
        self.child_watches: dict[str, dict[Watcher, None]] = {}
        self._watched: dict[Watcher, dict[str, None]] = {}
        self.waiting: list[tuple[int, Callable[[], None]]] = []
        self.log: deque[tuple[float, int, Sequence[Change]]] = deque()
        self.applied = 0

    def receive(self, zxid: int, changes: Sequence[Change]) -> None:
        """Take a transaction of the leader, to be applied in order."""
        if self.leads:
            self.applied = zxid
            self._fire(changes)
            self._call_waiting()
            return
        scheduler = self._ensemble.scheduler
        due = scheduler.now + self.lag + self._ensemble.chance.uniform(0.0001, 0.002)
        if self.log:
            due = max(due, self.log[-1][0])
        self.log.append((due, zxid, changes))
        scheduler.at(due, self.apply_due)

    def apply_due(self) -> None:
        """Apply the transactions that are due."""
        now = self._ensemble.scheduler.now
        while self.log and self.log[0][0] <= now:
            _, zxid, changes = self.log.popleft()
            for change in changes:
                self.tree.apply(change)
            self.applied = zxid
            self._fire(changes)
        self._call_waiting()

    def once_applied(self, zxid: int, action: Callable[[], None]) -> None:
        """Call ``action`` when this server has applied a transaction."""
        if self.applied >= zxid:
            action()
        else:
            self.waiting.append((zxid, action))

    def watch(self, watcher: Watcher, path: str, *, children: bool) -> None:
        """Note the watch of a connection."""
        watches = self.child_watches if children else self.data_watches
        watches.setdefault(path, {})[watcher] = None
        self._watched.setdefault(watcher, {})[path] = None

    def forget(self, watcher: Watcher) -> None:
        """Remove all watches of a connection."""
        for path in self._watched.pop(watcher, ()):
            for watches in (self.data_watches, self.child_watches):
                if path in watches:
                    watches[path].pop(watcher, None)

    def _call_waiting(self) -> None:
        if self.waiting:
            due = [action for zxid, action in self.waiting if zxid <= self.applied]
            self.waiting = [entry for entry in self.waiting if entry[0] > self.applied]
            for action in due:
                action()

    def _fire(self, changes: Sequence[Change]) -> None:
        for change in changes:
            path = change.path
            if change.kind == "set":
                self._fire_all(self.data_watches.pop(path, ()), EventType.CHANGED, path)
            elif change.kind == "create":
                self._fire_all(self.data_watches.pop(path, ()), EventType.CREATED, path)
                self._fire_all(self.child_watches.pop(parent(path), ()), EventType.CHILD, parent(path))
            else:
                watchers = {**self.data_watches.pop(path, {}), **self.child_watches.pop(path, {})}
                self._fire_all(watchers, EventType.DELETED, path)
                self._fire_all(self.child_watches.pop(parent(path), ()), EventType.CHILD, parent(path))

    def _fire_all(
        self, watchers: Sequence[Watcher] | dict[Watcher, None] | tuple[()], kind: str, path: str
    ) -> None:
        for watcher in list(watchers):
            watcher.fire(kind, path)


class ServerSession:
    """A session, as the leader knows it."""

    def __init__(self, number: int, timeout: float) -> None:
        self.id = number
        self.timeout = timeout
        self.alive = True
        self.nodes: dict[str, None] = {}
        self.silent_since: float | None = None
        self.on_end: Callable[[], None] = lambda: None


class Ensemble:
    """The servers and the sessions. ``on_commit`` is called with the changes of each transaction."""

    def __init__(self, scheduler: Scheduler, chance: Random, *, servers: int = 3) -> None:
        self.scheduler = scheduler
        self.chance = chance
        self.leader = ServerTree()
        leading = Server(self, self.leader, leads=True)
        self.servers = [leading, *(Server(self, ServerTree(), leads=False) for _ in range(servers - 1))]
        self.sessions: dict[int, ServerSession] = {}
        self.zxid = 0
        self.requests = 0
        self.on_commit: list[Callable[[int, Sequence[Change]], None]] = []
        self._session_number = 0x10000000
        self.write([Write("create", "/zookeeper")], None)

    def open_session(self, timeout: float) -> ServerSession:
        """Return a new session."""
        self._session_number += 1
        session = ServerSession(self._session_number, timeout)
        self.sessions[session.id] = session
        return session

    def hear(self, session: ServerSession) -> None:
        """Note that the session's client is connected: the session cannot expire."""
        session.silent_since = None

    def miss(self, session: ServerSession) -> None:
        """Note that the session's client is silent from now on."""
        since = session.silent_since = self.scheduler.now

        def expire() -> None:
            if session.alive and session.silent_since == since:
                self.end_session(session)

        self.scheduler.after(session.timeout, expire)

    def end_session(self, session: ServerSession) -> None:
        """Close or expire a session and remove its ephemeral nodes in one transaction."""
        if not session.alive:
            return
        session.alive = False
        del self.sessions[session.id]
        nodes = sorted(session.nodes)
        if nodes:
            self.write([Write("delete", path) for path in nodes], None)
        session.on_end()

    def write(
        self, writes: Sequence[Write], session: ServerSession | None
    ) -> tuple[int, list[str], list[KazooException] | None]:
        """Execute a transaction at the leader; return its number, the created paths, and failures if it failed."""
        self.requests += 1
        self.zxid += 1
        zxid, now = self.zxid, int((EPOCH + self.scheduler.now) * 1000)
        owner = 0 if session is None else session.id
        changes, paths, failures = self.leader.changes(writes, owner, zxid, now)
        for change in changes:
            if change.kind == "create" and change.owner:
                self.sessions[change.owner].nodes[change.path] = None
            elif change.kind == "delete" and change.owner in self.sessions:
                del self.sessions[change.owner].nodes[change.path]
        for server in self.servers:
            server.receive(zxid, changes)
        if changes:
            for called in self.on_commit:
                called(zxid, changes)
        return zxid, paths, failures
