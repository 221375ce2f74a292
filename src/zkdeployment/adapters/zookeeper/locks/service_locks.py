"""The locks of service nodes: a contender's lock, and beside it a record of the work that is done under it.

A host whose session is over has lost its lock, but its script may still run. The record outlives the session:
who gets the lock next and finds the record of another host gives that host the *lock delay* to end. The record
goes with the release of the lock, however late that comes, and with the next start of the host's agent; whoever
waits sees that and goes on at once.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Check, Create, Delete, Set, TransactionError
from zkdeployment.adapters.zookeeper.locks.contender_lock import ContenderLock
from zkdeployment.errors import ConflictError, LockLostError, ZkdeploymentError
from zkdeployment.log import get_logger
from zkdeployment.model.work import LockedWork

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.host import Identity

#: Seconds that a host whose session is over has for the script it may still be running.
LOCK_DELAY = 60.0


#: A lock is ours for this part of the session timeout after the server said so, even if it sees nothing of us any
#: more: it may have given us a shorter session than we asked for, but hardly one this short.
_LEASE = 0.2


class LockDelay:
    """Remembers since when (monotonic seconds) a record was in the way, over all attempts at its lock."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._found: dict[str, tuple[LockedWork, float]] = {}

    def left(self, name: str, work: LockedWork) -> float:
        """Return for how many seconds the lock ``name`` must not be used because of this record."""
        now = time.monotonic()
        found, since = self._found.get(name, (None, now))
        if found != work:
            since = now
            self._found[name] = work, since
            if self._seconds:
                get_logger().warning("lock-delay", lock=name, work=str(work), seconds=self._seconds)
        return max(0.0, since + self._seconds - now)


class ZooKeeperServiceLock(ContenderLock):
    """One attempt at the lock of a service node (a ``ZooKeeperServiceLock`` of the ports).

    ``name`` is that of the node below ``/agent-locks``.
    """

    def __init__(self, session: Session, name: str, identity: Identity, delay: LockDelay) -> None:
        super().__init__(session, f"{paths.AGENT_LOCKS}/{name}", str(identity))
        self._name = name
        self._identity = identity
        self._delay = delay
        self._record = f"{paths.BUSY}/{name}"
        self._work: LockedWork | None = None
        self._sure_until = 0.0
        self._record_changed = threading.Event()

    def try_acquire(self) -> bool:
        if not super().try_acquire():
            return False
        try:
            if self._delayed_by() is None:
                return True
        except ZkdeploymentError:
            self.release()
            raise
        self.release()
        return False

    def acquire(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        if not super().acquire(timeout):
            return False
        while (delayed := self._delayed_by(self._record_changed.set)) is not None:
            _, left = delayed
            patience = min(left, deadline - time.monotonic())
            if patience <= 0:
                return False
            self._record_changed.wait(patience)
            self._record_changed.clear()
        return True

    def holder(self) -> str | None:
        found = super().holder()
        if found is not None and found != str(self._identity):
            return found  # at work: its lock delay does not run while it has the lock
        delayed = self._delayed_by()
        if delayed is None:
            return found
        work, left = delayed
        return f"{work} whose session is over (lock delay: {left:.0f} s)"

    def begin(self, step: str) -> None:
        if self._node is None or self._session.id != self._session_id:
            raise LockLostError(f"the lock {self._directory} is lost: the session that held it is over")
        # Numbers only grow: who had the lowest has it for as long as the contender is there.
        ours = Check(f"{self._directory}/{self._node}", 0)
        self._work = LockedWork(self._identity.id, self._identity.name, step, time.time())
        data = encode(self._work.properties())
        asked = _now()
        try:
            self._session.commit(ours, Create(self._record, data))
        except TransactionError as error:
            former = self._session.get(self._record)
            if error.path != self._record or former is None:
                raise LockLostError(f"the lock {self._directory} is lost: {error}") from error
            try:
                self._session.commit(ours, Set(self._record, data, former.version))
            except TransactionError as lost:
                raise LockLostError(f"the lock {self._directory} is lost: {lost}") from lost
        self._sure_until = asked + self._session.session_timeout * _LEASE

    def check_lease(self) -> None:
        if _now() > self._sure_until:
            raise LockLostError(f"the lock {self._directory} may be lost: this host stood still after taking it")

    def _delayed_by(self, changed: Callable[[], None] | None = None) -> tuple[LockedWork, float] | None:
        """Return another host's record, and for how long it is in the way; ``None`` if none is.

        ``changed`` is called once when a record that is in the way changes.
        """
        if changed is not None:
            self._session.exists(self._record, lambda _: changed())
        return _in_the_way(self._session.get(self._record), self._name, self._identity, self._delay)

    def _withdraw(self, node: str | None) -> None:
        """Give back the lock and remove the record of our work: in one request if both are as we left them."""
        if self._work is not None:
            if node is not None:
                with contextlib.suppress(TransactionError):
                    self._session.commit(Delete(f"{self._directory}/{node}"), Delete(self._record))
                    self._work = None
                    return
            remove_work(self._session, self._name, lambda work: work == self._work)
            self._work = None
        super()._withdraw(node)


def any_free(session: Session, names: Collection[str], identity: Identity, delay: LockDelay) -> bool:
    """Return whether a host may take any of these locks now, from one round of reads.

    Queues are not read, however long they are: ZooKeeper counts a node's children. A child that is no contender
    makes a lock look taken here.
    """
    ordered = sorted(names)
    nodes = session.get_many(
        [f"{paths.BUSY}/{name}" for name in ordered] + [f"{paths.AGENT_LOCKS}/{name}" for name in ordered]
    )
    records, locks = nodes[: len(ordered)], nodes[len(ordered) :]
    return any(
        (lock is None or not lock.children) and _in_the_way(record, name, identity, delay) is None
        for name, record, lock in zip(ordered, records, locks, strict=True)
    )


def _in_the_way(
    record: Node | None, name: str, identity: Identity, delay: LockDelay
) -> tuple[LockedWork, float] | None:
    """Return another host's work that keeps a lock from being used, and for how many seconds."""
    if record is None:
        return None
    work = LockedWork.from_properties(record.properties)
    left = 0.0 if work.host_id == identity.id else delay.left(name, work)
    return (work, left) if left else None


def _now() -> float:
    """Return seconds of a clock that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def remove_work(session: Session, name: str, ours: Callable[[LockedWork], bool]) -> bool:
    """Remove a record if it is one of ours; say whether it was."""
    record = f"{paths.BUSY}/{name}"
    node = session.get(record)
    if node is None or not ours(LockedWork.from_properties(node.properties)):
        return False
    with contextlib.suppress(ConflictError):  # the next holder's already
        session.commit(Delete(record, node.version))
    return True
