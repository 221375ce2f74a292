"""Takes steps under the locks of their services: one lock at a time, whichever is free first."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from zkdeployment.daemons.failpoints import reach
from zkdeployment.daemons.queue_pace import TURN, asks_for_holder, asks_for_others
from zkdeployment.errors import LockLostError, UnreachableError
from zkdeployment.log import get_logger
from zkdeployment.planning.plan_text import title

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.daemons.agent.executor import StepSupervisor
    from zkdeployment.model.host import Identity
    from zkdeployment.model.plan import Deploy, Step, Undeploy
    from zkdeployment.ports.fleet import FleetStore
    from zkdeployment.ports.locks import ServiceLock


class LockedSteps:
    """Takes a host's steps that need the locks of services.

    ``take`` takes one step under a lock; it raises ``LockLostError`` before the step if the lock is lost. ``show``
    shows what the host waits for, and returns whether that is news.
    """

    def __init__(
        self,
        fleet: FleetStore,
        identity: Identity,
        supervisor: StepSupervisor,
        *,
        take: Callable[[Step, ServiceLock], None],
        show: Callable[[str], bool],
    ) -> None:
        self._fleet = fleet
        self._identity = identity
        self._supervisor = supervisor
        self._take = take
        self._show = show

    def take_each(self, steps: Sequence[Undeploy | Deploy]) -> None:
        """Take steps in any order, each under its service's lock, which is released after each."""
        pending = list(steps)
        while pending:
            step, lock = self._lock_any(pending)
            if self._take_under(lock, [step]):
                pending.remove(step)

    def take_together(self, steps: Sequence[Step], owner: Undeploy | Deploy) -> Sequence[Step]:
        """Take steps in order under one lock, that of the ``owner``'s service.

        Returns those that were not taken because the lock was lost.
        """
        _, lock = self._lock_any([owner])
        return steps[self._take_under(lock, steps) :]

    def _take_under(self, lock: ServiceLock, steps: Sequence[Step]) -> int:
        """Take steps until the lock is lost, and release it; return how many were taken."""
        taken = 0
        try:
            reach("after:lock")
            for step in steps:
                self._take(step, lock)
                taken += 1
        except (LockLostError, UnreachableError) as error:
            get_logger().warning("lock-lost", step=title(steps[taken]), reason=str(error))
        finally:
            reach("before:release")
            lock.release()
        return taken

    def _lock_any(self, pending: Sequence[Undeploy | Deploy]) -> tuple[Undeploy | Deploy, ServiceLock]:
        """Return the first step whose service's lock can be had, and that lock, however long that takes."""
        while True:
            self._supervisor.check()
            try:
                with self._supervisor.reporting("lock"):
                    found = self._lock_first_free(pending)
            except UnreachableError as error:
                get_logger().warning("lock-not-taken", reason=str(error))
                continue
            if found is not None:
                return found

    def _lock_first_free(
        self, pending: Sequence[Undeploy | Deploy]
    ) -> tuple[Undeploy | Deploy, ServiceLock] | None:
        """Return the first instance whose node is free, and its lock; queue for the first node if none is.

        Never holds two: the queue is left before another lock is tried. ``None`` when that is to be done now.
        """
        firsts: dict[str, Undeploy | Deploy] = {}
        for step in pending:
            firsts.setdefault(step.deployment.path, step)
        for step in firsts.values():
            lock = self._fleet.node_lock(step.deployment, self._identity)
            if lock.try_acquire():
                return step, lock
        first, *others = firsts.values()
        lock = self._fleet.node_lock(first.deployment, self._identity)
        if self._queue(first, lock, others):
            return first, lock
        return None

    def _queue(self, step: Undeploy | Deploy, lock: ServiceLock, others: Sequence[Undeploy | Deploy]) -> bool:
        """Wait for a lock, in its place in the queue; give the place up when another one is seen free.

        That ends: whoever is faster there has less to do then.
        """
        try:
            holder = lock.holder()
            for turn in count(1):
                self._show_waiting(step, holder)
                if lock.acquire(TURN):
                    break
                self._supervisor.check()
                if asks_for_holder(turn, lock.ahead):
                    holder = lock.holder()
                if asks_for_others(turn, lock.ahead) and self._is_any_free(others):
                    lock.release()
                    return False
        except BaseException:
            lock.release()
            raise
        return True

    def _is_any_free(self, steps: Sequence[Undeploy | Deploy]) -> bool:
        return bool(steps) and self._fleet.any_free([step.deployment for step in steps], self._identity)

    def _show_waiting(self, step: Undeploy | Deploy, holder: str | None) -> None:
        waiting = f"wait for the lock of {step.deployment.path}, held by {holder or 'nobody'}"
        if self._show(waiting):
            get_logger().info("waiting-for-lock", deployment=str(step.deployment), step=waiting)
