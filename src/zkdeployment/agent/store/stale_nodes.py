"""The nodes of a lost session or a killed agent in ZooKeeper: contenders are removed, records of work are kept.

The host's node is not here: the registration replaces it.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING

from zkdeployment.agent.store.service_locks import keep_work
from zkdeployment.base.errors import ConflictError
from zkdeployment.base.lock import LockedWork
from zkdeployment.base.log import get_logger
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.transactions import Delete

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zkdeployment.zookeeper.session import Session


def remove_stale_contenders(session: Session, previous: int | None, queues: Mapping[str, str] | None) -> None:
    """Remove the contenders of the session ``previous``.

    Other hosts then need not wait until that session expires. Nothing that the killed agent started may still be
    running. ``queues`` (``JoinedQueues``) are the queues that the agent may have been in. They are unknown if the
    agent did not record them or the machine was booted: then all queues are searched.
    """
    if previous is not None and previous != session.id:
        for path in _contenders_of(session, previous) if queues is None else _contenders_in(session, queues):
            with contextlib.suppress(ConflictError):  # the session has ended, and the contender with it
                session.commit(Delete(path))
                get_logger().info("contender-of-killed-agent-removed", contender=path)


def keep_works(session: Session, host_id: str, locks: Collection[str] | None) -> list[str]:
    """Keep all records of work that this host left unfinished, and return the names of their locks.

    ``locks`` are those under which the host may have worked; ``None``: unknown, so all records are searched.
    """
    names = works_of(session, host_id) if locks is None else locks
    kept = [name for name in names if keep_work(session, name, lambda work: work.host_id == host_id)]
    for name in kept:
        get_logger().warning("work-kept", lock=name)
    return kept


def _contenders_in(session: Session, queues: Mapping[str, str]) -> list[str]:
    """Return the contenders that have these prefixes, which no other contender has."""
    locks = [f"{paths.AGENT_LOCKS}/{name}" for name in queues.values()]
    children = session.look([], locks)[1]
    return [
        f"{lock}/{name}"
        for lock, prefix, names in zip(locks, queues, children, strict=True)
        for name in names or ()
        if name.startswith(prefix)
    ]


def _contenders_of(session: Session, owner: int) -> list[str]:
    locks = [f"{paths.AGENT_LOCKS}/{name}" for name in session.children(paths.AGENT_LOCKS) or ()]
    waiting = [
        f"{read.path}/{name}"
        for read, names in session.pipeline(deque(Read(path, children=True) for path in locks))
        for name in names or ()
    ]
    nodes = session.get_many(waiting)
    return [path for path, node in zip(waiting, nodes, strict=True) if node is not None and node.owner == owner]


def works_of(session: Session, host_id: str) -> list[str]:
    """Return the names of the locks whose work records name this host; reads all records."""
    names = session.children(paths.BUSY) or []
    nodes = session.get_many(f"{paths.BUSY}/{name}" for name in names)
    return [
        name
        for name, node in zip(names, nodes, strict=True)
        if node is not None and LockedWork.from_properties(node.properties).host_id == host_id
    ]
