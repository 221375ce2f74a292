"""The host agent: a loop that brings its host to the cluster version, and the cycles of that loop.

Each cycle reads the cluster version from ZooKeeper and acts on it; a watch only wakes the loop. One deployment
belongs to ``deployment``.
"""

from __future__ import annotations

import contextlib
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.agent.daemon.deployment import DeploymentRun, HostCommands, RolloutGate, Supervision
from zkdeployment.agent.daemon.draining import DrainSupervision, drain_host, refuse_drain
from zkdeployment.agent.daemon.waits import AgentWaits
from zkdeployment.agent.reporting.failures import reason
from zkdeployment.agent.reporting.host_reporting import RefusalCause
from zkdeployment.agent.rules.lease import LEASE_ERRORS, HostRole
from zkdeployment.agent.steps.reboots import note_boot, withdraw_reboot
from zkdeployment.base.cluster import Cluster, ClusterState, Mandate, Revision, held_reason
from zkdeployment.base.daemon.cycles import Backoff, spread
from zkdeployment.base.daemon.failpoints import failpoints
from zkdeployment.base.deployment import DeploymentFailure
from zkdeployment.base.errors import (
    ConflictError,
    DeniedError,
    DuplicateError,
    HostFilesError,
    RestartError,
    ShutdownError,
    StalePublicationError,
    TreeError,
    UnreachableError,
    UntrustedError,
)
from zkdeployment.base.log import bound, get_logger
from zkdeployment.base.publication import Published
from zkdeployment.publishing.watermark import Watermark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from zkdeployment.agent.daemon.trusted_publications import TrustedPublications
    from zkdeployment.agent.reporting.host_reporting import HostReporting
    from zkdeployment.config.settings import Settings


class CycleState(Enum):
    """The states of a cycle. A cycle begins in ``READING``; the states after ``DEPLOYING`` are its outcomes."""

    READING = "read, plan"
    DEPLOYING = "execute"
    DONE = "done"  # the host is at the cluster version
    HELD = "held"  # nothing may start
    FAILED = "failed"  # the fleet was stopped, or the rollout continues without this host
    MOVED = "moved"  # the cycle was interrupted: read again at once


class CycleEvent(Enum):
    """The events of a cycle; each value is the cause as the manual names it."""

    CLUSTER_CLOSED = "the cluster is stopped, held or importing"
    HOST_IN_MAINTENANCE = "an operator put the host into maintenance"
    DRAIN_WANTED = "the host in maintenance undeploys the services that other hosts have"
    PUBLICATION_LOST = "ZooKeeper lost a publication that this host knows"
    PUBLICATION_UNTRUSTED = "no publisher signed what ZooKeeper holds: the fleet stops"
    VERSION_PRESENT = "the host already has the cluster version"
    ONLY_DOCUMENTS_CHANGED = "only documents changed since the host's version; the new one is recorded"
    HOST_EXCLUDED = "the host failed before in this rollout, which continues without it"
    VERSION_WANTED = "the host has another version or publication; with a strategy, it waits for its phase"
    INTERRUPTED = "ZooKeeper is unreachable, nodes changed, or a reload or an upgrade is due"
    DEFECT_MET = "an unexpected error; the agent tries again later"
    STEPS_SUCCEEDED = "every step succeeded; the version is recorded"
    STEP_FAILED = "a step failed: the fleet stops, or the host's group is judged"


#: The state after an event in a state; a cycle ends in a state without events.
CYCLE_TRANSITIONS: Mapping[tuple[CycleState, CycleEvent], CycleState] = {
    (CycleState.READING, CycleEvent.CLUSTER_CLOSED): CycleState.HELD,
    (CycleState.READING, CycleEvent.HOST_IN_MAINTENANCE): CycleState.HELD,
    (CycleState.READING, CycleEvent.DRAIN_WANTED): CycleState.DEPLOYING,
    (CycleState.READING, CycleEvent.PUBLICATION_LOST): CycleState.HELD,
    (CycleState.READING, CycleEvent.PUBLICATION_UNTRUSTED): CycleState.FAILED,
    (CycleState.READING, CycleEvent.VERSION_PRESENT): CycleState.DONE,
    (CycleState.READING, CycleEvent.ONLY_DOCUMENTS_CHANGED): CycleState.DONE,
    (CycleState.READING, CycleEvent.HOST_EXCLUDED): CycleState.FAILED,
    (CycleState.READING, CycleEvent.VERSION_WANTED): CycleState.DEPLOYING,
    (CycleState.READING, CycleEvent.INTERRUPTED): CycleState.MOVED,
    (CycleState.READING, CycleEvent.DEFECT_MET): CycleState.FAILED,
    (CycleState.DEPLOYING, CycleEvent.STEPS_SUCCEEDED): CycleState.DONE,
    (CycleState.DEPLOYING, CycleEvent.HOST_IN_MAINTENANCE): CycleState.HELD,
    (CycleState.DEPLOYING, CycleEvent.STEP_FAILED): CycleState.FAILED,
    (CycleState.DEPLOYING, CycleEvent.INTERRUPTED): CycleState.MOVED,
    (CycleState.DEPLOYING, CycleEvent.DEFECT_MET): CycleState.FAILED,
}


#: The step that a host's failure names if the host does not trust a publication.
VERIFICATION = "verify the publication"


class PublicationReader:
    """Reads the last publication and remembers it before the host changes anything.

    A host with publishers accepts only a publication that one of them signed.
    """

    def __init__(self, reporting: HostReporting) -> None:
        self._adapters = reporting.adapters
        self._reporting = reporting
        self._watermark = Watermark(reporting.adapters.run.published)

    def read(self, mandate: Mandate | None) -> Published | CycleEvent:
        """Return the last publication, or the event that ends the cycle if the host must not act on it.

        The cause of such an event has been reported already. Raises ``StalePublicationError`` if ZooKeeper has
        lost a publication that this host knows.
        """
        if self._adapters.trusted is None:
            published = self._reporting.retry_until_reachable(self._adapters.fleet.published)
            self._watermark.check(published)
            self._watermark.note(published)
        elif mandate is None:
            return Published()  # nothing may start
        else:
            verified = self._read_trusted(self._adapters.trusted, mandate.revision)
            if isinstance(verified, CycleEvent):
                return verified
            published = verified
        self._reporting.deployment.clear_refusal(RefusalCause.PUBLICATION)
        return published

    def _read_trusted(self, trusted: TrustedPublications, revision: Revision) -> Published | CycleEvent:
        """Return the signed publication; stop the fleet if no publisher signed the content of ZooKeeper."""
        identity = self._reporting.host.identity
        try:
            published = self._reporting.retry_until_reachable(lambda: trusted.published(identity, revision))
            with failpoints("remember-publication"):
                trusted.remember(published)
        except UntrustedError as error:
            self._reporting.failures.fail(revision, DeploymentFailure(0, VERIFICATION), error)
            return CycleEvent.PUBLICATION_UNTRUSTED
        except HostFilesError as error:
            self._reporting.deployment.refuse(reason(error), RefusalCause.PUBLICATION)
            return CycleEvent.DEFECT_MET
        return published


#: The events of cycles in which a running host has nothing to do.
_IDLE = frozenset({CycleEvent.VERSION_PRESENT, CycleEvent.HOST_EXCLUDED})

#: The events of cycles after which the host has the revision.
_REACHED = frozenset({CycleEvent.VERSION_PRESENT, CycleEvent.ONLY_DOCUMENTS_CHANGED, CycleEvent.STEPS_SUCCEEDED})


class AgentCycle:
    """Runs the cycles of one host's agent, one at a time.

    ``commands`` run after a deployment. ``is_disturbed`` returns whether a waiting deployment has to be abandoned.
    ``start_spread`` is the number of seconds over which the hosts begin after a change, as last read from
    ``/hosts``. ``lease`` gives the host its role if the host can be leased. ``maintenance_end`` is when the
    maintenance in which the last cycle found the host ends by itself, in seconds since the epoch.
    """

    def __init__(
        self,
        reporting: HostReporting,
        waits: AgentWaits,
        *,
        commands: HostCommands,
        lease: HostRole,
        is_disturbed: Callable[[], bool],
    ) -> None:
        self._adapters = reporting.adapters
        self._reporting = reporting
        self._waits = waits
        self._commands = commands
        self._is_disturbed = is_disturbed
        self.lease = lease
        self._publications = PublicationReader(reporting)
        self._held: str | None = None
        self._may_be_queued = True  # by an earlier process of this host
        self._has_noted_boot = False
        self._state = CycleState.READING
        self.start_spread = 0.0
        self._stamp: int | None = None  # of the cluster version of this cycle
        self.maintenance_end: float | None = None

    def run(self) -> CycleState:
        """Run one reconciliation cycle for the current cluster version and return its outcome."""
        self._state, self.maintenance_end = CycleState.READING, None
        try:
            self._reconcile()
        except StalePublicationError as error:
            self._reporting.deployment.refuse(str(error), RefusalCause.PUBLICATION)
            self._advance(CycleEvent.PUBLICATION_LOST)
        except (ConflictError, UnreachableError) as error:
            get_logger().info("cycle-restarted", reason=str(error))
            self._advance(CycleEvent.INTERRUPTED)
        finally:
            self._reporting.write_metrics()
        return self._state

    def fail(self, error: Exception) -> CycleState:
        """Show the ``error`` that ended the cycle on the host, and return the outcome.

        If the host's node cannot be written now, the next cycle writes it.
        """
        with contextlib.suppress(ConflictError, TreeError):
            self._reporting.deployment.stay_failed(reason(error))
        # The error may also come from writing the metrics, after the outcome.
        return CYCLE_TRANSITIONS.get((self._state, CycleEvent.DEFECT_MET), CycleState.FAILED)

    def _advance(self, event: CycleEvent) -> None:
        self._state = CYCLE_TRANSITIONS[self._state, event]

    def _reconcile(self) -> None:
        self._reporting.ensure_registered()
        self._reporting.failures.report_unreported()
        if not self._has_noted_boot:  # within the cycle, so that a full disk does not end each new agent
            note_boot(self._reporting)
            self._has_noted_boot = True
        self._reporting.inventory.catch_up()
        if not self._read_lease():
            return
        cluster = self._reporting.read_cluster()
        mandate = self._reporting.mandate(cluster)
        # This is read after the cluster version, so that a version never lacks its strategy.
        published = self._publications.read(mandate)
        if isinstance(published, CycleEvent):
            self._advance(published)
            return
        self.start_spread = 0.0 if cluster is None else cluster.start_spread
        self._stamp = None if cluster is None else cluster.stamp
        maintenance = None if cluster is None else cluster.maintenance.get(self._reporting.host.identity.id)
        self.maintenance_end = None if maintenance is None else maintenance.until
        if mandate is None or not mandate.is_drain:
            self._reporting.deployment.clear_refusal(RefusalCause.DRAIN)
        if cluster is not None and maintenance is not None:
            self._hold(cluster)
            self._leave_locks()
            self._advance(self._maintain(cluster, mandate, published))
            self._reporting.inventory.refresh()
            return
        if mandate is None or not published.permits(mandate):
            self._hold(cluster)
            self.lease.forget_failure()
            self.lease.show_waiting(ClusterState.STOPPED if cluster is None else cluster.state)
            self._advance(CycleEvent.CLUSTER_CLOSED)
            self._reporting.inventory.refresh()
            return
        self._held = None
        gate = None
        if self._reporting.needs_grant(mandate, cluster, published, follows_lease=not self.lease.is_reached):
            gate = RolloutGate(
                self._reporting,
                self._waits,
                sequence=published.effective_since,
                revision=mandate.revision,
                spread=self.start_spread,
            )
        with bound(revision=mandate.revision):
            self._follow(mandate, published, gate)

    def _maintain(self, cluster: Cluster, mandate: Mandate | None, published: Published) -> CycleEvent:
        """Drain the host in maintenance if its record wants that."""
        if mandate is None:
            if self._adapters.trusted is not None and cluster.drain(self._reporting.host.identity.id):
                refuse_drain(self._reporting)
            return CycleEvent.HOST_IN_MAINTENANCE
        self._advance(CycleEvent.DRAIN_WANTED)
        supervision = DrainSupervision(
            self._reporting, mandate, None, published=published, lease=self.lease, disturbed=self._is_disturbed
        )
        self._may_be_queued = self._reporting.host.identity.role is not None
        with bound(revision=mandate.revision):
            is_drained = drain_host(self._reporting, supervision)
        if is_drained is None:
            return CycleEvent.DEFECT_MET
        return CycleEvent.HOST_IN_MAINTENANCE if is_drained else CycleEvent.STEP_FAILED

    def _follow(self, mandate: Mandate, published: Published, gate: RolloutGate | None) -> None:
        """Deploy the revision of the mandate if the host lacks it; end a retry that succeeded."""
        event = self._compare(mandate.revision, published, gate)
        if event in _IDLE:
            self._reporting.inventory.refresh()
        if event is CycleEvent.VERSION_WANTED:
            self._advance(event)
            event = self._deploy(mandate, published, gate)
            if event is CycleEvent.STEPS_SUCCEEDED and gate is None and published.strategy is not None:
                self._waits.wake()  # a rollout may await reports of the phases that the host ran without a grant
        if mandate.is_retry and event in _REACHED:
            # If the agent is killed before this, its next cycle finds the version, and repeats it.
            fleet, identity = self._adapters.fleet, self._reporting.host.identity
            with failpoints("complete-retry"):
                self._reporting.retry_until_reachable(lambda: fleet.complete_retry(identity, mandate.revision))
        self._advance(event)

    def _compare(self, revision: Revision, published: Published, gate: RolloutGate | None) -> CycleEvent:
        """Compare the host's version and its rollout with the revision; update the host's status accordingly."""
        is_leased = self.lease.is_reached
        has_reached = self._reporting.host.has_reached(published.effective_since)
        is_repeated = published.revision == revision and published.effective_since > 0 and not has_reached
        is_resumed = self._is_group_resumed()
        if revision == self._reporting.host.version and is_leased and not (is_repeated or is_resumed):
            self._leave_locks()
            self._settle()
            if gate is not None:
                gate.confirm()
            return CycleEvent.VERSION_PRESENT
        is_older = published.sequence < (self._reporting.host.sequence or 0)
        is_reached = published.revision == revision and has_reached and not is_older
        if is_reached and is_leased and not is_resumed:
            return self._take_over(revision, published.sequence, gate)
        if gate is not None and (failure := gate.failure()) is not None:
            self._reporting.deployment.stay_failed(failure)
            return CycleEvent.HOST_EXCLUDED
        return CycleEvent.HOST_EXCLUDED if self.lease.has_failed(revision) else CycleEvent.VERSION_WANTED

    def _is_group_resumed(self) -> bool:
        """Whether the host lacks steps of a group that is no longer stopped."""
        lacking = self._reporting.host.lacking.keys()
        if not lacking:
            return False
        return not lacking <= self._reporting.retry_until_reachable(self._adapters.fleet.stopped_groups)

    def _take_over(self, revision: Revision, sequence: int, gate: RolloutGate | None) -> CycleEvent:
        """Record a publication that changed only documents since the one that the host has."""
        self._leave_locks()
        with failpoints("take-over"):
            try:
                self._reporting.deployment.succeed(revision, sequence)
            except HostFilesError as error:
                self._reporting.deployment.stay_failed(reason(error))
                return CycleEvent.DEFECT_MET
        get_logger().info("version-taken-over", sequence=sequence)
        if gate is not None:
            gate.confirm()
        return CycleEvent.ONLY_DOCUMENTS_CHANGED

    def _read_lease(self) -> bool:
        """Read the lease, and return whether the host can follow it; if not, the host shows why."""
        try:
            self.lease.read()
        except LEASE_ERRORS as error:
            self._fail_lease(error)
            self._advance(CycleEvent.DEFECT_MET)
            return False
        return True

    def _fail_lease(self, error: Exception) -> None:
        """Show why the host cannot follow its lease, and release its kept locks for the hosts that wait."""
        self._reporting.deployment.stay_failed(reason(error))
        self.lease.note_failure()
        self._reporting.hand_on_work()

    def _deploy(self, mandate: Mandate, published: Published, gate: RolloutGate | None) -> CycleEvent:
        try:
            self.lease.take_role()
        except HostFilesError as error:
            self._fail_lease(error)
            return CycleEvent.DEFECT_MET
        self._hand_on_former_roles()
        supervision = Supervision(
            self._reporting,
            mandate,
            gate,
            published=published,
            lease=self.lease,
            disturbed=self._is_disturbed,
        )
        supervision.judged = self._stamp
        run = DeploymentRun(self._reporting, supervision, commands=self._commands)
        may_be_queued, self._may_be_queued = self._may_be_queued, True
        if run.run():
            self._may_be_queued = may_be_queued  # the deployment released the lock that it acquired
            self._leave_locks()
            return CycleEvent.STEPS_SUCCEEDED
        self.lease.fail(mandate.revision, is_gated=gate is not None)
        return CycleEvent.STEP_FAILED

    def _leave_locks(self) -> None:
        """Leave the queues for locks of roles, and release the locks that are kept for this host.

        A host that has the cluster version needs no lock.

        A deployment that ended early may have left a request, or the host out of service. The next deployment
        would remove these, but only if it needs the same lock; and if the cluster version returns to the host's
        version, there is no next deployment.
        """
        withdraw_reboot(self._reporting, ())
        self._reporting.hand_on_work()
        identity = self._reporting.host.identity
        fleet = self._adapters.fleet
        if self._may_be_queued and (
            roles := self._reporting.retry_until_reachable(lambda: fleet.roles.leave(identity))
        ):
            get_logger().warning("role-requests-withdrawn", roles=roles)
        self._may_be_queued = False

    def _hand_on_former_roles(self) -> None:
        """Release the locks of former roles of this host, so that hosts of these roles stop waiting for it."""
        identity = self._reporting.host.identity
        fleet = self._adapters.fleet
        if self._may_be_queued and (
            roles := self._reporting.retry_until_reachable(lambda: fleet.roles.hand_on(identity, former=True))
        ):
            get_logger().warning("role-lock-handed-on", roles=roles)

    def _settle(self) -> None:
        try:
            self._reporting.deployment.settle()
        except HostFilesError as error:
            get_logger().error("status-not-written", reason=str(error))

    def _hold(self, cluster: Cluster | None) -> None:
        reason = held_reason(cluster, self._reporting.host.identity.id)
        if reason != self._held:
            self._held = reason
            get_logger().warning("deployments-held", reason=reason)
            self._adapters.notifier.status(f"nothing starts: {reason}")


#: The errors of a cycle that end the agent. All other errors, such as those of damaged nodes, fail only the cycle.
_ENDING = (DuplicateError, RestartError, ShutdownError)

#: Seconds until the cluster version is read again after it changed during a cycle: at first, and after many such
#: cycles in a row. A further change ends the wait.
_SETTLE, _LONGEST_SETTLE = 0.05, 5.0


class Agent:
    """Brings one host to the cluster version."""

    def __init__(self, reporting: HostReporting, *, commands: HostCommands, lease: HostRole) -> None:
        self._adapters = reporting.adapters
        self._reporting = reporting
        self._control = reporting.control
        self._waits = AgentWaits(reporting.adapters, reporting.control)
        self._cycle = AgentCycle(
            reporting, self._waits, commands=commands, lease=lease, is_disturbed=self._is_disturbed
        )
        self._backoff = Backoff(first=5.0, most=60.0)
        self._settle = Backoff(first=_SETTLE, most=_LONGEST_SETTLE)
        self._following = False
        self._succeeded = False

    def run(self, reread: Callable[[], Settings | None] = lambda: None) -> Settings | None:
        """Follow the cluster version until asked to end.

        On a request to reload, between deployments, calls ``reread`` and returns the settings for the next agent
        if there are any. Returns ``None`` when asked to end.

        Raises ``RefusedError`` if another agent has this host's id or name, and ``RestartError`` if the connection
        to ZooKeeper cannot be restored or if the program was upgraded, in both cases between two deployments only.
        """
        self._following = True
        with self._unregistering():
            self._register()
            self._adapters.fleet.watch_cluster(self._reporting.host.identity, self._control.wake)
            self._cycle.lease.watch(self._control.wake)
            self._adapters.notifier.ready()
            while not self._control.stopping:
                if self._adapters.outdated():  # the new program then reads the new configuration
                    raise RestartError("zkdeployment was upgraded; the agent restarts with the new program")
                if (settings := self._reload(reread)) is not None:
                    return settings
                outcome = self._guarded_cycle()
                if self._backoff.seconds:
                    self._waits.hold_back(self._backoff.seconds)
                elif outcome is CycleState.MOVED:
                    self._waits.wait_for_wake(self._settle.fail())
                elif self._adapters.outdated():
                    self._waits.wait_for_wake(_SETTLE)
                elif self._waits.wait_for_cycle(self._cycle.maintenance_end) and not self._cycle.lease.is_outdated:
                    self._waits.hold_back(spread(self._cycle.start_spread))  # a change woke all hosts
        return None

    def run_once(self) -> CycleState:
        """Bring this host to the cluster version once and return the outcome.

        Raises ``UnreachableError`` at once when ZooKeeper cannot be reached.
        """
        self._adapters.session.open()
        outcome = CycleState.MOVED
        with self._unregistering():
            self._register()
            self._cycle.lease.watch(self._control.wake)
            while outcome is CycleState.MOVED:
                self._control.check()
                outcome = self._cycle.run()
                if outcome is CycleState.MOVED:
                    self._control.wait(self._settle.fail())
        return outcome

    def _reload(self, reread: Callable[[], Settings | None]) -> Settings | None:
        if not self._control.take_reload():
            return None
        self._adapters.notifier.reloading()
        settings = reread()
        self._succeeded = settings is not None
        if not self._succeeded:
            self._adapters.notifier.ready()
        return settings

    def _is_disturbed(self) -> bool:
        """Return whether a waiting deployment has to be abandoned for a reload or an upgrade."""
        return self._following and (self._control.reloading or self._adapters.outdated())

    def _register(self) -> None:
        self._reporting.failures.restore()
        self._reporting.register()
        self._reporting.failures.report_unreported()
        get_logger().info("host-registered")
        with contextlib.ExitStack() as shown:

            def show(revision: str, name: str) -> None:
                self._adapters.notifier.ready()  # systemd ends an agent that is not up after its time limit
                shown.enter_context(self._reporting.deployment.awaiting_script(revision, name))

            self._adapters.scripts.wait_for_predecessor(show)
        self._reporting.retry_until_reachable(self._adapters.fleet.clear_stale_nodes)

    @contextlib.contextmanager
    def _unregistering(self) -> Iterator[None]:
        """Remove the host's node at the end of the block, and suppress the error of a requested end."""
        try:
            yield
        except ShutdownError as error:
            get_logger().info("agent-ended", reason=str(error))
        finally:
            if not self._succeeded:
                self._adapters.notifier.stopping()
            with contextlib.suppress(UnreachableError, DeniedError, RestartError):
                self._adapters.fleet.unregister()
            self._reporting.write_metrics(up=self._succeeded)

    def _guarded_cycle(self) -> CycleState:
        """Run one cycle; show an error on the host and back off instead of ending the agent."""
        try:
            outcome = self._cycle.run()
        except _ENDING:
            raise
        except Exception as error:  # noqa: BLE001  neither a defect nor a damaged node must end every agent
            get_logger().exception("cycle-failed")
            self._backoff.fail()
            return self._cycle.fail(error)
        self._backoff.reset()
        if outcome is not CycleState.MOVED:
            self._settle.reset()
        return outcome
