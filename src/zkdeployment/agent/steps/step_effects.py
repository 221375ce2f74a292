"""The effects of each kind of step on the host: packages, checkouts, scripts, markers, registries.

Order, locks, progress and reports of failures belong to other modules. Every action is repeatable: after a crash
at any failpoint, the next plan completes the action.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, assert_never

from zkdeployment.agent.rules.rebooting import reboot_reasons
from zkdeployment.agent.rules.system import must_reboot
from zkdeployment.agent.rules.undeploying import installed_packages
from zkdeployment.base.daemon.failpoints import failpoints
from zkdeployment.base.deployment import REBOOT_STATUS, Deployment, Rerun
from zkdeployment.base.errors import (
    DeniedError,
    HostFilesError,
    PackageError,
    RestartError,
    ScriptError,
    UnreachableError,
)
from zkdeployment.base.inventory import Marker, Packages
from zkdeployment.base.log import get_logger
from zkdeployment.base.packages import packages_to_register
from zkdeployment.base.plan import (
    ChangeController,
    ChangePackages,
    CheckOut,
    Deploy,
    EndDeployments,
    PackageChange,
    Reboot,
    RemoveCheckout,
    RemoveSoftware,
    StartDeployments,
    Step,
    Undeploy,
    UpdateSystem,
)
from zkdeployment.base.system import REBOOT_TIMEOUT, SystemChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zkdeployment.agent.adapters import AgentAdapters, Transaction
    from zkdeployment.agent.steps.reboots import HostReboots
    from zkdeployment.agent.store.service_locks import ZooKeeperServiceLock
    from zkdeployment.base.host import Identity
    from zkdeployment.base.publication import DeploymentBasis

_COMMITS = 4  # attempts at one package change, each prepared anew


class StepEffects:
    """Applies steps to this host for the publication of ``basis``; raises the errors of the adapters.

    ``identity`` is that of the host, which scripts get and markers record. ``unrecorded`` are the markers, without
    their records, of deployments that run again or end: the records are removed before the scripts or the software
    change.
    """

    def __init__(
        self,
        adapters: AgentAdapters,
        basis: DeploymentBasis,
        identity: Identity,
        reboots: HostReboots,
        unrecorded: Iterable[Marker] = (),
    ) -> None:
        self._adapters = adapters
        self._basis = basis
        self._identity = identity
        self._unrecorded = list(unrecorded)
        self._installed: Packages | None = None
        self._reboots = reboots
        self._prepared: deque[Transaction] = deque()
        self._prepared_update: Transaction | None = None

    def prepare_packages(self, change: PackageChange) -> None:
        """Prepare the transaction of the next ``ChangePackages`` step that has none yet."""
        with self._adapters.notifier.uninterrupted():
            self._prepared.append(self._adapters.packages.prepare(change))

    def prepare_update(self, change: SystemChange) -> None:
        """Prepare the transaction of the ``UpdateSystem`` step."""
        with self._adapters.notifier.uninterrupted():
            self._prepared_update = self._adapters.packages.prepare_system(change)

    def discard_prepared(self) -> None:
        """Forget the prepared transactions."""
        self._prepared.clear()

    def fetch(self, step: CheckOut) -> None:
        """Fetch a checkout into the staging directory."""
        with self._adapters.notifier.uninterrupted():
            self._adapters.checkouts.prepare(step.package, step.version, replaces=step.replaces)

    def apply(self, step: Step, lock: ZooKeeperServiceLock | None) -> None:
        """Apply one step.

        Raises ``LockLostError``, before a script runs, if the lease of ``lock`` may be over.
        """
        match step:
            case ChangeController():
                self._change_controller(step)
            case StartDeployments() | EndDeployments():
                self._run_controller(step)
            case Undeploy():
                self._undeploy(step, lock)
            case ChangePackages():
                self._change_packages(step)
            case UpdateSystem() | Reboot():
                self._change_system(step, lock)
            case CheckOut():
                self._check_out(step)
            case RemoveCheckout():
                with self._adapters.notifier.uninterrupted():
                    self._adapters.checkouts.remove(step.package)
            case Deploy():
                self._deploy(step, lock)
            case RemoveSoftware():
                self._remove_software(step)
            case _:
                assert_never(step)

    def _change_controller(self, step: ChangeController) -> None:
        with self._adapters.notifier.uninterrupted():
            transaction = self._prepare(step.change)
            managed = packages_to_register(step.registered, transaction.after, step.removed)
            self._adapters.files.managed.add(managed)
            with failpoints("commit-controller"):
                self._commit(partial(self._prepare, step.change), transaction)
            with failpoints("clear-controller"):
                self._adapters.files.clear_software(step.removed, ())
            self._adapters.files.managed.remove(step.removed)

    def _run_controller(self, step: StartDeployments | EndDeployments) -> None:
        script = self._adapters.files.scripts.executable_controller_script(step.controller.package, step.kind)
        if isinstance(step, StartDeployments):
            with failpoints("record-start"):
                self._adapters.files.record_start(step.controller.path)
        self._run(step, script)
        if isinstance(step, EndDeployments):
            with failpoints("record-end"):
                self._adapters.files.record_end()

    def _undeploy(self, step: Undeploy, lock: ZooKeeperServiceLock | None) -> None:
        script = self._adapters.files.scripts.executable_deploy_script(step.package)
        self._end_records_of(step.deployment)
        self._run(step, script, lock)
        with failpoints("unmark"):
            self._adapters.files.markers.remove(step.application, step.deployment, step.files)

    def _change_packages(self, step: ChangePackages) -> None:
        self._end_records(self._unrecorded)
        self._installed = None
        with self._adapters.notifier.uninterrupted():
            # After an update of the system nothing is prepared.
            transaction = self._prepared.popleft() if self._prepared else self._prepare(step.change)
            managed = packages_to_register(step.applications, transaction.after, step.change.remove)
            self._adapters.files.managed.add(managed)
            if step.originals and transaction.reversible:  # else the recorded versions could not be restored
                self._adapters.files.originals.add(step.originals)
            with failpoints("commit"):
                self._commit(partial(self._prepare, step.change), transaction)
            if step.put_back:
                with failpoints("drop-originals"):
                    self._adapters.files.originals.remove(step.put_back)

    def _prepare(self, change: PackageChange) -> Transaction:
        return self._adapters.packages.prepare(change)

    def _commit(self, prepare: Callable[[], Transaction], transaction: Transaction) -> None:
        """Commit a transaction; prepare it anew, a few times, if it is outdated."""
        for _ in range(_COMMITS - 1):
            try:
                return self._adapters.packages.commit(transaction)
            except PackageError as error:
                if error.changed or not error.retry_helps:
                    raise
                get_logger().warning("packages-prepared-anew", reason=str(error))
            transaction = prepare()
        return self._adapters.packages.commit(transaction)

    def _change_system(self, step: UpdateSystem | Reboot, lock: ZooKeeperServiceLock | None) -> None:
        if isinstance(step, UpdateSystem):
            self._update_system(step)
        else:
            self._reboot(step, lock)

    def _update_system(self, step: UpdateSystem) -> None:
        """Update the packages of the system, and record that.

        A crash between the transaction and its record repeats an update that then finds nothing to do. The record
        of the begin repeats it also if the host is to have its former release again. The recorded versions of
        packages from before the update end first, so that no later plan brings them back.
        """
        prepare = partial(self._adapters.packages.prepare_system, step.change)
        system = self._adapters.system
        self._installed = None
        before = system.state()
        with failpoints("begin-update"):
            system.save(replace(before, is_updating=True))
        with self._adapters.notifier.uninterrupted():
            try:
                transaction = self._prepared_update or prepare()
                self._prepared_update = None
                with failpoints("commit-system"):
                    self._commit(prepare, transaction)
            except PackageError as error:
                with suppress(HostFilesError):
                    system.save(replace(system.state(), is_updating=error.changed or before.is_updating))
                raise
            # A release does not change, so the number stays right until the next update.
            advisories = self._adapters.packages.missing_advisories(step.system.release)
            exceptions = self._adapters.packages.update_exceptions(step.change)
        now = self._adapters.clock.now()
        if step.outdated:
            with failpoints("drop-outdated"):
                self._adapters.files.originals.remove(step.outdated)
        self._reboots.end_pending(step.deployment)
        with failpoints("record-update"):
            system.save(system.state().after_update(step.system, now, advisories, exceptions))

    def _reboot(self, step: Reboot, lock: ZooKeeperServiceLock | None) -> None:
        """Reboot if that is still needed; otherwise record that the system node is complete."""
        system = self._adapters.system
        reasons = reboot_reasons(system.facts(self._adapters.packages)) if step.is_conditional else ()
        if must_reboot(step.system, system.state(), reasons, may_reboot=system.may_reboot):
            get_logger().info("reboot-needed", reasons=reasons)
            self._reboots.reboot(step, step.system.timeout, lock)
        self._reboots.end_pending(step.deployment)
        with failpoints("settle-system"):
            system.save(system.state().settled(step.system))

    def _check_out(self, step: CheckOut) -> None:
        def build(script: str, directory: str) -> None:
            with failpoints("build"):
                self._adapters.scripts.run(
                    [script], name=f"build {step.package}", revision=self._basis.revision, directory=directory
                )

        self._end_records(self._unrecorded)
        with self._adapters.notifier.uninterrupted():
            self._adapters.checkouts.install(step.package, build)
        with failpoints("drop-replaced"):
            self._adapters.files.managed.remove([step.package])

    def _deploy(self, step: Deploy, lock: ZooKeeperServiceLock | None) -> None:
        assignment = step.assignment
        self._adapters.files.make_application_directory(assignment.application)
        script = self._adapters.files.scripts.executable_deploy_script(assignment.package)
        is_recorded = assignment.rerun is Rerun.CHANGED
        packages = installed_packages(assignment, self._packages()) if is_recorded else ()
        self._end_records_of(step.deployment)
        self._run_or_reboot(step, script, lock)
        is_recorded = is_recorded and self._has_read_what_was_planned()
        marker = Marker(
            deployment=step.deployment,
            application=assignment.application,
            package=assignment.package,
            subtype=assignment.subtype,
            script=script,
            version=assignment.version,
            files=step.stale_files,
            sequence=self._basis.sequence or None,
            properties=assignment.properties if is_recorded else None,
            packages=packages if is_recorded else (),
            identity=self._identity if is_recorded else None,
            group=assignment.group,
        )
        with failpoints("marker"):
            self._adapters.files.markers.write(marker)

    def _run_or_reboot(self, step: Deploy, script: str, lock: ZooKeeperServiceLock | None) -> None:
        """Run a deploy script; reboot if the script asks for that and its service node permits it."""
        if not step.assignment.reboot_allowed:
            self._run(step, script, lock)
            return
        facts = {"ZKDEPLOYMENT_REBOOTS": str(self._reboots.boots(step.deployment))}
        try:
            self._run(step, script, lock, facts)
        except ScriptError as error:
            if error.status != REBOOT_STATUS:
                raise
            self._reboots.reboot(step, REBOOT_TIMEOUT, lock)
        self._reboots.complete(step.deployment)

    def _has_read_what_was_planned(self) -> bool:
        """Return whether a script that has just ended read the properties of the plan, as far as known.

        Verified properties are in a file that no publication changes.
        """
        if self._adapters.trusted is not None:
            return True
        try:
            return self._adapters.fleet.is_current(self._identity, self._basis.revision, self._basis.stamp)
        except (DeniedError, RestartError, UnreachableError):
            return False

    def _packages(self) -> Packages:
        """Return the installed packages, read once after each transaction."""
        if self._installed is None:
            self._installed = self._adapters.packages.installed()
        return self._installed

    def _end_records_of(self, deployment: Deployment) -> None:
        """Remove the records of a deployment, including those of its former application."""
        self._end_records([marker for marker in self._unrecorded if marker.deployment == deployment])

    def _end_records(self, markers: Iterable[Marker]) -> None:
        """Write markers without their records, unless that is done: an interrupted deployment has to run again."""
        for marker in tuple(markers):
            with failpoints("end-record"):
                self._adapters.files.markers.write(marker)
            self._unrecorded.remove(marker)

    def _remove_software(self, step: RemoveSoftware) -> None:
        with self._adapters.notifier.uninterrupted():
            if step.unregistered:
                self._adapters.files.managed.add(step.unregistered)
            if step.change:
                transaction = self._prepare(step.change)
                with failpoints("commit-removal"):
                    self._commit(partial(self._prepare, step.change), transaction)
            with failpoints("clear"):
                self._adapters.files.clear_software(step.packages, step.applications)
            with failpoints("drop"):
                self._adapters.files.managed.remove(step.packages)

    def _run(
        self,
        step: Undeploy | Deploy | StartDeployments | EndDeployments,
        script: str,
        lock: ZooKeeperServiceLock | None = None,
        further: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Run a script with ``further`` variables; check the lease of ``lock`` last: all else takes time."""
        if isinstance(step, Undeploy | Deploy):
            path, facts = step.deployment.path, {"ZKDEPLOYMENT_DEPLOYMENT": str(step.deployment)}
        else:
            path, facts = step.controller.path, {}
        if self._adapters.trusted is not None:
            facts["ZKDEPLOYMENT_PROPERTIES"] = self._adapters.trusted.properties_file(path)
        self._adapters.scripts.run(
            [script, *step.arguments],
            name=step.title,
            revision=self._basis.revision,
            facts={**facts, **further},
            last_check=(lambda: None) if lock is None else lock.check_lease,
        )
