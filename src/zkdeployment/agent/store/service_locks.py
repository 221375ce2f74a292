"""The locks of service nodes: a contender lock and a record of the work under the lock.

A host whose session has ended has lost its lock, but its script may still be running. The record outlives the
session: the next holder of the lock finds the record of another host and waits up to the *lock delay* for it. The
record is removed when the lock is released, also after the lock delay; a waiting host then continues at once. A
record is *kept* when its script was interrupted, and when its host has a new session or a new agent while the step
is incomplete. A kept record is a lock of its own: it blocks all other hosts, also the first one in the queue. Its
host works under the record, without a contender, until the step is complete.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConflictError, DeniedError, LockLostError, RestartError, UnreachableError
from zkdeployment.base.lock import LockedWork
from zkdeployment.base.log import get_logger
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import ContenderLock, queued
from zkdeployment.zookeeper.nodes import Node, encode
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.transactions import Check, Create, Delete, Operation, Set, TransactionError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from zkdeployment.agent.files.run_directory import JoinedQueues
    from zkdeployment.base.host import Identity
    from zkdeployment.zookeeper.session import Session


#: Seconds that a host whose session has ended has to finish a running script.
LOCK_DELAY = 60.0


#: The fraction of the requested session timeout for which a lock is held after the server's confirmation, even
#: without contact. Servers may grant a shorter session than requested, but hardly one that is shorter than this
#: fraction.
_LEASE = 0.2


#: The words about the holder of a kept lock, before the step.
KEPT = "which has to complete"


class LockDelay:
    """Measures for how long a record of another host has blocked a lock, across all attempts at that lock."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._seen: dict[str, tuple[LockedWork, float]] = {}

    def left(self, name: str, work: LockedWork) -> float:
        """Return the remaining seconds for which the lock ``name`` must not be used because of this record."""
        now = time.monotonic()
        seen, since = self._seen.get(name, (None, now))
        if seen != work:
            since = now
            self._seen[name] = work, since
            if self._seconds:
                get_logger().warning("lock-delay-started", lock=name, work=str(work), seconds=self._seconds)
        return max(0.0, since + self._seconds - now)


class ZooKeeperServiceLock(ContenderLock):
    """One attempt at the lock of a service node, with a record of the work under the lock.

    If the session of a host ends while work is recorded, its script may still run: during the *lock delay*, no
    other host can use the lock, even at the head of the queue. While the record is kept for a host, only that host
    can use the lock, at once and without a place in the queue.

    ``name`` is the name of the node below ``/agent-locks``. ``queues`` records the queues that the host joins. A
    holder that has to wait for another host's lock delay keeps its place in the queue.
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
        if queues is None:
            from zkdeployment.agent.files.run_directory import JoinedQueues  # noqa: PLC0415  verbs start faster without it

            queues = JoinedQueues(None)
        self._queues = queues
        self._identity = identity
        self._delay = delay
        self._record = f"{paths.BUSY}/{name}"
        self._own_works: tuple[LockedWork, ...] = ()  # the possible contents of the record, if it is this object's
        self._is_recorded = False  # whether the record holds the last of these, as long as the lock is held
        self._sure_until = 0.0
        self._resumed = False  # whether this host works under the record kept for it
        self._record_changed = threading.Event()
        self._found: Node | None = None  # the record when the queue was last read

    def try_acquire(self) -> bool:
        if self._resume():
            return True
        if not self._tried and queued(self._session.children(self._directory) or ()):
            return False  # thousands of hosts may try, so most only read
        if not super().try_acquire():
            return False
        if self._work_of(self._found) is None:
            return True
        self.release()
        return False

    def acquire(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        if self._resume():
            return True
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
        if work.kept:
            return f"{work.host_name} ({work.host_id}), {KEPT} {work.step}"
        return f"{work} whose session has ended (lock delay: {left:.0f} s)"

    def check(self) -> None:
        if self._resumed:
            self._read_kept()
        else:
            super().check()

    def begin(
        self,
        step: str,
        stamp: int | None = None,
        maintenance: int | None = None,
        others: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Verify that the lock is held and record ``step``, in one transaction; raises ``LockLostError``.

        With ``stamp``, the stamp of the cluster version, the transaction also verifies that ``/hosts`` was not
        written since, and raises ``ConflictError`` if it was. ``maintenance`` is the data version of the node that
        each begin of a maintenance writes, and is verified alike, as are ``others``, the data versions of other
        nodes by path. The record stays until ``release``.
        """
        if not self._resumed and (self._node is None or self._session.id != self._session_id):
            raise LockLostError(f"the lock {self._directory} is lost: the session that held it has ended")
        work = LockedWork(self._identity.id, self._identity.name, step, time.time(), kept=self._resumed)
        # Until the server has confirmed the new record, the record of the previous step may still exist.
        self._own_works, self._is_recorded = (*self._own_works, work), False
        asked = _now()
        try:
            seen = {paths.HOSTS: stamp, paths.MAINTENANCE: maintenance, **others}
            checks = [Check(path, version) for path, version in seen.items() if version is not None]
            self._write_record(encode(work.to_json()), checks)
        except TransactionError as error:
            raise self._not_begun(error) from error
        self._own_works, self._is_recorded = (work,), True
        self._sure_until = asked + self._session.session_timeout * _LEASE

    def _write_record(self, data: bytes, checks: Iterable[Operation]) -> None:
        """Create or replace the record in one transaction that fails if the lock is lost."""
        if self._resumed:
            self._session.commit(*checks, Set(self._record, data, self._read_kept().version))
            return
        # Sequence numbers only grow: the lowest contender stays the lowest for as long as its node exists.
        held = [Check(f"{self._directory}/{self._node}", 0), *checks]
        try:
            self._session.commit(*held, Create(self._record, data))
        except TransactionError as error:
            former = self._session.get(self._record) if error.path == self._record else None
            if former is None:
                raise
            work = LockedWork.from_json(former.properties)
            if work.kept and work.host_id != self._identity.id:  # its host has returned in the meantime
                raise LockLostError(f"the lock {self._directory} is kept for {work}") from error
            self._session.commit(*held, Set(self._record, data, former.version))

    def keep_with(self, operations: Iterable[Operation]) -> None:
        """Keep the lock for this host beyond its session, in one transaction with ``operations``.

        Call this after ``begin``. Raises ``ConflictError`` or ``LockLostError`` if the lock is lost.
        """
        work = replace(self._own_works[-1], kept=True)
        node = self._session.get(self._record)
        if node is None or LockedWork.from_json(node.properties) != work:
            raise LockLostError(f"the lock {self._directory} is lost: its record is not this host's any more")
        self._session.commit(Set(self._record, encode(work.to_json()), node.version), *operations)
        self._own_works = (work,)

    def give_back(self) -> None:
        """Release the lock of an incomplete step; a lock that was kept for this host stays kept.

        Never raises.
        """
        if self._resumed or self._name in self._queues.kept:  # kept before, or in a new session during the work
            self._own_works = ()
        self.release()

    def keep(self) -> None:
        """Release the lock after an interrupted step, but keep it for this host if work has begun.

        Never raises. If ZooKeeper cannot be reached, the lock delay protects the step.
        """
        own_works, self._own_works = self._own_works, ()
        try:
            if own_works:
                keep_work(self._session, self._name, own_works.__contains__)
        except (UnreachableError, DeniedError, RestartError) as error:
            get_logger().warning("work-not-kept", lock=self._directory, reason=str(error))
        self.release()

    def _resume(self) -> bool:
        """Return whether the lock is kept for this host, which then needs no contender."""
        if self._name not in self._queues.kept:
            return False
        try:
            self._read_kept()
        except LockLostError:
            self._queues.kept.discard(self._name)
            return False
        self._resumed = self._tried = True
        return True

    def _read_kept(self) -> Node:
        """Return the record that is kept for this host; raises ``LockLostError`` if it does not exist."""
        node = self._session.get(self._record)
        if node is not None:
            work = LockedWork.from_json(node.properties)
            if work.kept and work.host_id == self._identity.id:
                return node
        raise LockLostError(f"the lock {self._directory} is lost: its record is not kept for this host any more")

    def _not_begun(self, error: TransactionError) -> ConflictError | LockLostError:
        if error.path == paths.MAINTENANCE:
            return ConflictError(f"a maintenance of a host began before the step began: {error}")
        if error.path is not None and error.path.startswith(f"{paths.HOSTS}/"):
            return ConflictError(f"the host that has the service changed before the step began: {error}")
        if error.path == paths.HOSTS:
            return ConflictError(f"the cluster version changed before the step began: {error}")
        return LockLostError(f"the lock {self._directory} is lost: {error}")

    def check_lease(self) -> None:
        """Raise ``LockLostError`` if ``begin`` was too long ago, for instance because this host was suspended.

        Sends no request.
        """
        if _now() > self._sure_until:
            raise LockLostError(
                f"the lock {self._directory} may be lost: this host was suspended after it acquired the lock"
            )

    def _blocked_by(self, changed: Callable[[], None] | None = None) -> tuple[LockedWork, float] | None:
        """Return the work of another host that blocks the lock, with the seconds; ``None`` without such work.

        ``changed`` is called once, when such a record changes.
        """
        watch = None if changed is None else lambda _: changed()
        return self._work_of(self._session.get(self._record, watch))

    def _work_of(self, record: Node | None) -> tuple[LockedWork, float] | None:
        return _blocking_work(record, self._name, self._identity, self._delay)

    def _read_names(self) -> Iterable[str]:
        # The record is read after the queue, so that its writer is the first contender, or one before it.
        names, self._found = self._session.children_and_node(self._directory, self._record)
        return names or ()

    def request(self) -> None:
        self._queues.join(self._prefix, self._name)
        super().request()

    def _withdraw(self, node: str | None, prefix: str) -> None:
        self._withdraw_with_work(node, prefix)
        self._queues.leave(prefix)

    def _withdraw_with_work(self, node: str | None, prefix: str) -> None:
        """Release the lock and remove the work record, in one transaction if possible."""
        if self._own_works:
            if node is not None and self._is_recorded:
                with contextlib.suppress(TransactionError):
                    self._session.commit(Delete(f"{self._directory}/{node}"), Delete(self._record))
                    self._forget_work()
                    return
            remove_work(self._session, self._name, self._own_works.__contains__)
            self._forget_work()
        if not self._resumed:
            super()._withdraw(node, prefix)

    def _forget_work(self) -> None:
        """Forget the work whose record is gone; until then, the agent's successor has to know the kept record."""
        self._own_works = ()
        self._queues.kept.discard(self._name)


def any_free(session: Session, names: Collection[str], identity: Identity, delay: LockDelay) -> bool:
    """Return whether a host can acquire any of these locks now; reads all in one round.

    Queues are not read, because they may be long: ZooKeeper counts the children of a node. A child that is not a
    contender makes a lock count as held here.
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
    """Return the work of another host that blocks a lock, with the remaining seconds; ``None`` without such work.

    Kept work blocks a lock without a limit of time.
    """
    if record is None:
        return None
    work = LockedWork.from_json(record.properties)
    if work.host_id == identity.id:
        return None
    left = math.inf if work.kept else delay.left(name, work)
    return (work, left) if left else None


def _now() -> float:
    """Return the seconds of a clock that also advances while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def keep_work(session: Session, name: str, is_own: Callable[[LockedWork], bool]) -> bool:
    """Keep the work record of a lock for its host if ``is_own`` accepts the record; return whether it is kept."""
    record = f"{paths.BUSY}/{name}"
    node = session.get(record)
    work = None if node is None else LockedWork.from_json(node.properties)
    if node is None or work is None or not is_own(work):
        return False
    if not work.kept:
        try:
            session.commit(Set(record, encode(replace(work, kept=True).to_json()), node.version))
        except ConflictError:
            return False  # the next holder has replaced the record, or an operator has removed it
    return True


def remove_work(session: Session, name: str, is_own: Callable[[LockedWork], bool]) -> bool:
    """Remove the work record of a lock if ``is_own`` accepts it; return whether it was accepted."""
    record = f"{paths.BUSY}/{name}"
    node = session.get(record)
    if node is None or not is_own(LockedWork.from_json(node.properties)):
        return False
    with contextlib.suppress(ConflictError):  # the next holder has replaced the record
        session.commit(Delete(record, node.version))
    return True


def remove_stale_contenders(session: Session, previous: int | None, queues: Mapping[str, str] | None) -> None:
    """Remove the contenders of the session ``previous``.

    Other hosts then need not wait until that session expires. No process of the killed agent may still be running.
    ``queues`` (``JoinedQueues``) are the queues that the agent may have joined. If the agent did not record them,
    or the machine was booted, they are unknown, and all queues are searched.
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
    """Return the contenders that have these unique prefixes."""
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
        if node is not None and LockedWork.from_json(node.properties).host_id == host_id
    ]
