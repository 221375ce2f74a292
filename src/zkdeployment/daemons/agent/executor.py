"""Takes the steps of a plan: each only if the world is still as planned, those of services under a lock."""

from __future__ import annotations

from collections import deque
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

from zkdeployment.daemons.agent.role_lock_hold import RoleLockHold
from zkdeployment.daemons.failpoints import reach
from zkdeployment.daemons.locked_steps import LockedSteps
from zkdeployment.errors import PackageError
from zkdeployment.log import bound, get_logger
from zkdeployment.model.inventory import Marker
from zkdeployment.model.plan import (
    ChangeController,
    ChangePackages,
    CheckOut,
    Deploy,
    EndDeployments,
    PackageChange,
    RemoveCheckout,
    RemoveSoftware,
    StartDeployments,
    Undeploy,
)
from zkdeployment.planning.plan_text import sentence, title

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from zkdeployment.daemons.agent.agent_adapters import AgentAdapters
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.host import Identity
    from zkdeployment.model.plan import Plan, Step
    from zkdeployment.ports.host import Transaction
    from zkdeployment.ports.locks import ServiceLock

_COMMITS = 4  # attempts at one change of packages, each prepared anew


class StepSupervisor(Protocol):
    """Whoever lets a plan be executed."""

    def check(self, *, midway: bool = False) -> None:
        """Raise ``ConflictError`` unless the plan's revision is still wanted, ``ShutdownError`` to end.

        ``midway`` is what has to be finished even if the fleet was stopped meanwhile.
        """

    def begin_changes(self) -> bool:
        """Give up the host's version before the deployment's first change; say whether that was done now."""

    def show(self, step: str, done: int, total: int) -> bool:
        """Show the step under way; says whether it is another one than before."""

    def reporting(self, step: str) -> AbstractContextManager[None]:
        """Report what fails inside to the fleet, before anything that was entered earlier is left."""


class Executor:
    """Executes one plan for one revision.

    Raises what the supervisor raises; a failure was reported before any lock was let go.
    """

    def __init__(
        self, adapters: AgentAdapters, identity: Identity, supervisor: StepSupervisor, revision: Revision
    ) -> None:
        self._adapters = adapters
        self._identity = identity
        self._supervisor = supervisor
        self._revision = revision
        self._prepared: deque[Transaction] = deque()
        self._coming: RoleLockHold | None = None
        self._role_lock_hold: RoleLockHold | None = None
        self._locked = LockedSteps(adapters.fleet, identity, supervisor, take=self._take, show=self._show_waiting)
        self._done = 0
        self._total = 0

    def prepare(self, plan: Plan, *, rehearse: bool) -> None:
        """Prepare packages and checkouts, changing nothing.

        Packages that come after a change of the role controller's are prepared when that is made. ``rehearse``:
        here, too, all in one transaction that is not done, so that it is known long before whether it can be.
        """
        self._total = len(plan.steps)
        if plan.controller is not None:
            self._coming = self._make_tenure(plan.controller.role)
        self._fetch([step for step in plan.steps if isinstance(step, CheckOut)])
        changes = [step.change for step in plan.steps if isinstance(step, ChangePackages)]
        first = [step.change for step in plan.steps if isinstance(step, ChangeController)]
        if not first:
            self._prepare(changes)
        elif rehearse:
            self._prepare([_joined([*first, *changes])])
            self._prepared.clear()

    def execute(self, plan: Plan) -> None:
        """Take the steps of a plan that is prepared, in order; of neighbours that need locks in any order.

        The role controller's scripts, what is between them, and undeployments before them that need a lock hold
        the role's lock, and no others.
        """
        changes = (place for place, step in enumerate(plan.steps, 1) if isinstance(step, ChangeController))
        first = next(changes, 0)
        self._take_all(plan.steps[:first])
        if first:
            self._prepare([step.change for step in plan.steps if isinstance(step, ChangePackages)])
        rest = plan.steps[first:]
        if self._coming is None:
            self._take_service_by_service(rest, plan.handover)
            return
        start = next(
            place for place, step in enumerate(rest) if isinstance(step, StartDeployments) or _needs_lock(step)
        )
        self._take_all(rest[:start])
        with self._supervisor.reporting("role lock"), self._coming.held():
            self._role_lock_hold = self._coming
            self._take_all(rest[start:])

    def _make_tenure(self, role: str) -> RoleLockHold:
        with self._supervisor.reporting("role lock"):
            lock = self._adapters.fleet.role_lock(role, self._identity)
        return RoleLockHold(role, lock, self._supervisor, self._show_waiting)

    def _show_waiting(self, waiting: str) -> bool:
        return self._supervisor.show(waiting, self._done, self._total)

    def _take_service_by_service(self, steps: Sequence[Step], handover: str | None) -> None:
        """Take steps without the lock of a role: those of the service ``handover`` together, under one lock."""
        own = [step for step in steps if isinstance(step, Undeploy | Deploy) and step.deployment.path == handover]
        if not own:
            self._take_all(steps)
            return
        start, end = steps.index(own[0]), steps.index(own[-1]) + 1
        self._take_all(steps[:start])
        left = self._locked.take_together(steps[start:end], own[0])
        self._take_all([*left, *steps[end:]])

    def _take_all(self, steps: Sequence[Step]) -> None:
        """Take steps in order; of neighbouring deployments, or undeployments, those first whose lock is free."""
        for kind, some in groupby(steps, key=lambda step: type(step) if self._locks(step) else None):
            if kind is not None:
                self._locked.take_each([step for step in some if isinstance(step, Undeploy | Deploy)])
            else:
                for step in some:
                    self._take(step)

    def _locks(self, step: Step) -> bool:
        return _needs_lock(step) and self._role_lock_hold is None

    def _prepare(self, changes: Sequence[PackageChange]) -> None:
        for change in changes:
            self._supervisor.check()
            self._supervisor.show("prepare packages", 0, self._total)
            with self._supervisor.reporting("prepare packages"), self._adapters.notifier.uninterrupted():
                reach("before:prepare")
                self._prepared.append(self._adapters.packages.prepare(change))
                reach("after:prepare")

    def _fetch(self, steps: Sequence[CheckOut]) -> None:
        for step in steps:
            self._supervisor.check()
            name = f"fetch {step.package}"
            self._supervisor.show(name, 0, self._total)
            with self._supervisor.reporting(name), self._adapters.notifier.uninterrupted():
                reach("before:fetch")
                self._adapters.checkouts.prepare(step.package, step.version, replaces=step.replaces)
                reach("after:fetch")

    def _check(self, step: Step, lock: ServiceLock | None) -> None:
        check = self._supervisor.check if self._role_lock_hold is None else self._role_lock_hold.check
        check()
        if self._supervisor.begin_changes():
            check()  # to record that took its time
        if lock is not None:
            lock.begin(title(step))

    def _take(self, step: Step, lock: ServiceLock | None = None) -> None:
        name = title(step)
        kind = name.partition(" /")[0].replace(" ", "-")
        deployment = {"deployment": str(step.deployment)} if isinstance(step, Deploy | Undeploy) else {}
        with bound(**deployment), self._supervisor.reporting(name):
            self._supervisor.show(name, self._done, self._total)
            self._check(step, lock)  # last: what it finds is not true for long
            get_logger().info("step", sentence=sentence(step), done=self._done, total=self._total)
            reach(f"before:{kind}")
            match step:
                case ChangeController():
                    self._change_controller(step)
                case StartDeployments():
                    self._run_controller(step, "starting-deployments")
                case EndDeployments():
                    self._run_controller(step, "ending-deployments")
                case Undeploy():
                    self._undeploy(step, lock)
                case ChangePackages():
                    with self._adapters.notifier.uninterrupted():
                        self._change_packages(step)
                case CheckOut():
                    self._check_out(step)
                case RemoveCheckout():
                    with self._adapters.notifier.uninterrupted():
                        self._adapters.checkouts.remove(step.package)
                case Deploy():
                    self._deploy(step, lock)
                case RemoveSoftware():
                    with self._adapters.notifier.uninterrupted():
                        self._remove_software(step)
            reach(f"after:{kind}")
        self._done += 1

    # The steps

    def _change_controller(self, step: ChangeController) -> None:
        transaction = self._adapters.packages.prepare(step.change)
        # What others put on the host (``packages = none``) is not ours to remove one day.
        ours = transaction.before.keys() | transaction.after.keys() | {*step.removed}
        self._adapters.files.add_managed({name: to for name, to in step.registered.items() if name in ours})
        reach("before:commit-controller")
        self._commit(step.change, transaction)
        reach("before:clear-controller")
        self._adapters.files.clear_software(step.removed, ())
        self._adapters.files.drop_managed(step.removed)

    def _run_controller(self, step: StartDeployments | EndDeployments, name: str) -> None:
        script = self._adapters.files.controller_script(step.controller.package, name)
        self._adapters.scripts.run([script, step.controller.path], name=title(step), revision=self._revision)

    def _undeploy(self, step: Undeploy, lock: ServiceLock | None) -> None:
        script = self._adapters.files.script(step.package) if step.script is None else step.script
        if lock is not None:
            lock.check_lease()
        self._run(step, script)
        reach("before:unmark")
        self._adapters.files.remove_marker(step.application, step.deployment, step.files)

    def _change_packages(self, step: ChangePackages) -> None:
        transaction = self._prepared.popleft()
        # What others put on the host (``packages = none``) is not ours to remove one day.
        coming = {
            name: application
            for name, application in step.applications.items()
            if name in transaction.after or name in step.change.remove
        }
        self._adapters.files.add_managed(coming)
        if step.originals and transaction.reversible:  # else nobody could put them back
            self._adapters.files.add_originals(step.originals)
        reach("before:commit")
        self._commit(step.change, transaction)
        if step.put_back:
            reach("before:drop-originals")
            self._adapters.files.drop_originals(step.put_back)

    def _commit(self, change: PackageChange, transaction: Transaction) -> None:
        """Commit a transaction; when it came too late, prepare the change anew, a few times."""
        for _ in range(_COMMITS - 1):
            try:
                return self._adapters.packages.commit(transaction)
            except PackageError as error:
                if error.changed or not error.retry_helps:
                    raise
                get_logger().warning("packages-prepared-anew", reason=str(error))
            transaction = self._adapters.packages.prepare(change)
        return self._adapters.packages.commit(transaction)

    def _check_out(self, step: CheckOut) -> None:
        def build(script: str, directory: str) -> None:
            reach("before:build")
            self._adapters.scripts.run(
                [script], name=f"build {step.package}", revision=self._revision, directory=directory
            )

        with self._adapters.notifier.uninterrupted():
            self._adapters.checkouts.install(step.package, build)
        reach("before:drop-replaced")
        self._adapters.files.drop_managed([step.package])

    def _deploy(self, step: Deploy, lock: ServiceLock | None) -> None:
        one = step.assignment
        self._adapters.files.make_application_directory(one.application)
        script = self._adapters.files.script(one.package)
        if lock is not None:
            lock.check_lease()
        self._run(step, script)
        reach("before:marker")
        self._adapters.files.write_marker(
            Marker(
                deployment=step.deployment,
                application=one.application,
                package=one.package,
                subtype=one.subtype,
                script=script,
                version=one.version,
                files=step.stale_files,
            )
        )

    def _remove_software(self, step: RemoveSoftware) -> None:
        if step.unregistered:
            self._adapters.files.add_managed(step.unregistered)
        if step.change:
            transaction = self._adapters.packages.prepare(step.change)
            reach("before:commit-removal")
            self._commit(step.change, transaction)
        reach("before:clear")
        self._adapters.files.clear_software(step.packages, step.applications)
        reach("before:drop")
        self._adapters.files.drop_managed(step.packages)

    def _run(self, step: Undeploy | Deploy, script: str) -> None:
        self._adapters.scripts.run([script, *step.arguments], name=title(step), revision=self._revision)


def _needs_lock(step: Step) -> bool:
    """Return whether a step is taken under the lock of a service, or of the role where that has a controller."""
    return isinstance(step, Deploy) or (isinstance(step, Undeploy) and step.locked)


def _joined(changes: Sequence[PackageChange]) -> PackageChange:
    """Return one change that reaches what these do one after the other."""
    return PackageChange(
        want={name: version for change in changes for name, version in change.want.items()},
        remove=frozenset().union(*(change.remove for change in changes)),
        managed=frozenset().union(*(change.managed for change in changes)),
        reinstall=frozenset().union(*(change.reinstall for change in changes)),
        preserve=frozenset().union(*(change.preserve for change in changes)),
    )
