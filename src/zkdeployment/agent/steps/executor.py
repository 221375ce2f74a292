"""Executes plans: decides in which order steps run and under which locks, and runs each step under supervision.

The module ``step_effects`` contains the changes of the host, ``awaiting_steps`` the queues for the locks of
services, and the lock of the role.
"""

from __future__ import annotations

import contextlib
from itertools import groupby
from typing import TYPE_CHECKING

from zkdeployment.agent.rules.plan_text import sentence
from zkdeployment.agent.steps.awaiting_steps import (
    LockableStep,
    LockedSteps,
    OrderedSteps,
    RoleLockHold,
    needs_lock,
)
from zkdeployment.agent.steps.group_stops import GroupStoppedError
from zkdeployment.agent.steps.reboots import HostReboots
from zkdeployment.agent.steps.step_effects import StepEffects
from zkdeployment.base.daemon.failpoints import failpoints
from zkdeployment.base.log import bound, get_logger
from zkdeployment.base.plan import (
    ChangeController,
    ChangePackages,
    CheckOut,
    Deploy,
    EndDeployments,
    PackageChange,
    Reboot,
    StartDeployments,
    Step,
    Undeploy,
    UpdateSystem,
    group_of,
    packages_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.agent.adapters import AgentAdapters
    from zkdeployment.agent.daemon.deployment import Supervision
    from zkdeployment.agent.daemon.plans import HostPlan
    from zkdeployment.agent.store.service_locks import ZooKeeperServiceLock
    from zkdeployment.base.deployment import Deployment
    from zkdeployment.base.host import Identity


class StepRunner:
    """Runs the ``total`` steps of one plan on the host ``identity``, one at a time, and counts them.

    All methods pass on the supervisor's errors.
    """

    def __init__(
        self,
        adapters: AgentAdapters,
        identity: Identity,
        effects: StepEffects,
        supervisor: Supervision,
        total: int,
    ) -> None:
        self.adapters = adapters
        self.identity = identity
        self.supervisor = supervisor
        self._effects = effects
        self._done = 0
        self._total = total

    def prepare_packages(self, change: PackageChange) -> None:
        """Prepare a package change that a later step commits."""
        self.supervisor.check_waiting()  # the host changes only after the check of that step
        self.show("prepare packages")
        with self.supervisor.reporting("prepare packages", packages=change.names), failpoints("prepare"):
            self._effects.prepare_packages(change)

    def prepare_update(self, step: UpdateSystem) -> None:
        """Prepare the update of the operating system, which a later step commits."""
        self.supervisor.check_waiting()
        self.show("prepare update")
        with self.supervisor.reporting("prepare update", deployment=step.deployment), failpoints("prepare-update"):
            self._effects.prepare_update(step.change)

    def fetch(self, step: CheckOut) -> None:
        """Fetch a checkout that a later step installs."""
        self.supervisor.check_waiting()
        name = f"fetch {step.package}"
        self.show(name)
        with self.supervisor.reporting(name, packages=[step.package]), failpoints("fetch"):
            self._effects.fetch(step)

    def run(
        self, step: Step, *, lock: ZooKeeperServiceLock | None = None, check: Callable[[], None] | None = None
    ) -> None:
        """Run one step; ``lock`` is the lock of its service, if this host holds it.

        ``check`` replaces the supervisor's check. A step is skipped if its group is stopped, or if the failure of
        the step stops the group. Raises ``LockLostError``, before the step changes anything, if the lock is lost.
        """
        with contextlib.suppress(GroupStoppedError):
            if not self.supervisor.groups.withholds(step):
                self._run(step, lock, check or self.supervisor.check)
        self._done += 1

    def _run(self, step: Step, lock: ZooKeeperServiceLock | None, check: Callable[[], None]) -> None:
        deployment = step.deployment if isinstance(step, LockableStep) else None
        shown = {} if deployment is None else {"deployment": str(deployment)}
        packages = packages_of(step)
        with (
            bound(**shown),
            self.supervisor.reporting(step.title, deployment=deployment, packages=packages, group=group_of(step)),
        ):
            self.show(step.title)
            self._authorize(step, lock, check)  # last, because its result soon becomes outdated
            if self.supervisor.groups.withholds(step):
                return
            get_logger().info("step", sentence=sentence(step), done=self._done, total=self._total)
            with failpoints(step.kind.replace(" ", "-")):
                self._effects.apply(step, lock)

    def show(self, step: str) -> bool:
        """Show the current step of the host; return whether it differs from the one shown before."""
        return self.supervisor.show(step, self._done, self._total)

    def show_waiting(self, step: str) -> bool:
        """Show that the host waits for other hosts, and return as ``show`` does.

        Locks that are kept for this host are released, so that no two hosts wait for each other.
        """
        changed = self.show(step)
        if changed:
            self.supervisor.hand_on_work()
        return changed

    def _authorize(self, step: Step, lock: ZooKeeperServiceLock | None, check: Callable[[], None]) -> None:
        if lock is not None:
            self.supervisor.begin_locked(step, lock)
            return
        check()
        if self.supervisor.begin_changes():
            check()  # the record of the first change took time


class Executor:
    """Executes one plan for the publication of its supervisor.

    All methods pass on the supervisor's errors. A failure is reported before any lock is released.
    """

    def __init__(
        self, adapters: AgentAdapters, identity: Identity, supervisor: Supervision, plan: HostPlan
    ) -> None:
        self._supervisor = supervisor
        self._plan = plan.plan
        reboots = HostReboots(
            adapters,
            supervisor.basis,
            identity,
            judge=lambda: (
                None if supervisor.gate is None else supervisor.gate.part,
                supervisor.lease.is_leasable,
            ),
            retry=supervisor.retry_midway,
            await_end=supervisor.await_end,
        )
        self._effects = StepEffects(adapters, supervisor.basis, identity, reboots, self._plan.unrecorded)
        self._runner = StepRunner(adapters, identity, self._effects, supervisor, len(self._plan.steps))
        self._order = OrderedSteps(self._runner, plan)
        self._locked = LockedSteps(self._runner, self._order)
        self._role_lock_hold: RoleLockHold | None = None

    def prepare(self, *, rehearse: bool) -> None:
        """Prepare packages and checkouts without changing the host.

        Packages that follow a change of the role controller are prepared after that change. With ``rehearse`` both
        changes are also prepared here, as one transaction that is discarded: an impossible change fails early.
        """
        controller = self._plan.controller
        self._supervisor.hand_on_work(self._under_service_locks())
        if controller is not None:
            with self._supervisor.reporting("role lock"):
                self._role_lock_hold = self.role_lock(controller.role)
        for step in self._plan.steps:
            if isinstance(step, CheckOut):
                self._runner.fetch(step)
        controller_changes = [step.change for step in self._plan.steps if isinstance(step, ChangeController)]
        updates = [step for step in self._plan.steps if isinstance(step, UpdateSystem)]
        for step in updates:
            self._runner.prepare_update(step)
        if updates:
            return  # the packages of services are prepared with the updated repositories
        if not controller_changes:
            self._prepare_packages()
        elif rehearse:
            self._runner.prepare_packages(_joined([*controller_changes, *self._package_changes()]))
            self._effects.discard_prepared()

    def execute(self) -> None:
        """Run the prepared steps in order; neighbouring steps that need locks of services run in any order.

        The role controller's scripts, the steps between them, and earlier undeployments that need a lock run under
        the role's lock only. Steps that wait for deployments of other hosts run after their neighbours. Under a
        role's lock, all steps wait together before that lock is acquired.
        """
        steps = self._plan.steps
        controller_changes = (number for number, step in enumerate(steps, 1) if isinstance(step, ChangeController))
        first = next(controller_changes, 0)
        self._run_all(steps[:first])
        if first and not any(isinstance(step, UpdateSystem) for step in steps):
            self._prepare_packages()
        if self._role_lock_hold is None:
            self._run_under_service_locks(steps[first:])
        else:
            self._run_under_role_lock(steps[first:], self._role_lock_hold)

    def role_lock(self, role: str) -> RoleLockHold:
        """Return the hold of a role's lock for this plan; raises ``TreeError`` if its lock node is missing."""
        return RoleLockHold(role, self._runner)

    def _under_service_locks(self) -> list[Deployment]:
        """Return the plan's deployments under locks of services that come before the wait for another lock."""
        steps = [] if self._plan.controller is not None else self._plan.steps
        return [step.deployment for step in steps if isinstance(step, LockableStep) and needs_lock(step)]

    def _package_changes(self) -> list[PackageChange]:
        return [step.change for step in self._plan.steps if isinstance(step, ChangePackages)]

    def _prepare_packages(self) -> None:
        for change in self._package_changes():
            self._runner.prepare_packages(change)

    def _run_under_role_lock(self, steps: Sequence[Step], hold: RoleLockHold) -> None:
        start = next(
            place for place, step in enumerate(steps) if isinstance(step, StartDeployments) or needs_lock(step)
        )
        end = 1 + next(place for place, step in enumerate(steps) if isinstance(step, EndDeployments))
        self._run_all(steps[:start])
        self._order.wait_for(steps[start:end])
        with self._supervisor.reporting("role lock"), hold.held():
            for step in steps[start:end]:
                self._runner.run(step, check=hold.check)
                self._order.finish(step)
        self._run_all(steps[end:])

    def _run_under_service_locks(self, steps: Sequence[Step]) -> None:
        """Run steps without a role's lock; all those of the plan's ``handover`` service run under one lock."""
        handover = [
            step
            for step in steps
            if isinstance(step, Undeploy | Deploy) and step.deployment.path == self._plan.handover
        ]
        if not handover:
            self._run_all(steps)
            return
        start, end = steps.index(handover[0]), steps.index(handover[-1]) + 1
        self._run_all(steps[:start])
        remaining = self._locked.run_together(steps[start:end], handover[0])
        self._run_all([*remaining, *steps[end:]])

    def _run_all(self, steps: Sequence[Step]) -> None:
        """Run steps in order; of neighbouring deployments or undeployments, first those with a free lock."""
        for kind, neighbours in groupby(steps, key=_kind_of_locks):
            if kind is None:
                for step in neighbours:
                    self._runner.run(step)
            elif kind is UpdateSystem:
                self._run_system(list(neighbours))
            else:
                self._locked.run_each([step for step in neighbours if isinstance(step, Undeploy | Deploy)])

    def _run_system(self, steps: Sequence[Step]) -> None:
        """Run an update of the system and the reboot after it under one lock, that of the system node."""
        remaining = [step for step in steps if isinstance(step, UpdateSystem | Reboot)]
        while remaining:
            remaining = list(self._locked.run_together(remaining, remaining[0]))


def _kind_of_locks(step: Step) -> type[Step] | None:
    """Return the kind of steps among which a step may run in any order; ``None`` for a step without a lock."""
    if not needs_lock(step):
        return None
    return UpdateSystem if isinstance(step, Reboot) else type(step)


def _joined(changes: Sequence[PackageChange]) -> PackageChange:
    """Return one change with the combined effect of ``changes`` in order."""
    return PackageChange(
        want={name: version for change in changes for name, version in change.want.items()},
        remove=frozenset().union(*(change.remove for change in changes)),
        managed=frozenset().union(*(change.managed for change in changes)),
        reinstall=frozenset().union(*(change.reinstall for change in changes)),
        preserve=frozenset().union(*(change.preserve for change in changes)),
    )
