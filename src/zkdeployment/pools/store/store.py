"""The records of pools in ZooKeeper: nodes and sessions, changed by compare-and-set, and those that ended.

A directory has the records of a thousand consecutive ids, so that no list of names becomes too long for ZooKeeper.
Each record has one node in ZooKeeper. The guard of a tenant lists the tenant's active sessions, and changes with
each of them, so that two concurrent requests cannot exceed the quota. A claim is an ephemeral node: it ends with
the process that works on the node. Each transaction writes the node ``changes``, on which waiting processes have a
watch.
"""

from __future__ import annotations

import contextlib
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import quote, unquote

from zkdeployment.base.errors import ConflictError, TreeError, ZkdeploymentError, error_message
from zkdeployment.base.json_values import readable
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.calls import turn
from zkdeployment.base.records import Record
from zkdeployment.pools import paths as pool_paths
from zkdeployment.pools.documents import POOLS, PoolConfiguration, pools_in_force
from zkdeployment.pools.rules.node import PoolNode
from zkdeployment.pools.rules.results import PlaybookRun
from zkdeployment.pools.rules.snapshot import (
    FillingRecord,
    PoolChange,
    PoolSnapshot,
    SessionRequest,
    TenantSession,
)
from zkdeployment.pools.rules.usage import SessionUse, session_use
from zkdeployment.publishing.store.cluster import read_maintenance
from zkdeployment.publishing.store.documents import read_published_documents
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, encode, pack, unpack
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.shared_nodes import DecodedNodes, NodeCopies, late_read
from zkdeployment.zookeeper.transactions import Create, Delete, Operation, Set, TransactionError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from zkdeployment.zookeeper.servers import AclEntry
    from zkdeployment.zookeeper.session import Session

T = TypeVar("T")
R = TypeVar("R", bound=Record)


def decode_record(path: str, node: Node, kind: type[R], **apart: Any) -> R | None:
    """Return the record in a node; ``None`` for a damaged one, which is logged, so that all others can be used."""
    try:
        value = readable(unpack(node.data))
        return kind.from_json(value, **apart)
    except ValueError as error:
        get_logger().warning("pool-record-damaged", path=path, reason=str(error))
        return None


#: The directories of pools in the order in which they are read, with the nodes of a line before the next line.
#: Guards of a change come before the records on which it is decided, so no guard is newer than these. Requests
#: come before nodes: a request that gets nodes in between is read as waiting, and a process that takes its nodes
#: finds them changed. Sessions come last, so the state of a node is never newer than that of its session.
_ROUNDS = (
    (pool_paths.FILLING, pool_paths.TENANTS, pool_paths.HOSTS),
    (pool_paths.CLAIMS, pool_paths.WORKERS, pool_paths.WAITING, pool_paths.NODES),
    (pool_paths.SESSIONS,),
)


def read_snapshot(session: Session) -> PoolSnapshot:
    """Return the present snapshot; raises ``UnreachableError``."""
    read: dict[Read, Any] = {}
    for directories in _ROUNDS:
        listed = dict(zip(directories, session.look((), directories)[1], strict=True))
        read |= {Read(above, children=True): names for above, names in listed.items()}
        wanted = [f"{above}/{name}" for above, names in listed.items() for name in names or ()]
        read |= dict(zip(map(Read, wanted), session.get_many(wanted), strict=True))
    return pool_snapshot(DecodedNodes(NodeCopies(read)), session.id)


def pool_snapshot(nodes: DecodedNodes, session: int | None = None) -> PoolSnapshot:
    """Return the snapshot in the nodes that were read; a directory that was not read counts as empty.

    The claims of the session with the id ``session`` are the own claims. A damaged record of filling counts as an
    empty one, which is written anew.
    """

    def records(above: str, decode: Callable[[str, Node], T | None]) -> dict[str, T]:
        paths = {name: f"{above}/{name}" for name in nodes.children(above)}
        found = ((name, nodes.value(path, path, decode)) for name, path in paths.items())
        return {name: record for name, record in found if record is not None}

    def numbered(above: str, decode: Callable[[str, Node], T | None]) -> dict[int, T]:
        found = records(above, decode)
        return {int(name): found[name] for name in sorted(filter(str.isdecimal, found), key=int)}

    sessions = numbered(pool_paths.SESSIONS, stamped(TenantSession))
    owners = numbered(pool_paths.CLAIMS, lambda _path, node: node.owner)
    return PoolSnapshot(
        nodes=numbered(pool_paths.NODES, stamped(PoolNode)),
        sessions={number: found for number, found in sessions.items() if found.is_active},
        claimed=frozenset(map(int, filter(str.isdecimal, nodes.children(pool_paths.CLAIMS)))),
        tenants=numbered(pool_paths.TENANTS, lambda _path, node: node.version),
        own_claims=frozenset(number for number, owner in owners.items() if owner == session),
        filling=records(pool_paths.FILLING, _filling),
        hosts={unquote(name): number for name, number in records(pool_paths.HOSTS, named_node).items()},
        workers=tuple(map(unquote, nodes.children(pool_paths.WORKERS))),
        waiting=numbered(pool_paths.WAITING, stamped(SessionRequest)),
    )


def stamped(kind: type[R]) -> Callable[[str, Node], R | None]:
    """Return the function that decodes a record of this kind with the version of its node as stamp."""
    return lambda path, node: decode_record(path, node, kind, stamp=node.version)


def _filling(path: str, node: Node) -> FillingRecord:
    return decode_record(path, node, FillingRecord, stamp=node.version) or FillingRecord(stamp=node.version)


def named_node(_path: str, record: Node) -> int | None:
    """Return the id of the node in the record of a host; ``None`` if the record is damaged."""
    number = record.properties.get("node")
    return number if isinstance(number, int) else None


#: Seconds for which a waiting thread waits for further changes after a change.
_TOGETHER = 0.1

#: Seconds that a thread waits for the read of another thread.
_PATIENCE = 5.0


class ChangeSignal:
    """Waits for new versions of the node that every transaction of the pools writes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._arming = threading.Lock()  # held during a request, but never by the watch
        self._condition = threading.Condition()
        self._fired = 0
        self._version: int | None = None  # the version of the node while the watch is set
        session.on_change(self._fire)

    def wait(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds until the node gets another version; return whether it did.

        Changes in quick succession count as one, so that many waiting requests do not read all the time.
        """
        deadline = time.monotonic() + timeout
        fired, version = self._watched()
        while (remaining := deadline - time.monotonic()) > 0:
            with self._condition:
                self._condition.wait_for(lambda: self._fired != fired, remaining)  # noqa: B023  used at once
            fired, present = self._watched()
            if present != version:
                time.sleep(_TOGETHER)
                return True
        return False

    def _watched(self) -> tuple[int, int]:
        """Return the number of times that the watch has fired, and the version of the node with the watch."""
        with turn(self._arming, _PATIENCE, late_read):
            with self._condition:
                fired, version = self._fired, self._version
            if version is not None:
                return fired, version
            node = self._session.get(pool_paths.CHANGES, watch=self._fire)
            version = 0 if node is None else node.version
            with self._condition:
                if self._fired == fired and node is not None:
                    self._version = version
            return fired, version

    def _fire(self, _event: object = None) -> None:
        with self._condition:
            self._fired += 1
            self._version = None
            self._condition.notify_all()


_IN_DIRECTORY = 1000

#: The most records that one transaction removes.
_REMOVED_TOGETHER = 200


def record_path(above: str, number: int) -> str:
    """Return the path of a record in the directory of its thousand ids."""
    return f"{_directory(above, number)}/{number}"


class EndedRecords:
    """The records below one node."""

    def __init__(self, session: Session, above: str) -> None:
        self._session = session
        self._above = above
        self._known: set[str] = set()

    def ensure_directory(self, number: int) -> None:
        """Create the directory of a record unless it exists."""
        path = _directory(self._above, number)
        if path not in self._known:
            self._session.ensure(path)
            self._known.add(path)

    def forget_directories(self) -> None:
        """Forget the known directories, because another process may have removed empty ones."""
        self._known.clear()

    def read(self) -> Iterator[tuple[str, Node]]:
        """Yield the path and the node of each record."""
        for directory in self._directories():
            found = self._paths(directory)
            nodes = zip(found, self._session.get_many(found), strict=True)
            yield from ((path, node) for path, node in nodes if node is not None)

    def paths(self) -> Sequence[str]:
        """Return the paths of all records, those with the smallest ids first."""
        return [path for directory in self._directories() for path in self._paths(directory)]

    def newest(self, count: int) -> Sequence[tuple[str, Node]]:
        """Return the paths and the nodes of the records with the largest ids, newest first."""
        found: list[str] = []
        for directory in reversed(self._directories()):
            found += reversed(self._paths(directory))
            if len(found) >= count:
                break
        nodes = zip(found[:count], self._session.get_many(found[:count]), strict=True)
        return [(path, node) for path, node in nodes if node is not None]

    def remove(self, is_old: Callable[[str, Node], bool]) -> int:
        """Remove the records for which ``is_old`` is true, and empty directories; return the number of records."""
        removed, directories = 0, self._directories()
        for directory in directories:
            found = self._paths(directory)
            nodes = zip(found, self._session.get_many(found), strict=True)
            old = [path for path, node in nodes if node is not None and is_old(path, node)]
            for start in range(0, len(old), _REMOVED_TOGETHER):
                batch = old[start : start + _REMOVED_TOGETHER]
                with contextlib.suppress(TransactionError):  # another process removes these records
                    self._session.commit(*(Delete(path) for path in batch))
                    removed += len(batch)
            if len(old) == len(found) and directory != directories[-1]:
                with contextlib.suppress(TransactionError):
                    self._session.commit(Delete(directory))
        self.forget_directories()
        return removed

    def _directories(self) -> Sequence[str]:
        """Return the directories, the oldest first."""
        names = (name for name in self._session.children(self._above) or () if name.isdecimal())
        return [f"{self._above}/{name}" for name in sorted(names, key=int)]

    def _paths(self, directory: str) -> list[str]:
        names = (name for name in self._session.children(directory) or () if name.isdecimal())
        return [f"{directory}/{name}" for name in sorted(names, key=int)]


def _directory(above: str, number: int) -> str:
    return f"{above}/{number // _IN_DIRECTORY}"


def registered_hosts(session: Session) -> frozenset[str]:
    """Return the ids of the hosts that are registered now."""
    return frozenset(session.children(paths.HOSTS) or ())


def available_hosts(session: Session) -> frozenset[str]:
    """Return the ids of the registered hosts that are not in maintenance now."""
    return registered_hosts(session).difference(read_maintenance(session, time.time()))


def remove_ownerless(session: Session, read: PoolSnapshot, pools: Collection[str], before: float) -> int:
    """Remove the unused records that were last written ``before`` a time; return their number.

    Unused are the leases of hosts that are neither registered nor nodes, and the records about the filling of
    pools that are not among ``pools`` and have no nodes. A record that came into use after ``read`` has a later
    time, so it stays.
    """
    used = {node.host for node in read.nodes.values()} | registered_hosts(session)
    described = {node.pool for node in read.nodes.values()} | set(pools)
    leases, fillings = session.look((), (pool_paths.LEASES, pool_paths.FILLING))[1]
    ownerless = [f"{pool_paths.LEASES}/{name}" for name in leases or () if unquote(name) not in used]
    ownerless += [f"{pool_paths.FILLING}/{name}" for name in fillings or () if name not in described]
    removed = 0
    for path, node in zip(ownerless, session.get_many(ownerless), strict=True):
        if node is not None and node.modified < before:
            with contextlib.suppress(TransactionError):  # another process has written or removed the record
                session.commit(Delete(path, node.version))
                removed += 1
    return removed


Ended: TypeAlias = "PoolNode | TenantSession"

#: Attempts to increase the counter while other processes take ids.
_ATTEMPTS = 50

_DIRECTORIES = (
    pool_paths.NODES,
    pool_paths.NODES_DONE,
    pool_paths.SESSIONS,
    pool_paths.TENANTS,
    pool_paths.SESSIONS_ENDED,
    pool_paths.CLAIMS,
    pool_paths.CHANGES,
    pool_paths.FILLING,
    pool_paths.HOSTS,
    pool_paths.WORKERS,
    pool_paths.WAITING,
)


class ZooKeeperPools:
    """The pools through one session, for any thread. All methods raise ``UnreachableError``."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._signal = ChangeSignal(session)
        self._done = EndedRecords(session, pool_paths.NODES_DONE)
        self._ended = EndedRecords(session, pool_paths.SESSIONS_ENDED)
        self._has_directories = False

    def configuration(self) -> PoolConfiguration:
        """Return the pools of the document that is published at present; none without a document."""
        return pools_in_force(read_published_documents(self._session, (POOLS.name,)))

    def read(self) -> PoolSnapshot:
        """Return all nodes that are not done, all active sessions, and the requests that wait for nodes."""
        return read_snapshot(self._session)

    def node(self, number: int) -> PoolNode | None:
        """Return a node, which may be done; ``None`` if it does not exist."""
        return self._first(PoolNode, _path(pool_paths.NODES, number), record_path(pool_paths.NODES_DONE, number))

    def session(self, number: int) -> TenantSession | None:
        """Return a session, which may have ended; ``None`` if it does not exist."""
        ended = record_path(pool_paths.SESSIONS_ENDED, number)
        return self._first(TenantSession, _path(pool_paths.SESSIONS, number), ended)

    def waiting(self, number: int) -> SessionRequest | None:
        """Return a request that waits for nodes, or whose wait ended recently; ``None`` for an unknown id."""
        return self._first(SessionRequest, _path(pool_paths.WAITING, number))

    def wait_for_change(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for a change of nodes or sessions; return whether there was one."""
        self._ensure_directories()
        return self._signal.wait(timeout)

    def announce(self, worker: str) -> None:
        """List a worker as running as long as this process is connected; does nothing if it is listed already.

        No other process has the name.
        """
        self._ensure_directories()
        path = f"{pool_paths.WORKERS}/{quote(worker, safe='')}"
        node = self._session.get(path)
        if node is not None and node.owner != self._session.id:  # from an earlier session of this process
            self._session.commit(Delete(path, node.version))
            node = None
        if node is None:
            self._session.commit(Create(path, ephemeral=True), Set(pool_paths.CHANGES, b""))

    def history(self, since: float) -> tuple[TenantSession, ...]:
        """Return the sessions that ended at ``since`` or later, in the order of their ids."""
        sessions = (decode_record(path, node, TenantSession) for path, node in self._ended.read())
        return tuple(session for session in sessions if session is not None and _ended_at(session) >= since)

    def prune(self, before: float) -> int:
        """Remove the sessions that ended and the nodes that were done before a time; return their number.

        Older records of hosts and pools that are gone are removed, too: the leases of hosts
        that are neither registered nor nodes, and the records of filling of pools that are not in the document and
        have no nodes.
        """

        def is_old(path: str, node: Node, kind: type[PoolNode | TenantSession]) -> bool:
            record = decode_record(path, node, kind)
            return record is not None and _ended_at(record) < before

        removed = self._ended.remove(lambda path, node: is_old(path, node, TenantSession))
        removed += self._done.remove(lambda path, node: is_old(path, node, PoolNode))
        return removed + remove_ownerless(self._session, self.read(), self.configuration().pools, before)

    def take_ids(self, count: int) -> Sequence[int]:
        """Return new ids for nodes and sessions; unused ids are lost."""
        self._ensure_directories()
        for _ in range(_ATTEMPTS):
            counter = self._session.get(pool_paths.POOLS)
            last = counter.properties.get("last_id", 0) if counter is not None else 0
            if counter is None or not isinstance(last, int):
                raise TreeError(
                    f"{pool_paths.POOLS} has no valid last_id; set it to the largest id of a node or a session"
                )
            data = encode({**counter.properties, "last_id": last + count})
            try:
                self._session.commit(Set(pool_paths.POOLS, data, counter.version))
            except TransactionError:
                continue
            return range(last + 1, last + 1 + count)
        raise ConflictError(f"{pool_paths.POOLS} is changed all the time; try again")

    def commit(self, change: PoolChange, read: PoolSnapshot) -> None:
        """Write a change that was decided on ``read``.

        Raises ``ConflictError`` if a node, a session, a request or a record of filling in the change, a session of
        the same tenant, or the claim of a node has changed since; nothing is written then. A claim changes its
        node, so a process that has lost its claim to another process can no longer write the node.
        """
        self._ensure_directories()
        for node in change.nodes:
            if not node.is_active:
                self._done.ensure_directory(node.id)
        for session in change.sessions:
            if not session.is_active:
                self._ended.ensure_directory(session.id)
        try:
            self._session.commit(*self._operations(change, read))
        except ConflictError:
            self._done.forget_directories()
            self._ended.forget_directories()
            raise

    def _operations(self, change: PoolChange, read: PoolSnapshot) -> Iterator[Operation]:
        yield Set(pool_paths.CHANGES, b"")
        yield from self._guarding(change, read)
        yield from (
            _written(f"{pool_paths.FILLING}/{pool}", record) for pool, record in sorted(change.filling.items())
        )
        written = {node.id for node in change.nodes}
        claimed = (read.nodes[number] for number in sorted(change.claimed - written) if number in read.nodes)
        for node in (*change.nodes, *claimed):
            yield from _writing(node, pool_paths.NODES, pool_paths.NODES_DONE)
            if node.stamp is None and node.host is not None:
                yield self._naming_host(node.host, node.id, read)
        yield from (Delete(_path(pool_paths.NODES, node.id), _version(node)) for node in change.deleted)
        for session in change.sessions:
            yield from _writing(session, pool_paths.SESSIONS, pool_paths.SESSIONS_ENDED)
        for session in change.dropped:
            yield Delete(_path(pool_paths.SESSIONS, session.id), _version(session))
        for request in change.waiting:
            yield _written(_path(pool_paths.WAITING, request.id), request)
        yield from (
            Delete(_path(pool_paths.WAITING, request.id), _version(request)) for request in change.answered
        )
        yield from (Create(_path(pool_paths.CLAIMS, number), ephemeral=True) for number in sorted(change.claimed))
        yield from (Delete(_path(pool_paths.CLAIMS, number)) for number in sorted(change.released))

    def _naming_host(self, host: str, number: int, read: PoolSnapshot) -> Operation:
        """Return the operation that records a host as a node, so that two processes never make two nodes of it.

        A damaged record is written anew.
        """
        path, data = f"{pool_paths.HOSTS}/{quote(host, safe='')}", encode({"node": number})
        record = self._session.get(path)
        if (None if record is None else named_node(path, record)) != read.hosts.get(host):
            raise ConflictError(f"{path} has changed; read again and retry")
        return Create(path, data) if record is None else Set(path, data, record.version)

    def _guarding(self, change: PoolChange, read: PoolSnapshot) -> Iterator[Operation]:
        """Yield the operations on the guards of the tenants whose sessions begin or end."""
        active = {number: session.tenant for number, session in read.sessions.items()}
        after = dict(active)
        for session in change.sessions:
            if session.is_active:
                after[session.id] = session.tenant
            else:
                after.pop(session.id, None)
        for session in change.dropped:
            after.pop(session.id, None)
        tenants = {session.tenant for session in (*change.sessions, *change.dropped)}
        for tenant in sorted(tenants):
            numbers = sorted(number for number, owner in after.items() if owner == tenant)
            if numbers == sorted(number for number, owner in active.items() if owner == tenant):
                continue
            path, data = _path(pool_paths.TENANTS, tenant), encode({"sessions": [*numbers]})
            version = read.tenants.get(tenant)
            yield Create(path, data) if version is None else Set(path, data, version)

    def _first(self, kind: type[R], *paths: str) -> R | None:
        """Return the first record that exists at one of the paths; a damaged one counts as missing."""
        for path in paths:
            node = self._session.get(path)
            record = None if node is None else stamped(kind)(path, node)
            if record is not None:
                return record
        return None

    def _ensure_directories(self) -> None:
        if not self._has_directories:
            for directory in _DIRECTORIES:
                self._session.ensure(directory)
            self._has_directories = True


def _written(path: str, record: PoolNode | TenantSession | SessionRequest | FillingRecord) -> Operation:
    """Return the operation that writes a record; a record without a stamp is new."""
    data = pack(record.to_json())
    return Create(path, data) if record.stamp is None else Set(path, data, record.stamp)


def _writing(record: PoolNode | TenantSession, active: str, ended: str) -> Iterator[Operation]:
    """Yield the operations that write a node or a session below ``active``.

    A node that is done and a session that has ended move to ``ended``, because everything below ``active`` is read
    often.
    """
    path = _path(active, record.id)
    if record.is_active:
        yield _written(path, record)
    else:
        yield Create(record_path(ended, record.id), pack(record.to_json()))
        yield Delete(path, _version(record))


def _ended_at(record: Ended) -> float:
    """Return when a session ended or a node was done."""
    return record.retired_at or 0.0


def _version(written: PoolNode | TenantSession | SessionRequest) -> int:
    """Return the version of a node, a session or a request that was read; raises an error for a new one."""
    if written.stamp is None:
        raise ConflictError(f"{written.id} was never written; read again and retry")
    return written.stamp


def _path(directory: str, number: int) -> str:
    return f"{directory}/{number}"


class ZooKeeperSessionUses:
    """The uses through one session with ZooKeeper; all methods may be called from any thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ended = EndedRecords(session, pool_paths.SESSIONS_ENDED)
        self._known: dict[str, SessionUse | None] = {}  # the uses by ended sessions, whose records never change
        self._lock = threading.Lock()

    def read(self) -> Sequence[SessionUse]:
        """Return the use by each active session, and by each ended one whose record is kept, once.

        Raises ``UnreachableError``.
        """
        # The active sessions come first, so a session that ends in between is read twice, never missed.
        names = self._session.children(pool_paths.SESSIONS) or ()
        found = [f"{pool_paths.SESSIONS}/{name}" for name in names]
        nodes = zip(found, self._session.get_many(found), strict=True)
        active = [_use(path, node) for path, node in nodes if node is not None]
        uses = {use.session: use for use in (*active, *self._read_ended()) if use is not None}
        return tuple(uses.values())

    def _read_ended(self) -> Sequence[SessionUse | None]:
        """Return the uses by ended sessions; ``None`` stands for a damaged record."""
        with self._lock:
            listed = self._ended.paths()
            known = {path: self._known[path] for path in listed if path in self._known}
            new = [path for path in listed if path not in known]
            nodes = zip(new, self._session.get_many(new), strict=True)
            self._known = known | {path: _use(path, node) for path, node in nodes if node is not None}
            return tuple(self._known.values())


def _use(path: str, node: Node) -> SessionUse | None:
    session = decode_record(path, node, TenantSession)
    return None if session is None else session_use(session)


#: The number of kept runs.
_KEPT = 500


class ZooKeeperPlaybookLog:
    """The runs through one session; ``acl`` is the access list of their nodes."""

    def __init__(self, session: Session, acl: tuple[AclEntry, ...] = ()) -> None:
        self._session = session
        self._acl = acl

    def runs(self, node: int) -> Sequence[PlaybookRun]:
        """Return the runs that are kept for a node, the first one first; raises ``UnreachableError``."""
        found = [f"{pool_paths.RUNS}/{number}" for number in self._numbers()]
        records = zip(found, self._session.get_many(found), strict=True)
        decoded = (decode_record(path, record, PlaybookRun) for path, record in records if record is not None)
        return [run for run in decoded if run is not None and node in run.nodes]

    def add(self, run: PlaybookRun, take_id: Callable[[], int]) -> None:
        """Record a run with an id of its own, and remove the oldest runs; failures are only logged."""
        try:
            self._session.ensure(pool_paths.RUNS)
            numbered = replace(run, id=take_id())
            path = f"{pool_paths.RUNS}/{numbered.id}"
            self._session.commit(Create(path, pack(numbered.to_json()), acl=self._acl))
            for number in self._numbers()[:-_KEPT]:
                with suppress(TransactionError):  # another worker removes it
                    self._session.commit(Delete(f"{pool_paths.RUNS}/{number}"))
        except ZkdeploymentError as error:
            get_logger().warning("playbook-run-not-recorded", nodes=run.nodes, reason=error_message(error))

    def _numbers(self) -> list[int]:
        names = self._session.children(pool_paths.RUNS) or ()
        return sorted(int(name) for name in names if name.isdecimal())
