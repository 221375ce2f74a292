"""Holds steps back until other hosts have deployed the services that these steps wait for.

A host waits without any lock. Which host waits for which is decided in ``publishing.rules.precedence``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.agent.rules.pace import TURN
from zkdeployment.agent.rules.service_order import OrderWait, order_wait, reading_interval, with_restarting
from zkdeployment.agent.steps.group_stops import GroupStoppedError
from zkdeployment.base.daemon.cycles import jittered
from zkdeployment.base.daemon.failpoints import failpoints, reach
from zkdeployment.base.errors import AwaitedServiceError, UnreachableError
from zkdeployment.base.log import get_logger
from zkdeployment.base.plan import Deploy, Undeploy, group_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zkdeployment.agent.daemon.deployment import Supervision
    from zkdeployment.agent.daemon.plans import HostPlan
    from zkdeployment.agent.rules.service_order import OrderProgress
    from zkdeployment.agent.steps.executor import StepRunner
    from zkdeployment.agent.store.awaited_services import ZooKeeperAwaitedService
    from zkdeployment.agent.store.fleet import ZooKeeperFleet
    from zkdeployment.base.host import Identity
    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.base.plan import Step


@dataclass
class _Reading:
    """The last snapshot of a service, and when it is to be read again although nothing changed.

    ``absent`` are the hosts that are assumed to be restarting, with the time since when they are absent.
    """

    service: ZooKeeperAwaitedService
    progress: OrderProgress
    due: float
    absent: Mapping[str, float]


class OrderedSteps:
    """The steps of one plan, in their order with those of other hosts."""

    def __init__(
        self,
        fleet: ZooKeeperFleet,
        clock: Clock,
        identity: Identity,
        supervisor: Supervision,
        runner: StepRunner,
        *,
        plan: HostPlan,
    ) -> None:
        self._fleet = fleet
        self._clock = clock
        self._identity = identity
        self._supervisor = supervisor
        self._runner = runner
        self._plan = plan
        self._remaining = Counter(step.deployment.path for step in plan.plan.steps if isinstance(step, Deploy))
        self._readings: dict[str, _Reading] = {}
        self._over: set[tuple[str, bool]] = set()

    def open_steps(self, steps: Sequence[Undeploy | Deploy]) -> Sequence[Undeploy | Deploy]:
        """Return those steps that may run now, at least one; wait until there is one.

        Lets the supervisor's errors pass. The host fails if it can only wait for a host that has failed.
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
            return None
        path = step.deployment.path
        self._remaining[path] -= 1
        if self._remaining[path] or self._supervisor.lacks(path):
            return None
        with failpoints("order"):
            while True:
                try:
                    return self._fleet.finish_order(self._plan.sequence, path, self._identity)
                except UnreachableError as error:
                    get_logger().warning("order-not-recorded", service=path, reason=str(error))
                    self._supervisor.check(midway=True)

    def _pause(self, waits: Sequence[tuple[Undeploy | Deploy, OrderWait]]) -> None:
        """Show the first wait and wait for a change, for one turn; fail if a wait is in vain."""
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
        """Return the first wait of a step that is not over; ``None`` if the step may run or is withheld."""
        if self._supervisor.withholds(step):
            return None
        for path, gaining in self._awaited_by(step):
            if (path, gaining) in self._over:
                continue
            if self._supervisor.lacks(path):
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
        service = self._fleet.awaited_service(self._plan.sequence, path) if reading is None else reading.service
        before, absent = (None, {}) if reading is None else (reading.progress, reading.absent)
        progress, absent = with_restarting(service.progress(), before, absent, now)
        due = now + jittered(reading_interval(len(progress.entry.hosts)))
        self._readings[path] = _Reading(service, progress, due, absent)
        return progress
