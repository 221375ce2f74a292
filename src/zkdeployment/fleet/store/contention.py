"""All locks of the fleet, as operators list and release them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from zkdeployment.agent.store import role_locks
from zkdeployment.agent.store.role_locks import Request
from zkdeployment.base.errors import ConflictError
from zkdeployment.base.lock import Contender, Lock, LockedWork, LockKind
from zkdeployment.fleet.store.audit import recording
from zkdeployment.publishing.store.reboots import read_reboots
from zkdeployment.zookeeper import contender_lock as locks
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.transactions import Delete, TransactionError

if TYPE_CHECKING:
    from zkdeployment.base.act import Act
    from zkdeployment.base.machine.reboots import RebootRecord
    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session

_ATTEMPTS = 20


class ZooKeeperLocks:
    """All locks of the fleet, through one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def locks(self) -> tuple[Lock, ...]:
        """Return every lock that is held or waited for, or whose last holder left a record of unfinished work."""
        return read_locks(self._session)

    def release(self, node: str, act: Act) -> None:
        """Remove the node that holds a lock, and record the act. Raises ``ConflictError`` if the node is gone."""
        release_lock(self._session, node, act)


def read_locks(session: Session) -> tuple[Lock, ...]:
    """Return every lock that has contenders or a record of unfinished work; read in pipelined rounds."""
    works = session.children(paths.BUSY) or ()
    services = {*(session.children(paths.AGENT_LOCKS) or ()), *works}  # a record outlives the lock's node
    directories = {
        **{f"{paths.AGENT_LOCKS}/{name}": LockKind.SERVICE for name in sorted(services)},
        **{f"{paths.ROLE_LOCKS}/{name}": LockKind.ROLE for name in session.children(paths.ROLE_LOCKS) or ()},
        paths.HOSTS_LOCK: LockKind.SYNCER,
    }
    queues = {
        read.path: [f"{read.path}/{name}" for name in _queued(directories[read.path], names or ())]
        for read, names in session.pipeline(deque(Read(path, children=True) for path in directories))
    }
    nodes = _read(session, [path for queue in queues.values() for path in queue])
    records = _read(session, [f"{paths.BUSY}/{name}" for name in works])
    all_locks = (
        Lock(
            kind=kind,
            name=_name(kind, path),
            path=path,
            contenders=tuple(_contender(kind, node, nodes[node]) for node in queues[path] if node in nodes),
            work=_work(records.get(_record(kind, path))),
            record=_record(kind, path),
        )
        for path, kind in directories.items()
    )
    return tuple(lock for lock in all_locks if lock.contenders or lock.work)


def release_lock(session: Session, node: str, act: Act) -> None:
    """Remove the node that holds a lock and record the act, in one transaction.

    If the lock is kept for a host that reboots, the record of the reboot ends with it. Raises ``ConflictError`` if
    the node is gone.
    """
    for _ in range(_ATTEMPTS):
        ended = [Delete(paths.reboot_path(record.host_id)) for record in _reboots_under(session, node)]
        try:
            session.commit(Delete(node), *ended, recording(session, act))
        except TransactionError as error:
            if error.path == node:
                raise ConflictError(
                    f"cannot release the lock: {node} is gone, so its holder has changed; see 'zkdeployment locks'"
                ) from error
            continue  # another operator has recorded an act
        return
    raise ConflictError(
        f"cannot record the release in {paths.AUDIT}: other writers changed the node during each of {_ATTEMPTS}"
        " attempts; try again"
    )


def _reboots_under(session: Session, node: str) -> list[RebootRecord]:
    """Return the reboots under the lock that is held with ``node``.

    The node is a kept record of work, or a request for the lock of a role, under which a host has no such record.
    """
    records = read_reboots(session)
    places = [f"{paths.BUSY}/{record.deployment.lock_name}" for record in records]
    held, *works = session.get_many([node, *places]) if records else (None,)
    is_request = node.startswith(f"{paths.ROLE_LOCKS}/")
    requestor = Request.read(node, held).requestor if is_request and held is not None else None
    ended = []
    for record, place, work in zip(records, places, works, strict=True):
        is_kept = work is not None and LockedWork.from_json(work.properties).host_id == record.host_id
        if (place == node) if is_kept else (record.host_id == requestor):
            ended.append(record)
    return ended


def _read(session: Session, wanted: list[str]) -> dict[str, Node]:
    nodes = session.get_many(wanted)
    return {path: node for path, node in zip(wanted, nodes, strict=True) if node is not None}


def _queued(kind: LockKind, names: list[str] | tuple[str, ...]) -> list[str]:
    return role_locks.queued(names) if kind is LockKind.ROLE else locks.queued(names)


def _name(kind: LockKind, path: str) -> str:
    last = path.rpartition("/")[2]
    match kind:
        case LockKind.SERVICE:
            return f"/{last.replace(',', '/')}"
        case LockKind.ROLE:
            return last
        case LockKind.SYNCER:
            return path


def _record(kind: LockKind, path: str) -> str:
    return f"{paths.BUSY}/{path.rpartition('/')[2]}" if kind is LockKind.SERVICE else ""


def _contender(kind: LockKind, path: str, node: Node) -> Contender:
    if kind is LockKind.ROLE:
        request = Request.read(path, node)
        return Contender(str(request), node.created, path, request.requestor)
    return locks.contender(path, node)


def _work(node: Node | None) -> LockedWork | None:
    return None if node is None else LockedWork.from_json(node.properties)
