"""Runs steps under the locks of their services: one lock at a time, the first that is free.

The role's lock belongs to ``role_lock_hold``; steps without a lock to the executor.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from zkdeployment.daemons.agent.steps.known_holder import KnownHolder
from zkdeployment.daemons.failpoints import failpoints
from zkdeployment.daemons.queue_pace import TURN, asks_for_others
from zkdeployment.errors import ConflictError, LockLostError, ShutdownError, UnreachableError
from zkdeployment.log import get_logger
from zkdeployment.model.plan import Deploy, Undeploy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.adapters.zookeeper.fleet import ZooKeeperFleet
    from zkdeployment.adapters.zookeeper.locks.service_locks import ZooKeeperServiceLock
    from zkdeployment.daemons.agent.steps.ordered_steps import OrderedSteps
    from zkdeployment.daemons.agent.steps.step_runner import StepRunner
    from zkdeployment.daemons.agent.supervision import Supervision
    from zkdeployment.model.host import Identity
    from zkdeployment.model.plan import Step
    from zkdeployment.ports.process import Clock


def needs_lock(step: Step) -> bool:
    """Return whether a step runs under the lock of its service, or of the role if that has a controller."""
    return isinstance(step, Deploy) or (isinstance(step, Undeploy) and step.locked)


class LockedSteps:
    """Runs a host's steps that need the locks of services."""

    def __init__(
        self,
        fleet: ZooKeeperFleet,
        clock: Clock,
        identity: Identity,
        supervisor: Supervision,
        runner: StepRunner,
        *,
        order: OrderedSteps,
    ) -> None:
        self._fleet = fleet
        self._clock = clock
        self._identity = identity
        self._supervisor = supervisor
        self._runner = runner
        self._order = order

    def run_each(self, steps: Sequence[Undeploy | Deploy]) -> None:
        """Run steps in any order, each under its service's lock, which is released after each.

        Steps that wait for deployments of other hosts run as soon as these are done.
        """
        pending = list(steps)
        while pending:
            step, lock = self._lock_any(self._order.open_steps(pending))
            if self._run_under(lock, [step]):
                pending.remove(step)
                self._order.finish(step)

    def run_together(self, steps: Sequence[Step], owner: Undeploy | Deploy) -> Sequence[Step]:
        """Run steps in order under one lock, that of the ``owner``'s service.

        Returns the steps that did not run because the lock was lost.
        """
        _, lock = self._lock_any([owner])
        done = self._run_under(lock, steps)
        for step in steps[:done]:
            self._order.finish(step)
        return steps[done:]

    def _run_under(self, lock: ZooKeeperServiceLock, steps: Sequence[Step]) -> int:
        """Run steps until the lock is lost, release the lock, and return how many steps ran.

        The lock is kept for this host if the agent has to end before the steps are complete, and stays kept if
        it was kept before.
        """
        done, release = 0, lock.release
        try:
            for step in steps:
                self._runner.run(step, lock=lock)
                done += 1
        except (LockLostError, UnreachableError) as error:
            get_logger().warning("lock-lost", step=steps[done].title, reason=str(error))
            release = lock.give_back
        except ConflictError:
            release = lock.give_back
            raise
        except ShutdownError:
            release = lock.keep
            raise
        finally:
            with failpoints("release"):
                release()
        return done

    def _lock_any(self, pending: Sequence[Undeploy | Deploy]) -> tuple[Undeploy | Deploy, ZooKeeperServiceLock]:
        """Return the first step whose service's lock could be acquired, and that lock; waits without limit."""
        with failpoints("lock"):
            while True:
                self._supervisor.check_waiting()  # the record of each step proves it again
                try:
                    with self._supervisor.reporting("lock"):
                        locked = self._lock_first_free(pending)
                except UnreachableError as error:
                    get_logger().warning("lock-not-acquired", reason=str(error))
                    continue
                if locked is not None:
                    return locked

    def _lock_first_free(
        self, pending: Sequence[Undeploy | Deploy]
    ) -> tuple[Undeploy | Deploy, ZooKeeperServiceLock] | None:
        """Return the first step whose lock is free, and its lock; queue for the first lock if none is free.

        If there is only one lock to choose from, the host queues at once. A host never holds two locks, so it
        leaves the queue before it tries another lock. Returns ``None`` if another lock became free: then call
        again.
        """
        firsts: dict[str, Undeploy | Deploy] = {}
        for step in pending:
            firsts.setdefault(step.deployment.path, step)
        for step in firsts.values() if len(firsts) > 1 else ():
            lock = self._fleet.node_lock(step.deployment, self._identity)
            if lock.try_acquire():
                return step, lock
        first, *others = firsts.values()
        lock = self._fleet.node_lock(first.deployment, self._identity)
        if self._queue(first, lock, others):
            return first, lock
        return None

    def _queue(
        self, step: Undeploy | Deploy, lock: ZooKeeperServiceLock, others: Sequence[Undeploy | Deploy]
    ) -> bool:
        """Queue for a lock and return whether it was acquired; leave the queue if the lock of another is free.

        Hosts do not chase free locks forever: each time another host was faster, it has one step fewer to do.
        """
        try:
            if lock.acquire(0):
                return True
            holder = KnownHolder(lock, self._clock)
            holder.read(0)
            for turn in count(1):
                self._show_waiting(step, holder)
                if lock.acquire(TURN):
                    break
                self._supervisor.check_waiting()
                holder.read(turn)
                if asks_for_others(turn, lock.ahead) and self._is_any_free(others):
                    lock.release()
                    return False
        except BaseException:
            lock.release()
            raise
        return True

    def _is_any_free(self, steps: Sequence[Undeploy | Deploy]) -> bool:
        return bool(steps) and self._fleet.any_free([step.deployment for step in steps], self._identity)

    def _show_waiting(self, step: Undeploy | Deploy, holder: KnownHolder) -> None:
        waiting = f"wait for the lock of {step.deployment.path}, {holder}"
        if self._runner.show_waiting(waiting):
            get_logger().info("waiting-for-lock", deployment=str(step.deployment), step=waiting)
