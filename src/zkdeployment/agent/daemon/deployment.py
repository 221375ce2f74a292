"""One deployment of a host: the gate of its rollout, the supervision of its steps, and its recorded outcome.

The agent decides when a deployment starts; the executor runs its steps.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.agent.daemon.plans import HostPlan, read_plan
from zkdeployment.agent.files.run_directory import DeploymentAttempt
from zkdeployment.agent.rules.planner import is_settled
from zkdeployment.agent.rules.waiting import Recheck
from zkdeployment.agent.steps.executor import Executor
from zkdeployment.agent.steps.group_stops import GroupStoppedError, GroupStops
from zkdeployment.agent.steps.reboots import forget_abandoned_steps
from zkdeployment.base.cluster import INITIAL, Cluster, ClusterState, Mandate, Revision, held_reason
from zkdeployment.base.daemon.cycles import spread
from zkdeployment.base.daemon.failpoints import failpoints, reach
from zkdeployment.base.deployment import Deployment, DeploymentFailure
from zkdeployment.base.errors import (
    AwaitedServiceError,
    ConflictError,
    DuplicateError,
    HostFilesError,
    LockLostError,
    RestartError,
    ScriptError,
    ShutdownError,
    UnreachableError,
    UntrustedError,
)
from zkdeployment.base.host import WAITING_PREFIX
from zkdeployment.base.log import bound, get_logger
from zkdeployment.base.publication import DeploymentBasis, Published
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.store.reboots import expire_reboots
from zkdeployment.strategies.permission import Permission, Phase, RolloutPart

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from zkdeployment.agent.adapters import AgentAdapters
    from zkdeployment.agent.daemon.waits import AgentWaits
    from zkdeployment.agent.reporting.host_reporting import HostReporting
    from zkdeployment.agent.rules.lease import HostRole
    from zkdeployment.agent.store.service_locks import ZooKeeperServiceLock
    from zkdeployment.base.plan import Step


class RolloutGate:
    """Takes one host through the phases of one publication's rollout and reports finished phases.

    Call ``failure`` or ``confirm`` first: they read the host's permission. The beginning of the rollout wakes all
    hosts, so each host then waits for up to ``spread`` seconds. All methods wait until ZooKeeper answers.
    """

    def __init__(
        self, reporting: HostReporting, waits: AgentWaits, *, sequence: int, revision: Revision, spread: float
    ) -> None:
        self._adapters = reporting.adapters
        self._reporting = reporting
        self._waits = waits
        self._sequence = sequence
        self._revision = revision
        self._spread = spread
        self._permission = Permission()
        self._phase: Phase | None = None
        self.waited = 0.0

    @property
    def rollout(self) -> str:
        """The rollout that permitted this host's phase; empty before."""
        return self._permission.rollout or ""

    @property
    def part(self) -> RolloutPart | None:
        """The part of the rollout in which the host fails now; ``None`` if no rollout is under way."""
        return self._permission.part

    def failure(self) -> str | None:
        """Return why the rollout excludes this host, ``None`` if it does not; watch for another rollout."""
        self._read(self._waits.wake)
        if self._permission.is_excluded:
            self._hand_on_locks()
        return self._permission.failure

    def enter(self, phase: Phase, steps: int, check: Callable[[], None]) -> None:
        """Report the previous phase, if any, and wait for permission to begin ``phase``.

        Calls ``check`` after each pause and passes on its errors. Raises ``ConflictError`` if the rollout is over
        or excludes this host.
        """
        begun = self._adapters.clock.monotonic()
        if self._phase is not None:
            self._report(self._phase)
            self._read_same_rollout()
        if not self._permission.allows(phase):
            self._hand_on_locks()
        while not self._permission.allows(phase):
            if self._permission.failure is not None:
                raise ConflictError(self._permission.failure)
            self._pause(f"{WAITING_PREFIX}{phase.value}: {self._permission.obstacle}", steps)
            if self._permission.rollout is None:
                self._waits.wait_for_wake(spread(self._spread))
            check()
            self._read_same_rollout()
        self._reporting.deployment.restart_timer()
        self._phase = phase
        self.waited += self._adapters.clock.monotonic() - begun
        get_logger().info("phase-started", phase=phase.value, rollout=self.rollout)

    def check(self, changed: Callable[[], None] | None = None) -> None:
        """Raise ``ConflictError`` unless the rollout still permits the phase that the host has begun.

        ``changed`` (which must not block) is called once, when that may have changed.
        """
        rollout = self._permission.rollout
        self._read(changed)
        if self._permission.rollout != rollout or (self._phase and not self._permission.allows(self._phase)):
            raise ConflictError(
                f"rollout {rollout} does not permit this host to continue: {self._permission.obstacle}"
            )

    def confirm(self) -> None:
        """Report every permitted phase as finished, because the host is at the revision.

        A change of the grant wakes the agent while only the first phase is granted.
        """
        self._read()
        if self._permission.grant is not None and not self._permission.allows(Phase.DEPLOY):
            self._read(self._waits.wake)
        for phase in Phase:
            if self._permission.allows(phase):
                self._report(phase)

    def _hand_on_locks(self) -> None:
        """Release kept locks: the host may have to wait long for permission to continue its work under them."""
        self._reporting.hand_on_work()
        identity = self._reporting.host.identity
        if roles := self._reporting.retry_until_reachable(lambda: self._adapters.fleet.roles.hand_on(identity)):
            get_logger().warning("role-lock-handed-on", roles=roles)

    def _read_same_rollout(self) -> None:
        """Read the permission again; raise ``ConflictError`` if it belongs to another rollout than before."""
        rollout = self._permission.rollout
        self._read(self._waits.wake)
        if rollout not in {None, self._permission.rollout}:
            raise ConflictError(f"rollout {rollout} is over")

    def _read(self, changed: Callable[[], None] | None = None) -> None:
        identity, follows = self._reporting.host.identity, self._reporting.host.is_leasable
        self._permission = self._reporting.retry_until_reachable(
            lambda: self._adapters.fleet.permission(self._sequence, identity, changed, follows=follows)
        )

    def _report(self, phase: Phase) -> None:
        if phase not in self._permission.reports:
            with failpoints(f"report-{phase.value}"):
                self._reporting.failures.report_success(self.rollout, phase)

    def _pause(self, waiting: str, steps: int) -> None:
        """Show the reason of the wait, then wait for a change."""
        if waiting != self._reporting.host.step:
            get_logger().info("waiting-for-rollout", step=waiting)
        with contextlib.suppress(HostFilesError):  # the next step fails, too, and reports it
            self._reporting.deployment.show(self._revision, waiting, 0, steps)
        self._reporting.refresh()
        self._reporting.write_metrics()
        reach("at:gate")
        self._waits.wait_for_cycle()


class FailedError(Exception):
    """A failure that was already reported; the message is the failed step."""


#: Errors that end a deployment without a failure: its circumstances changed. A host that lost its id to another
#: host no longer belongs to the fleet.
_NO_FAILURES = (
    ConflictError,
    DuplicateError,
    FailedError,
    GroupStoppedError,
    LockLostError,
    RestartError,
    ShutdownError,
    UnreachableError,
)

#: Errors of a step that stop its group; the causes of other errors concern more than the group.
_OF_GROUP = (AwaitedServiceError, ScriptError)


class Supervision:
    """Permits, shows and reports the steps of one deployment of one revision.

    The deployment belongs to its ``mandate``, and ends when the host no longer has that.
    ``published`` is the last publication that was read before the deployment: it gives the deployment its
    ``sequence`` (0: the revision was set by hand) and the order between services. Without a ``gate`` no rollout
    delays the deployment, which is abandoned when a change of the cluster version makes the host need a grant;
    ``judged`` is the stamp of the version for which that was decided before. A deployment that waits at the gate
    is abandoned when ``disturbed`` returns true.
    ``changed`` is whether this deployment has begun to change the host. ``lease`` gives the host its role if it
    can be leased; the failures of such a host concern no other host. ``groups`` are the stops of groups.
    """

    def __init__(
        self,
        reporting: HostReporting,
        mandate: Mandate,
        gate: RolloutGate | None,
        *,
        published: Published,
        lease: HostRole,
        disturbed: Callable[[], bool],
    ) -> None:
        self._adapters = adapters = reporting.adapters
        self._reporting = reporting
        self._mandate = mandate
        self.revision = revision = mandate.revision
        is_published = published.revision == revision
        self.sequence = published.sequence if is_published else 0
        self._since = published.effective_since if is_published else 0
        self.basis = DeploymentBasis(revision, self.sequence, published.stamp, self._since)
        self.gate = gate
        self.lease = lease
        self._disturbed = disturbed
        self._recheck = Recheck(adapters.clock, lambda: adapters.session.id)
        self._stamp: int | None = None  # of the cluster version when it was last checked
        self._maintenance_stamp: int | None = None  # likewise
        self.groups = GroupStops(reporting)
        self.changed = False
        self.judged: int | None = None
        self._timer = AttemptTimer(adapters, revision, self.sequence)

    @property
    def seconds(self) -> float:
        """The duration of the attempt, without the waits for the rollout."""
        return self._timer.seconds - (0.0 if self.gate is None else self.gate.waited)

    def pause(self) -> None:
        """Count no time from now on, until the host continues with the publication."""
        self._timer.pause(self.seconds)

    def end(self) -> None:
        """End the attempt: another one of the same publication is measured alone."""
        self._timer.end()

    def enter(self, phase: Phase, steps: int = 0) -> None:
        """Report the previous phase, if any, and wait for permission to begin a phase.

        Raises as ``check`` does. ``steps`` is the number of steps of the plan, as far as it is known.
        """
        if self.gate is not None:
            self.gate.enter(phase, steps, self._check_waiting)

    def confirm(self) -> None:
        """Report to the rollout, if any, that this host is at the revision."""
        if self.gate is not None:
            self.gate.confirm()

    def plan(self) -> HostPlan:
        """Recover from interrupted changes; return the plan for this revision."""
        with self.reporting("plan"):
            self._reporting.deployment.show(self.revision, "plan", 0, 0)
            with failpoints("plan"):
                made = read_plan(
                    self._adapters,
                    self._reporting.host.identity,
                    self.revision,
                    sequence=self._since,
                    leasable=self.lease.is_leasable,
                    has_revision=self.has_revision,
                )
                self.groups.begin(made.plan)
                return made

    def begin_changes(self) -> bool:
        """Record that the host no longer has a version, before the first change of the deployment.

        Returns whether this call recorded that. A host that only changes its role keeps its version; instead its
        lease counts as not reached meanwhile.
        """
        if self.changed:
            return False
        if self.is_role_change:
            self.changed = True
            return False
        with failpoints("give-up-version"):
            self._reporting.deployment.give_up_version()
            self.changed = True
        if not self._mandate.is_drain:
            self._timer.keep(self.seconds)
        return True

    def check(self, *, midway: bool = False) -> None:
        """Raise ``ConflictError`` unless the revision is still wanted, ``ShutdownError`` if the agent has to end.

        ``midway`` is whether the caller is between two actions that belong together; a stopped or held fleet and
        the rollout do not interrupt these. Waits until ZooKeeper answers; the host is registered afterwards.
        """
        self._check_cluster(midway=midway)
        if not midway:
            self.lease.check()
        if self.gate is not None and not midway:
            self.gate.check()

    def check_waiting(self) -> None:
        """Check as ``check`` does, for a waiting host: ask ZooKeeper only if something may have changed.

        A host that has waited long also reports hosts that did not come back from their reboots in time.
        """
        self._reporting.control.check()
        if not (self._recheck.is_due or self.lease.is_outdated):
            return
        if self._recheck.is_late:
            self._reporting.retry_until_reachable(
                lambda: expire_reboots(self._adapters.session, self._adapters.clock.now())
            )
        changed = self._recheck.begin()
        self._check_cluster(changed)
        self.lease.check()
        if self.gate is not None:
            self.gate.check(changed)

    def await_end(self, seconds: float) -> None:
        """Wait until this process is asked to end, at most for some seconds; raises ``ShutdownError`` then."""
        self._reporting.control.check()
        self._adapters.notifier.watchdog()
        self._reporting.control.wait(min(seconds, self._adapters.notifier.pace))
        self._reporting.control.check()

    def retry_midway(self, call: Callable[[], None], event: str, **facts: str) -> None:
        """Repeat a call, between two actions that belong together, until ZooKeeper answers.

        Each failed attempt is logged as ``event``. The check during the wait may end it, as ``check`` does.
        """
        while True:
            try:
                return call()
            except UnreachableError as error:
                get_logger().warning(event, **facts, reason=str(error))
                self.check(midway=True)

    def begin_locked(self, step: Step, lock: ZooKeeperServiceLock) -> None:
        """Check as ``check`` does, begin the changes, and record a step under the lock of its service.

        The transaction that records it fails if the cluster version was written since the check. Therefore, if no
        other condition applies to the step, ZooKeeper is asked only if the cluster version may have changed.
        """
        check = self.check_waiting if self.gate is None and not self.lease.is_leasable else self.check
        check()
        if self.begin_changes():
            check()  # the record of the first change took time
        try:
            self._begin(step, lock)
        except ConflictError:
            self.check()
            self._begin(step, lock)

    def _begin(self, step: Step, lock: ZooKeeperServiceLock) -> None:
        # The nodes are read after the stamps: what was written between the two fails the transaction.
        lock.begin(step.title, self._stamp, self._maintenance_stamp, self.conditions(step))

    def conditions(self, step: Step) -> Mapping[str, int]:  # noqa: ARG002  the steps of a drain have some
        """Return the data versions of further nodes that must not change before the step begins, by path."""
        return {}

    def hand_on_work(self, pending: Collection[Deployment] = ()) -> None:
        """Release the locks that are kept for this host, except those of the services of ``pending``."""
        self._reporting.hand_on_work(pending)

    def show(self, step: str, done: int, total: int) -> bool:
        """Show the current step and return whether it differs from the step before."""
        with self.reporting(step):
            changed = self._reporting.deployment.show(self.revision, step, done, total)
        self._adapters.scripts.cap_outputs()
        return changed

    @contextlib.contextmanager
    def reporting(
        self,
        step: str,
        *,
        deployment: Deployment | None = None,
        packages: Collection[str] = (),
        group: str | None = None,
    ) -> Iterator[None]:
        """Report failures of the block to the fleet before enclosing blocks release their locks.

        ``deployment`` or ``packages`` are what the step works on. A failure stops only ``group`` if it can concern
        that group alone, and only this host if it can be leased; a rollout may tolerate it; otherwise it stops the
        fleet.
        """
        with bound(step=step):
            try:
                yield
            except _NO_FAILURES:
                raise
            except Exception as error:  # a defect of this program must not spread over the fleet
                is_untrusted = isinstance(error, UntrustedError)  # this concerns all hosts
                part = None if self.gate is None or is_untrusted else self.gate.part
                path, number = (None, None) if deployment is None else (deployment.path, deployment.number)
                failed = DeploymentFailure(self.sequence, step, path, number, frozenset(packages))
                if group is not None and not self.lease.is_leasable and isinstance(error, _OF_GROUP):
                    self.groups.fail(self.revision, failed, group, error)
                    raise GroupStoppedError(step) from error
                if part is None and self.lease.is_leasable and not is_untrusted:
                    self._reporting.failures.fail_alone(self.revision, failed, error)
                else:
                    retried = self._mandate.is_retry and not is_untrusted
                    self._reporting.failures.fail(self.revision, failed, error, part, retried=retried)
                raise FailedError(step) from error

    @property
    def has_revision(self) -> bool:
        """Whether the host has the revision completely from an earlier publication, and keeps its role."""
        host = self._reporting.host
        return self.lease.is_reached and host.version == self.revision and not host.lacking

    @property
    def is_role_change(self) -> bool:
        """Whether the host has the revision, and only changes its role."""
        return not self.lease.is_reached and self._reporting.host.version == self.revision

    def _check_waiting(self) -> None:
        self._check_cluster()
        self.lease.check()
        if self._disturbed():
            raise ConflictError("the configuration or the program changed; the host waits again with the new one")

    def _check_cluster(self, changed: Callable[[], None] | None = None, *, midway: bool = False) -> None:
        self._reporting.control.check()
        cluster = self._reporting.read_cluster(changed)
        self._reporting.refresh_session()
        mandate = self._reporting.mandate(cluster)
        if cluster is None or mandate != self._mandate:
            if midway and cluster is not None and self._may_finish(cluster):
                self.groups.read()  # the stop of a group also withholds what a stopped fleet completes
                return
            if cluster is not None and self._reporting.host.identity.id in cluster.maintenance:
                raise ConflictError(held_reason(cluster, self._reporting.host.identity.id))
            now = "missing" if cluster is None else f"{cluster.version} ({cluster.state.value})"
            raise ConflictError(f"the cluster version changed: expected {self._mandate}, found {now}")
        if cluster.stamp != self._stamp:
            self.groups.read()
            if midway:
                return  # the change stays unread for the next check before other steps
            if self.gate is None and cluster.stamp != self.judged:
                self._check_ungranted(cluster)
        self._stamp, self._maintenance_stamp = cluster.stamp, cluster.maintenance_stamp

    def _check_ungranted(self, cluster: Cluster) -> None:
        """Raise ``ConflictError`` if a deployment that began without a grant needs one now."""
        # Read after the cluster version, so that the version never lacks its strategy. A host with publishers
        # verifies the publication when it begins again.
        published = self._reporting.retry_until_reachable(self._adapters.fleet.published)
        follows_lease = not self.lease.is_reached
        if self._reporting.needs_grant(self._mandate, cluster, published, follows_lease=follows_lease):
            raise ConflictError(
                f"{self.revision} was published with a rollout: the host continues with a grant of publication"
                f" {published.effective_since}"
            )

    def _may_finish(self, cluster: Cluster) -> bool:
        """Whether actions that belong together are completed, although the host has another mandate or none."""
        is_halted = cluster.state in {ClusterState.STOPPED, ClusterState.HELD}
        return is_halted or cluster.revision == self.revision


class AttemptTimer:
    """Measures an attempt of a host to deploy a publication, also across restarts of the agent and of the host.

    Once an attempt has changed the host, its begin is on the disk. A file that cannot be written is logged: the
    duration is then that of this agent's part alone.
    """

    def __init__(self, adapters: AgentAdapters, revision: Revision, sequence: int) -> None:
        self._file, self._clock = adapters.run.attempt, adapters.clock
        self._revision, self._sequence = revision, sequence
        found = self._file.load()
        is_same = found is not None and (found.revision, found.sequence) == (revision, sequence)
        self._earlier = found.seconds(self._clock.now()) if found is not None and is_same else 0.0
        self._is_kept = is_same
        self._begun = self._clock.monotonic()

    @property
    def seconds(self) -> float:
        """The duration until now, with that under earlier agents."""
        return self._earlier + self._clock.monotonic() - self._begun

    def keep(self, seconds: float) -> None:
        """Record that the attempt changes the host, and has taken ``seconds`` until now."""
        self._is_kept = True
        attempt = DeploymentAttempt(self._revision, self._sequence, self._clock.now() - seconds)
        self._write(lambda: self._file.save(attempt))

    def pause(self, seconds: float) -> None:
        """Record that the attempt took ``seconds``, and that no time counts before the host continues."""
        now = self._clock.now()
        attempt = DeploymentAttempt(self._revision, self._sequence, now - seconds, now)
        if self._is_kept:
            self._write(lambda: self._file.save(attempt))

    def end(self) -> None:
        """Forget the attempt."""
        self._is_kept = False
        self._write(self._file.clear)

    def _write(self, write: Callable[[], None]) -> None:
        try:
            write()
        except HostFilesError as error:
            get_logger().warning("attempt-not-recorded", reason=str(error))


@dataclass(frozen=True)
class HostCommands:
    """The commands of a host's configuration: after a deployment, and after a failure. Empty: none."""

    after: Sequence[str] = ()
    after_failure: Sequence[str] = ()


class DeploymentRun:
    """Deploys the revision of one supervision.

    ``commands`` are those to run after the steps or after a failure.
    """

    def __init__(self, reporting: HostReporting, supervision: Supervision, *, commands: HostCommands) -> None:
        self._adapters = reporting.adapters
        self._reporting = reporting
        self._supervision = supervision
        self._commands = commands
        self._is_role_change = supervision.is_role_change

    def run(self) -> bool:
        """Deploy the revision and return whether that succeeded; after ``False``, the failure has been reported.

        Raises ``ConflictError`` or ``UnreachableError`` if the deployment was abandoned.
        """
        get_logger().info("deployment-started", had=self._reporting.host.version)
        self._reporting.deployment.begin(self._supervision.revision)
        try:
            if self._supervision.revision != INITIAL:  # before the first publication there is nothing to do
                self._execute()
            with failpoints("record"):
                self._record_success()
            self._supervision.confirm()
        except FailedError as failed:
            self._reporting.hand_on_work()
            self._reporting.inventory.publish()
            self._record_result(f"{failed}: {self._reporting.host.error}", self._reporting.host.failed)
            self._run_after_failure(str(failed), self._reporting.host.error or "")
            return False
        except (ConflictError, UnreachableError):
            self._supervision.pause()
            self._reporting.deployment.abandon()
            raise
        get_logger().info("deployment-succeeded")
        if (failure := self._supervision.groups.failure) is not None:
            failed_step, reason = failure
            self._run_after_failure(failed_step.step, reason)
        return True

    def _execute(self) -> None:
        if self._supervision.has_revision and is_settled(self._supervision.plan().plan):
            return  # the publication changed nothing for this host, which therefore needs no permission
        if self._reporting.host.version == self._supervision.revision and not self._is_role_change:
            with self._supervision.reporting("plan"):
                self._supervision.begin_changes()  # so that the host does not count as converged
        self._supervision.enter(Phase.PREPARE)
        host_plan = self._supervision.plan()
        plan = host_plan.plan
        forget_abandoned_steps(self._reporting, plan, self._supervision.basis)
        executor = Executor(self._adapters, self._reporting.host.identity, self._supervision, host_plan)
        try:
            executor.prepare(rehearse=self._supervision.gate is not None)
            self._supervision.enter(Phase.DEPLOY, len(plan.steps))
            executor.execute()
        except ConflictError as conflict:
            get_logger().warning("deployment-abandoned", reason=str(conflict))
            if self._supervision.changed:
                self._reporting.inventory.publish()
                mandate = self._reporting.mandate(self._reporting.read_cluster())
                if mandate is None or mandate.is_drain:
                    self._run_after(len(plan.steps))
            raise
        if plan.steps:
            self._reporting.inventory.publish()  # before the host counts as done, so that later plans are exact
        self._run_after(len(plan.steps))

    def _run_after(self, steps: int) -> None:
        if not self._commands.after:
            return
        self._supervision.show("after", steps, steps)
        with failpoints("after"), self._supervision.reporting("after"):
            # After a failed command the host has no version, even if there was no other step.
            self._supervision.begin_changes()
            self._adapters.scripts.run(self._commands.after, name="after", revision=self._supervision.revision)

    def _run_after_failure(self, step: str, error: str) -> None:
        """Run the command for failures; its result changes nothing about the failed step, which was reported."""
        if not self._commands.after_failure:
            return
        facts = {"ZKDEPLOYMENT_STEP": step, "ZKDEPLOYMENT_ERROR": error}
        try:
            self._adapters.scripts.run(
                self._commands.after_failure,
                name="after-failure",
                revision=self._supervision.revision,
                facts=facts,
            )
        except ScriptError as problem:
            get_logger().error("after-failure-failed", reason=str(problem))

    def _record_success(self) -> None:
        failure = self._supervision.groups.failure
        if failure is None:
            self._record_result()
        else:
            failed, reason = failure
            self._record_result(f"{failed.step}: {reason}", failed)
        with self._supervision.reporting("record the version"):
            self._reporting.deployment.succeed(
                self._supervision.revision, self._supervision.sequence, self._supervision.groups.lacking
            )
            self._supervision.lease.reach()

    def _record_result(self, error: str | None = None, failed: DeploymentFailure | None = None) -> None:
        if self._is_role_change:
            return  # the history has only publications
        seconds = self._supervision.seconds
        self._supervision.end()
        self._reporting.inventory.record_result(self._supervision.revision, seconds, error, failed)
