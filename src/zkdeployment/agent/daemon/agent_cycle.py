"""One cycle of the agent: reads the cluster version and the publication, and acts on them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.agent.daemon.deployment import DeploymentRun, Supervision
from zkdeployment.agent.daemon.host_role import LEASE_ERRORS
from zkdeployment.agent.daemon.rollout_gate import RolloutGate
from zkdeployment.agent.reporting.failures import reason
from zkdeployment.agent.reporting.inventory_reporter import InventoryReporter
from zkdeployment.agent.rules.cycle_machine import CYCLE_TRANSITIONS, CycleEvent, CycleState
from zkdeployment.base.cluster import ClusterState
from zkdeployment.base.daemon.failpoints import failpoints
from zkdeployment.base.deployment import DeploymentFailure
from zkdeployment.base.errors import (
    ConflictError,
    HostFilesError,
    StalePublicationError,
    TreeError,
    UnreachableError,
    UntrustedError,
)
from zkdeployment.base.log import bound, get_logger
from zkdeployment.base.publication import Published
from zkdeployment.publishing.watermark import Watermark

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.agent.adapters import AgentAdapters
    from zkdeployment.agent.daemon.agent import AgentWaits
    from zkdeployment.agent.daemon.deployment import HostCommands
    from zkdeployment.agent.daemon.host_role import HostRole
    from zkdeployment.agent.daemon.trusted_publications import TrustedPublications
    from zkdeployment.agent.reporting.host_reporting import HostReporting
    from zkdeployment.base.cluster import Cluster, Revision
    from zkdeployment.base.daemon.control import Control


#: The step in which a host fails that does not trust a publication.
VERIFICATION = "verify the publication"


class PublicationReader:
    """Reads the last publication and remembers it before the host changes anything.

    A host with publishers accepts only a publication that one of them signed.
    """

    def __init__(self, adapters: AgentAdapters, reporting: HostReporting) -> None:
        self._adapters = adapters
        self._reporting = reporting
        self._watermark = Watermark(adapters.run)

    def read(self, cluster: Cluster | None) -> Published | CycleEvent:
        """Return the last publication, or the event that ends the cycle if the host must not act on it.

        The cause of such an event is reported before. Raises ``StalePublicationError`` if ZooKeeper has lost a
        publication that this host knows.
        """
        if self._adapters.trusted is None:
            published = self._reporting.retry.retry_until_reachable(self._adapters.fleet.published)
            self._watermark.check(published)
            self._watermark.note(published)
        elif cluster is None or cluster.revision is None:
            return Published()  # nothing may start
        else:
            verified = self._read_trusted(self._adapters.trusted, cluster.revision)
            if isinstance(verified, CycleEvent):
                return verified
            published = verified
        self._reporting.refusal.clear_refusal()
        return published

    def _read_trusted(self, trusted: TrustedPublications, revision: Revision) -> Published | CycleEvent:
        """Return the signed publication; stop the fleet if ZooKeeper does not hold what a publisher signed."""
        identity = self._reporting.host.identity
        try:
            published = self._reporting.retry.retry_until_reachable(lambda: trusted.published(identity, revision))
            with failpoints("remember-publication"):
                trusted.remember(published)
        except UntrustedError as error:
            self._reporting.failures.fail(revision, DeploymentFailure(0, VERIFICATION), error)
            return CycleEvent.PUBLICATION_UNTRUSTED
        except HostFilesError as error:
            self._reporting.refusal.refuse(reason(error))
            return CycleEvent.DEFECT_MET
        return published


#: The events of cycles in which a host that runs has nothing to do.
_IDLE = frozenset({CycleEvent.VERSION_PRESENT, CycleEvent.HOST_EXCLUDED})


class AgentCycle:
    """Runs the cycles of one host's agent, one at a time.

    ``commands`` run after a deployment. ``is_disturbed`` returns whether a waiting deployment is to be abandoned.
    ``start_spread`` is the number of seconds over which the hosts begin after a change, as ``/hosts`` had it when
    it was last read. ``lease`` gives the host its role if the host can be leased.
    """

    def __init__(  # noqa: PLR0913  the parts of one agent
        self,
        adapters: AgentAdapters,
        reporting: HostReporting,
        control: Control,
        waits: AgentWaits,
        *,
        commands: HostCommands,
        lease: HostRole,
        is_disturbed: Callable[[], bool],
    ) -> None:
        self._adapters = adapters
        self._reporting = reporting
        self._control = control
        self._waits = waits
        self._commands = commands
        self._is_disturbed = is_disturbed
        self._inventory = InventoryReporter(adapters, reporting.local)
        self.lease = lease
        self._publications = PublicationReader(adapters, reporting)
        self._held: ClusterState | None = None
        self._may_be_queued = True  # by an earlier process of this host
        self._state = CycleState.READING
        self.start_spread = 0.0

    def run(self) -> CycleState:
        """Run one reconciliation cycle for the current cluster version and return its outcome."""
        self._state = CycleState.READING
        try:
            self._reconcile()
        except StalePublicationError as error:
            self._reporting.refusal.refuse(str(error))
            self._advance(CycleEvent.PUBLICATION_LOST)
        except (ConflictError, UnreachableError) as error:
            get_logger().info("cycle-restarted", reason=str(error))
            self._advance(CycleEvent.INTERRUPTED)
        finally:
            self._reporting.heartbeat.write_metrics()
        return self._state

    def fail(self, error: Exception) -> CycleState:
        """Show the ``error`` that ended the cycle on the host, and return the outcome.

        A host's node that cannot be written now is written by the next cycle.
        """
        with contextlib.suppress(ConflictError, TreeError):
            self._reporting.refusal.stay_failed(reason(error))
        # The error may also have come after the outcome, from writing the metrics.
        return CYCLE_TRANSITIONS.get((self._state, CycleEvent.DEFECT_MET), CycleState.FAILED)

    def _advance(self, event: CycleEvent) -> None:
        self._state = CYCLE_TRANSITIONS[self._state, event]

    def _reconcile(self) -> None:
        self._reporting.registration.ensure_registered()
        self._reporting.failures.report_unreported()
        self._inventory.catch_up()
        if not self._read_lease():
            return
        cluster = self._reporting.retry.read_cluster()
        # Read after the cluster version, so that a version never lacks its strategy.
        published = self._publications.read(cluster)
        if isinstance(published, CycleEvent):
            self._advance(published)
            return
        self.start_spread = 0.0 if cluster is None else cluster.start_spread
        if cluster is None or cluster.revision is None:
            self._hold(cluster)
            self.lease.forget_failure()
            self.lease.show_waiting(ClusterState.STOPPED if cluster is None else cluster.state)
            self._advance(CycleEvent.CLUSTER_CLOSED)
            self._inventory.refresh()
            return
        self._held = None
        # A host needs no grant to follow its lease.
        is_gated = published.governs(cluster) and self.lease.is_reached and not self._has_been_granted(published)
        gate = self._gate(published, cluster.revision) if is_gated else None
        with bound(revision=cluster.revision):
            event = self._compare(cluster.revision, published, gate)
            self._advance(event)
            if event in _IDLE:
                self._inventory.refresh()
            if self._state is CycleState.DEPLOYING:
                self._advance(self._deploy(cluster.revision, published, gate))

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
        is_reached = published.revision == revision and has_reached and not self._is_older(published)
        if is_reached and is_leased and not is_resumed:
            return self._take_over(revision, published.sequence, gate)
        if gate is not None and (failure := gate.failure()) is not None:
            self._reporting.refusal.stay_failed(failure)
            return CycleEvent.HOST_EXCLUDED
        return CycleEvent.HOST_EXCLUDED if self.lease.has_failed(revision) else CycleEvent.VERSION_WANTED

    def _has_been_granted(self, published: Published) -> bool:
        """Whether the host completed its part in the rollout, and only lacks steps of stopped groups.

        The host needs no further grant to run them: its rollout may have ended.
        """
        reached = self._adapters.run.read_sequence(published.revision)
        return bool(self._reporting.host.lacking) and reached >= published.effective_since > 0

    def _is_group_resumed(self) -> bool:
        """Whether the host lacks steps of a group that is not stopped any more."""
        lacking = self._reporting.host.lacking.keys()
        if not lacking:
            return False
        return not lacking <= self._reporting.retry.retry_until_reachable(self._adapters.fleet.stopped_groups)

    def _is_older(self, published: Published) -> bool:
        """Whether a publication is older than the one that this host completed."""
        return published.sequence < (self._reporting.host.sequence or 0)

    def _take_over(self, revision: Revision, sequence: int, gate: RolloutGate | None) -> CycleEvent:
        """Record a publication that changed only documents since the one that the host has."""
        self._leave_locks()
        with failpoints("take-over"):
            try:
                self._reporting.deployment.succeed(revision, sequence)
            except HostFilesError as error:
                self._reporting.refusal.stay_failed(reason(error))
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
        """Show why the host cannot follow its lease, and hand its kept locks on: no other host waits for it."""
        self._reporting.refusal.stay_failed(reason(error))
        self.lease.note_failure()
        self._reporting.registration.hand_on_work()

    def _deploy(self, revision: Revision, published: Published, gate: RolloutGate | None) -> CycleEvent:
        try:
            self.lease.take_role()
        except HostFilesError as error:
            self._fail_lease(error)
            return CycleEvent.DEFECT_MET
        self._hand_on_former_roles()
        supervision = Supervision(
            self._adapters,
            self._reporting,
            self._control,
            revision,
            gate,
            published=published,
            lease=self.lease,
            disturbed=self._is_disturbed,
        )
        run = DeploymentRun(self._adapters, self._reporting, self._inventory, supervision, commands=self._commands)
        may_be_queued, self._may_be_queued = self._may_be_queued, True
        if run.run():
            self._may_be_queued = may_be_queued  # the deployment released the lock that it acquired
            self._leave_locks()
            return CycleEvent.STEPS_SUCCEEDED
        self.lease.fail(revision, is_gated=gate is not None)
        return CycleEvent.STEP_FAILED

    def _leave_locks(self) -> None:
        """Leave the queues for locks of roles, and release what is kept for this host.

        A host that has the cluster version needs no lock.

        A deployment that ended early may have left a request, or the host out of service. The next deployment
        would clean this up. But there is no next deployment if the cluster version returns to the host's version,
        and the next deployment may need no lock, or that of another role.
        """
        self._reporting.registration.hand_on_work()
        identity = self._reporting.host.identity
        fleet = self._adapters.fleet
        if self._may_be_queued and (
            roles := self._reporting.retry.retry_until_reachable(lambda: fleet.leave_roles(identity))
        ):
            get_logger().warning("role-requests-withdrawn", roles=roles)
        self._may_be_queued = False

    def _hand_on_former_roles(self) -> None:
        """Release the locks of former roles of this host, whose hosts do not wait for this host any more."""
        identity = self._reporting.host.identity
        fleet = self._adapters.fleet
        if self._may_be_queued and (
            roles := self._reporting.retry.retry_until_reachable(
                lambda: fleet.hand_on_roles(identity, former=True)
            )
        ):
            get_logger().warning("role-lock-handed-on", roles=roles)

    def _gate(self, published: Published, revision: Revision) -> RolloutGate:
        return RolloutGate(
            self._adapters,
            self._reporting,
            self._waits,
            sequence=published.effective_since,
            revision=revision,
            spread=self.start_spread,
        )

    def _settle(self) -> None:
        try:
            self._reporting.deployment.settle()
        except HostFilesError as error:
            get_logger().error("status-not-written", reason=str(error))

    def _hold(self, cluster: Cluster | None) -> None:
        state = ClusterState.STOPPED if cluster is None else cluster.state
        if state is not self._held:
            self._held = state
            get_logger().warning("deployments-held", cluster=state.value)
            self._adapters.notifier.status(f"nothing starts: the cluster is {state.value}")
