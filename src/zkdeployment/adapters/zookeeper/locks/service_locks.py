"""The locks of service nodes: a contender lock and a record of the work that is done under it.

A host whose session has ended has lost its lock, but its script may still be running. The record outlives the
session: the next holder of the lock finds the record of another host and waits up to the *lock delay* for it. The
record is removed when the lock is released, however late, and when the host's agent starts again; a waiting host
then continues at once.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Check, Create, Delete, Set, TransactionError
from zkdeployment.adapters.zookeeper.locks.contender_lock import ContenderLock, queued
from zkdeployment.adapters.zookeeper.locks.joined_queues import JoinedQueues
from zkdeployment.errors import ConflictError, LockLostError
from zkdeployment.log import get_logger
from zkdeployment.model.work import LockedWork

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.host import Identity

#: Seconds that a host whose session has ended has to finish a running script.
LOCK_DELAY = 60.0


#: For this fraction of the requested session timeout after the server confirmed a lock, the lock is still held,
#: even without contact: servers may grant a shorter session than requested, but hardly one this short.
_LEASE = 0.2


class LockDelay:
    """Measures for how long a record of another host has blocked a lock, across all attempts at that lock."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._seen: dict[str, tuple[LockedWork, float]] = {}

    def left(self, name: str, work: LockedWork) -> float:
        """Return for how many more seconds the lock ``name`` must not be used because of this record."""
        now = time.monotonic()
        seen, since = self._seen.get(name, (None, now))
        if seen != work:
            since = now
            self._seen[name] = work, since
            if self._seconds:
                get_logger().warning("lock-delay-started", lock=name, work=str(work), seconds=self._seconds)
        return max(0.0, since + self._seconds - now)


class ZooKeeperServiceLock(ContenderLock):
    """One attempt at the lock of a service node (a ``ServiceLock``).

    ``name`` is the name of the node below ``/agent-locks``. ``queues`` records the queues that the host joins. A
    holder that another host's lock delay keeps from using the lock keeps its place in the queue.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        identity: Identity,
        delay: LockDelay,
        queues: JoinedQueues | None = None,
    ) -> None:
        super().__init__(session, f"{paths.AGENT_LOCKS}/{name}", str(identity))
        self._name = name
        self._queues = JoinedQueues(None) if queues is None else queues
        self._identity = identity
        self._delay = delay
        self._record = f"{paths.BUSY}/{name}"
        self._own_works: tuple[LockedWork, ...] = ()  # what the record may say, if it is this object's
        self._sure_until = 0.0
        self._record_changed = threading.Event()
        self._found: Node | None = None  # the record when the queue was last read

    def try_acquire(self) -> bool:
        if not self._tried and queued(self._session.children(self._directory) or ()):
            return False  # thousands of hosts may try, and read only
        if not super().try_acquire():
            return False
        if self._work_of(self._found) is None:
            return True
        self.release()
        return False

    def acquire(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        if not super().acquire(timeout):
            return False
        if self._work_of(self._found) is None:
            return True
        while (blocked := self._blocked_by(self._record_changed.set)) is not None:
            _, left = blocked
            patience = min(left, deadline - time.monotonic())
            if patience <= 0:
                return False
            self._record_changed.wait(patience)
            self._record_changed.clear()
        return True

    def holder(self) -> str | None:
        holder = super().holder()
        if holder is not None and holder != str(self._identity):
            return holder  # while a host holds the lock, no lock delay runs for its own work
        blocked = self._blocked_by()
        if blocked is None:
            return holder
        work, left = blocked
        return f"{work} whose session has ended (lock delay: {left:.0f} s)"

    def begin(self, step: str, stamp: int | None = None) -> None:
        if self._node is None or self._session.id != self._session_id:
            raise LockLostError(f"the lock {self._directory} is lost: the session that held it has ended")
        # Sequence numbers only grow: the lowest contender stays the lowest for as long as its node exists.
        held = [Check(f"{self._directory}/{self._node}", 0)]
        if stamp is not None:
            held.append(Check(paths.HOSTS, stamp))
        work = LockedWork(self._identity.id, self._identity.name, step, time.time())
        # Until the server has confirmed the new record, the record of the step before may still be there.
        self._own_works = (*self._own_works, work)
        data = encode(work.properties())
        asked = _now()
        try:
            self._session.commit(*held, Create(self._record, data))
        except TransactionError as error:
            former = self._session.get(self._record) if error.path == self._record else None
            if former is None:
                raise self._not_begun(error) from error
            try:
                self._session.commit(*held, Set(self._record, data, former.version))
            except TransactionError as lost:
                raise self._not_begun(lost) from lost
        self._own_works = (work,)
        self._sure_until = asked + self._session.session_timeout * _LEASE

    def _not_begun(self, error: TransactionError) -> ConflictError | LockLostError:
        if error.path == paths.HOSTS:
            return ConflictError(f"the cluster version changed before the step began: {error}")
        return LockLostError(f"the lock {self._directory} is lost: {error}")

    def check_lease(self) -> None:
        if _now() > self._sure_until:
            raise LockLostError(
                f"the lock {self._directory} may be lost: this host was suspended after it acquired the lock"
            )

    def _blocked_by(self, changed: Callable[[], None] | None = None) -> tuple[LockedWork, float] | None:
        """Return the work of another host that blocks the lock, and for how many seconds; ``None`` if none does.

        ``changed`` is called once, when such a record changes.
        """
        watch = None if changed is None else lambda _: changed()
        return self._work_of(self._session.get(self._record, watch))

    def _work_of(self, record: Node | None) -> tuple[LockedWork, float] | None:
        return _blocking_work(record, self._name, self._identity, self._delay)

    def _read_names(self) -> Iterable[str]:
        # The record is read after the queue: only the first contender, or one before it, has written the record.
        names, self._found = self._session.children_and_node(self._directory, self._record)
        return names or ()

    def _enqueue(self) -> list[str]:
        self._queues.join(self._prefix, self._name)
        return super()._enqueue()

    def _withdraw(self, node: str | None) -> None:
        self._withdraw_with_work(node)
        self._queues.leave(self._prefix)

    def _withdraw_with_work(self, node: str | None) -> None:
        """Release the lock and remove the work record, in one transaction if possible."""
        if self._own_works:
            if node is not None:
                with contextlib.suppress(TransactionError):
                    self._session.commit(Delete(f"{self._directory}/{node}"), Delete(self._record))
                    self._own_works = ()
                    return
            remove_work(self._session, self._name, self._own_works.__contains__)
            self._own_works = ()
        super()._withdraw(node)


def any_free(session: Session, names: Collection[str], identity: Identity, delay: LockDelay) -> bool:
    """Return whether a host can acquire any of these locks now; reads all in one round.

    Queues are not read, however long they are: ZooKeeper counts the children of a node. A child that is not a
    contender makes a lock look held here.
    """
    ordered = sorted(names)
    nodes = session.get_many(
        [f"{paths.BUSY}/{name}" for name in ordered] + [f"{paths.AGENT_LOCKS}/{name}" for name in ordered]
    )
    records, locks = nodes[: len(ordered)], nodes[len(ordered) :]
    return any(
        (lock is None or not lock.children) and _blocking_work(record, name, identity, delay) is None
        for name, record, lock in zip(ordered, records, locks, strict=True)
    )


def _blocking_work(
    record: Node | None, name: str, identity: Identity, delay: LockDelay
) -> tuple[LockedWork, float] | None:
    """Return the work of another host that blocks a lock, and for how many more seconds; ``None`` if none does."""
    if record is None:
        return None
    work = LockedWork.from_properties(record.properties)
    left = 0.0 if work.host_id == identity.id else delay.left(name, work)
    return (work, left) if left else None


def _now() -> float:
    """Return seconds of a clock that also advances while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def remove_work(session: Session, name: str, is_own: Callable[[LockedWork], bool]) -> bool:
    """Remove the work record of a lock if ``is_own`` accepts it; return whether it was accepted."""
    record = f"{paths.BUSY}/{name}"
    node = session.get(record)
    if node is None or not is_own(LockedWork.from_properties(node.properties)):
        return False
    with contextlib.suppress(ConflictError):  # the next holder has replaced the record
        session.commit(Delete(record, node.version))
    return True
