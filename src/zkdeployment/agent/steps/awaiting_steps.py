"""Runs steps in their turn: after the services of other hosts, and under the locks of their own services.

A host waits for other hosts without any lock, and holds one lock at a time, the first that is free; a drain also
holds the lock of its role.
``publishing.rules.precedence`` decides which host waits for which. The executor runs the steps that do not wait.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from zkdeployment.agent.rules.waiting import (
    TURN,
    OrderProgress,
    OrderWait,
    asks_for_holder,
    asks_for_others,
    order_wait,
    reading_interval,
    with_restarting,
)
from zkdeployment.agent.steps.group_stops import GroupStoppedError
from zkdeployment.agent.store.service_locks import KEPT
from zkdeployment.agent.store.service_orders import PublicationOrder, ZooKeeperAwaitedService
from zkdeployment.base.daemon.cycles import jittered
from zkdeployment.base.daemon.failpoints import failpoints, reach
from zkdeployment.base.errors import (
    AwaitedServiceError,
    ConflictError,
    LockLostError,
    ShutdownError,
    UnreachableError,
)
from zkdeployment.base.log import get_logger
from zkdeployment.base.plan import Deploy, Reboot, Step, Undeploy, UpdateSystem, group_of
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.store.reboots import expire_reboots, read_reboots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from zkdeployment.agent.adapters import QueuedLock
    from zkdeployment.agent.daemon.plans import HostPlan
    from zkdeployment.agent.steps.executor import StepRunner
    from zkdeployment.agent.store.service_locks import ZooKeeperServiceLock
    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.zookeeper.session import Session


@dataclass
class _Reading:
    """The last snapshot of a service, and when to read it again without a change.

    ``absent`` are the hosts that are assumed to be restarting, with the time since which they are absent.
    """

    service: ZooKeeperAwaitedService
    progress: OrderProgress
    due: float
    absent: Mapping[str, float]


class OrderedSteps:
    """The steps of one plan, in their order with those of other hosts."""

    def __init__(self, runner: StepRunner, plan: HostPlan) -> None:
        self._order = PublicationOrder(runner.adapters.session, plan.sequence)
        self._clock = runner.adapters.clock
        self._identity = runner.identity
        self._supervisor = runner.supervisor
        self._runner = runner
        self._plan = plan
        self._remaining = Counter(step.deployment.path for step in plan.plan.steps if isinstance(step, Deploy))
        self._readings: dict[str, _Reading] = {}
        self._over: set[tuple[str, bool]] = set()

    def open_steps(self, steps: Sequence[Undeploy | Deploy]) -> Sequence[Undeploy | Deploy]:
        """Return the steps that may run now, at least one; wait until there is one.

        Passes on the supervisor's errors. The host fails if it can only wait for a host that has failed.
        """
        while True:
            try:
                waits = [(step, self._wait_of(step)) for step in steps]
            except UnreachableError as error:
                get_logger().warning("order-not-read", reason=str(error))
                self._supervisor.check()
                continue
            may_run = [step for step, wait in waits if wait is None]
            if may_run:
                return may_run
            self._pause([(step, wait) for step, wait in waits if wait is not None])

    def wait_for(self, steps: Sequence[Step]) -> None:
        """Wait until all deployments among these steps may run."""
        pending = [step for step in steps if isinstance(step, Deploy)]
        while pending:
            may_run = self.open_steps(pending)
            pending = [step for step in pending if step not in may_run]

    def finish(self, step: Step) -> None:
        """Record the end of the last deployment of a service that other hosts wait for."""
        if not isinstance(step, Deploy) or step.deployment.path not in self._plan.awaited:
            return
        path = step.deployment.path
        self._remaining[path] -= 1
        if self._remaining[path] or self._supervisor.groups.lacks(path):
            return
        with failpoints("order"):
            self._supervisor.retry_midway(
                lambda: self._order.finish(path, self._identity.id), "order-not-recorded", service=path
            )

    def _pause(self, waits: Sequence[tuple[Undeploy | Deploy, OrderWait]]) -> None:
        """Show the first wait and wait for a change, for one turn; fail if a host that has failed is awaited."""
        for step, wait in waits:
            if wait.failure:
                try:
                    with self._supervisor.reporting(step.title, deployment=step.deployment, group=group_of(step)):
                        raise AwaitedServiceError(wait.failure)
                except GroupStoppedError:
                    return  # the step is withheld now
        step, wait = waits[0]
        if self._runner.show_waiting(wait.step):
            get_logger().info("waiting-for-service", deployment=str(step.deployment), step=wait.step)
        reach("at:order")
        self._readings[wait.path].service.wait(TURN)
        self._supervisor.check_waiting()

    def _wait_of(self, step: Undeploy | Deploy) -> OrderWait | None:
        """Return the first unfinished wait of a step; ``None`` if the step may run or is withheld."""
        if self._supervisor.groups.withholds(step):
            return None
        for path, gaining in self._awaited_by(step):
            if (path, gaining) in self._over:
                continue
            if self._supervisor.groups.lacks(path):
                return OrderWait(
                    path, failure=f"{path} is not deployed on this host, because its group is stopped"
                )
            ignores = self._plan.ignores_failures
            wait = order_wait(path, self._progress(path), gaining=gaining, ignores_failures=ignores)
            if wait:
                return wait
            self._over.add((path, gaining))
        return None

    def _awaited_by(self, step: Undeploy | Deploy) -> Iterator[tuple[str, bool]]:
        """Yield the services that a step waits for, each with whether only the hosts that gain it count."""
        if not self._plan.sequence:
            return
        if isinstance(step, Deploy):
            yield from ((path, False) for path in step.assignment.after)
        elif step.last:
            yield step.deployment.path, True

    def _progress(self, path: str) -> OrderProgress:
        reading, now = self._readings.get(path), self._clock.monotonic()
        if reading is not None and reading.service.is_unchanged and now < reading.due:
            return reading.progress
        service = ZooKeeperAwaitedService(self._order, path) if reading is None else reading.service
        before, absent = (None, {}) if reading is None else (reading.progress, reading.absent)
        progress, absent = with_restarting(service.progress(), before, absent, now)
        due = now + jittered(reading_interval(len(progress.entry.hosts)))
        self._readings[path] = _Reading(service, progress, due, absent)
        return progress


#: With fewer hosts ahead of it in the queue, a host watches the holder itself.
_FAR_BACK = 2


class KnownHolder:
    """The holder of ``lock``, read the less often the longer the queue is."""

    def __init__(self, lock: QueuedLock, clock: Clock) -> None:
        self._lock = lock
        self._clock = clock
        self._name: str | None = None
        self._ahead: int | None = None
        self._since = 0.0

    @property
    def name(self) -> str | None:
        """The name that was read last."""
        return self._name

    def read(self, turn: int) -> None:
        """Read the holder if it is due in this turn; the first call always reads it."""
        if self._name is not None and not asks_for_holder(turn, self._lock.ahead, self._ahead):
            return
        name = self._lock.holder()
        if name != self._name:
            self._name, self._since = name, self._clock.now()
        self._ahead = self._lock.ahead

    def __str__(self) -> str:
        """Return the holder, with the time of the first reading if the holder may have changed since."""
        holder = f"held by {self._name or 'nobody'}"
        if self._lock.ahead < _FAR_BACK:
            return holder
        return f"{holder} as of {datetime.fromtimestamp(self._since, UTC):%Y-%m-%d %H:%M:%S} UTC"


class AwaitedReboot:
    """Reports the host for whose reboot a lock is kept, as soon as that host is overdue.

    Without such a holder, no request is sent.
    """

    def __init__(self, session: Session, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._holder: str | None = None
        self._deadline = math.inf

    def check(self, holder: str | None) -> None:
        """Read the deadline of a new ``holder``, and report the host when the deadline has passed."""
        if holder != self._holder:
            self._holder, self._deadline = holder, math.inf
            if KEPT in (holder or ""):
                open_records = (each for each in read_reboots(self._session) if not each.expired)
                self._deadline = min((record.deadline for record in open_records), default=math.inf)
        if self._clock.now() > self._deadline:
            expire_reboots(self._session, self._clock.now())
            self._holder = None


class RoleLockHold:
    """Acquires, checks and releases the lock of a role; raises ``TreeError`` if its lock node is missing."""

    def __init__(self, role: str, runner: StepRunner) -> None:
        self._role = role
        self._lock = runner.adapters.fleet.roles.lock(role, runner.identity)
        self._supervisor = runner.supervisor
        self._runner = runner
        self._holder = KnownHolder(self._lock, runner.adapters.clock)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the lock, hold it during the block, and release it afterwards.

        If the block fails, the host keeps the lock: no other host of this role continues until this host has
        succeeded.
        """
        with failpoints("role-lock"):
            self._enter()
        yield
        with failpoints("role-release"):
            self._retry(self._lock.release)

    def withdraw(self) -> None:
        """Release the lock, or leave its queue, if no step has begun. Never raises."""
        self._lock.withdraw()

    def check(self) -> None:
        """Raise ``ConflictError`` unless the deployment may continue and the lock is still held.

        If another host stops the fleet, the steps under this lock continue. If an operator removes the lock, the
        deployment is abandoned, and the next one queues again.
        """
        self._supervisor.check(midway=True)
        self._retry(self._check_lock)

    def _check_lock(self) -> None:
        try:
            self._lock.check()
        except LockLostError as error:
            raise ConflictError(str(error)) from error

    def _enter(self) -> None:
        try:
            for turn in count():
                if self._acquire(turn):
                    # No step under the lock has begun, so a stop since the last check prevents all of the steps.
                    return self._supervisor.check()
                self._supervisor.check_waiting()
        except BaseException:
            self.withdraw()
            raise

    def _acquire(self, turn: int) -> bool:
        """Return whether the lock was acquired within one turn."""
        try:
            if self._lock.acquire(0):
                return True
            self._holder.read(turn)
            waiting = f"wait for the lock of role {self._role}, {self._holder}"
            if self._runner.show_waiting(waiting):
                get_logger().info("waiting-for-role-lock", role=self._role, step=waiting)
            return self._lock.acquire(TURN)
        except UnreachableError as error:
            get_logger().warning("role-lock-not-acquired", role=self._role, reason=str(error))
            return False

    def _retry(self, call: Callable[[], None]) -> None:
        self._supervisor.retry_midway(call, "role-lock-unreachable", role=self._role)


#: The kinds of steps that have a deployment, under whose lock they may run.
LockableStep: TypeAlias = Deploy | Undeploy | UpdateSystem | Reboot


def needs_lock(step: Step) -> bool:
    """Return whether a step runs under the lock of its service, or of its role if that has a controller."""
    return isinstance(step, Deploy | UpdateSystem | Reboot) or (isinstance(step, Undeploy) and step.locked)


S = TypeVar("S", bound=Step)
T = TypeVar("T", bound=LockableStep)


class LockedSteps:
    """Runs a host's steps that need the locks of services."""

    def __init__(self, runner: StepRunner, order: OrderedSteps) -> None:
        self._fleet = runner.adapters.fleet
        self._session = runner.adapters.session
        self._clock = runner.adapters.clock
        self._identity = runner.identity
        self._supervisor = runner.supervisor
        self._runner = runner
        self._order = order

    def run_each(self, steps: Sequence[Undeploy | Deploy]) -> None:
        """Run steps in any order, each under the lock of its service.

        Steps that wait for deployments of other hosts run as soon as these are done.
        """
        pending = list(steps)
        while pending:
            step, lock = self._lock_any(self._order.open_steps(pending))
            if self._run_under(lock, [step]):
                pending.remove(step)
                self._order.finish(step)

    def run_together(self, steps: Sequence[S], owner: LockableStep) -> Sequence[S]:
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

        If the agent ends before the steps are complete, the lock is kept for this host, because a script may still
        run. A lock that was already kept stays kept.
        """
        done, release = 0, lock.keep
        try:
            for step in steps:
                self._runner.run(step, lock=lock)
                done += 1
            release = lock.release
        except (LockLostError, UnreachableError) as error:
            get_logger().warning("lock-lost", step=steps[done].title, reason=str(error))
            release = lock.give_back
        except ConflictError:
            release = lock.give_back
            raise
        except ShutdownError:
            raise
        except Exception:
            release = lock.release  # the step is over, and its failure is reported
            raise
        finally:
            with failpoints("release"):
                release()
        return done

    def _lock_any(self, pending: Sequence[T]) -> tuple[T, ZooKeeperServiceLock]:
        """Return the first step whose service's lock could be acquired, and that lock; waits without limit."""
        with failpoints("lock"):
            while True:
                self._supervisor.check_waiting()  # the record of each step verifies the lock again
                try:
                    with self._supervisor.reporting("lock"):
                        locked = self._lock_first_free(pending)
                except UnreachableError as error:
                    get_logger().warning("lock-not-acquired", reason=str(error))
                    continue
                if locked is not None:
                    return locked

    def _lock_first_free(self, pending: Sequence[T]) -> tuple[T, ZooKeeperServiceLock] | None:
        """Return the first step whose lock is free, and its lock; queue for the first lock if none is free.

        If there is only one lock to choose from, the host queues at once. A host never holds two locks, so it
        leaves the queue before it tries another lock. Returns ``None`` if another lock became free: then call
        again.
        """
        firsts: dict[str, T] = {}
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

    def _queue(self, step: LockableStep, lock: ZooKeeperServiceLock, others: Sequence[LockableStep]) -> bool:
        """Queue for a lock and return whether it was acquired; leave the queue if another step's lock is free.

        Hosts cannot chase free locks for ever: whenever another host is faster, that host has one step fewer to
        do.
        """
        try:
            if lock.acquire(0):
                return True
            holder, reboot = KnownHolder(lock, self._clock), AwaitedReboot(self._session, self._clock)
            holder.read(0)
            for turn in count(1):
                self._show_waiting(step, holder)
                if lock.acquire(TURN):
                    break
                self._supervisor.check_waiting()
                holder.read(turn)
                reboot.check(holder.name)
                if asks_for_others(turn, lock.ahead) and self._is_any_free(others):
                    lock.release()
                    return False
        except BaseException:
            lock.release()
            raise
        return True

    def _is_any_free(self, steps: Sequence[LockableStep]) -> bool:
        return bool(steps) and self._fleet.any_free([step.deployment for step in steps], self._identity)

    def _show_waiting(self, step: LockableStep, holder: KnownHolder) -> None:
        waiting = f"wait for the lock of {step.deployment.path}, {holder}"
        if self._runner.show_waiting(waiting):
            get_logger().info("waiting-for-lock", deployment=str(step.deployment), step=waiting)
