"""The host agent: a loop that brings its host to the cluster version.

Each cycle reads the cluster version from ZooKeeper; a watch only wakes the loop. One deployment belongs to
``deployment_run``.
"""

from __future__ import annotations

import contextlib
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.daemons.agent.agent_waits import AgentWaits
from zkdeployment.daemons.agent.deployment_run import DeploymentRun
from zkdeployment.daemons.agent.reporting.failure_reporter import reason
from zkdeployment.daemons.agent.reporting.inventory_reporter import InventoryReporter
from zkdeployment.daemons.agent.rollout_gate import RolloutGate
from zkdeployment.daemons.agent.supervision import Supervision
from zkdeployment.daemons.backoff import Backoff
from zkdeployment.daemons.watermark import Watermark
from zkdeployment.errors import (
    ConflictError,
    DeniedError,
    HostFilesError,
    RestartError,
    ShutdownError,
    StalePublicationError,
    UnreachableError,
    ZkdeploymentError,
)
from zkdeployment.log import bound, get_logger
from zkdeployment.model.cluster import ClusterState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zkdeployment.config.settings import Settings
    from zkdeployment.daemons.agent.agent_adapters import AgentAdapters
    from zkdeployment.daemons.agent.reporting.host_reporting import HostReporting
    from zkdeployment.daemons.control import Control
    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.publication import Published

_SETTLE = 0.05  # seconds until the cluster version is read again after it changed during a cycle


class Outcome(Enum):
    """The outcome of one cycle."""

    DONE = "done"  # the host is at the cluster version
    HELD = "held"  # nothing may start
    FAILED = "failed"  # the fleet was stopped, or the rollout continues without this host
    MOVED = "moved"  # the cluster version changed, or the agent was asked to end: read again


class Agent:
    """Brings one host to the cluster version. ``after`` is the command to run after a deployment, or empty."""

    def __init__(
        self, adapters: AgentAdapters, reporting: HostReporting, control: Control, *, after: Sequence[str] = ()
    ) -> None:
        self._adapters = adapters
        self._reporting = reporting
        self._control = control
        self._after = after
        self._waits = AgentWaits(adapters, control)
        self._inventory = InventoryReporter(adapters, reporting.host)
        self._watermark = Watermark(adapters.files)
        self._held: ClusterState | None = None
        self._spread = 0.0
        self._backoff = Backoff(first=5.0, most=60.0)
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
            self._adapters.fleet.watch_cluster(self._control.wake)
            self._adapters.notifier.ready()
            while not self._control.stopping:
                if (settings := self._reload(reread)) is not None:
                    return settings
                if self._adapters.outdated():
                    raise RestartError("zkdeployment was upgraded; the agent restarts with the new program")
                outcome = self._guarded_turn()
                if self._backoff.seconds:
                    self._waits.hold_back(self._backoff.seconds)
                elif outcome is Outcome.MOVED or self._adapters.outdated():
                    self._waits.wait_for_wake(_SETTLE)
                elif self._waits.wait_for_cycle():
                    self._waits.spread_out(self._spread)
        return None

    def run_once(self) -> Outcome:
        """Bring this host to the cluster version once and return the outcome.

        Raises ``UnreachableError`` at once when ZooKeeper cannot be reached.
        """
        self._adapters.connect()
        outcome = Outcome.MOVED
        with self._unregistering():
            self._register()
            while outcome is Outcome.MOVED:
                self._control.check()
                outcome = self._turn()
                if outcome is Outcome.MOVED:
                    self._control.wait(_SETTLE)
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
        """Return whether a deployment that waits is to be abandoned for a reload or an upgrade."""
        return self._following and (self._control.reloading or self._adapters.outdated())

    def _register(self) -> None:
        unreported = self._reporting.failures.restore()
        self._reporting.registration.register()
        if unreported is not None:
            self._reporting.failures.report_restored(unreported)
        get_logger().info("host-registered")
        self._adapters.scripts.wait_for_predecessor()
        self._reporting.retry.retry_until_reachable(self._adapters.fleet.clear_stale_nodes)

    @contextlib.contextmanager
    def _unregistering(self) -> Iterator[None]:
        """Remove the host's node at the end of the block; a requested end is not an error."""
        try:
            yield
        except ShutdownError as error:
            get_logger().info("agent-ended", reason=str(error))
        finally:
            if not self._succeeded:
                self._adapters.notifier.stopping()
            with contextlib.suppress(UnreachableError, DeniedError, RestartError):
                self._adapters.fleet.unregister()
            self._reporting.heartbeat.write_metrics(up=self._succeeded)

    def _guarded_turn(self) -> Outcome:
        """Run one cycle; show an unexpected error on the host and back off instead of ending the agent."""
        try:
            outcome = self._turn()
        except ZkdeploymentError:
            raise
        except Exception as error:  # noqa: BLE001  a defect of this program must not end every agent
            get_logger().exception("cycle-failed")
            self._reporting.refusal.stay_failed(reason(error))
            self._backoff.fail()
            return Outcome.FAILED
        self._backoff.reset()
        return outcome

    def _turn(self) -> Outcome:
        """Run one reconciliation cycle for the current cluster version."""
        try:
            self._reporting.registration.ensure_registered()
            self._inventory.catch_up()
            cluster = self._reporting.retry.read_cluster()
            published = (
                self._read_published()
            )  # after the cluster version, so that a version never lacks its strategy
            self._spread = 0.0 if cluster is None else cluster.start_spread
            revision = None if cluster is None else cluster.revision
            if cluster is None or revision is None:
                return self._hold(cluster)
            self._held = None
            gate = self._gate(published, revision) if published.governs(cluster) else None
            with bound(revision=revision):
                if revision == self._reporting.host.version:
                    self._settle()
                    if gate is not None:
                        gate.confirm()
                    return Outcome.DONE
                if gate is not None and (failure := gate.failure()) is not None:
                    self._reporting.refusal.stay_failed(failure)
                    return Outcome.FAILED
                return self._deploy(revision, gate)
        except StalePublicationError as error:
            self._reporting.refusal.refuse(str(error))
            return Outcome.HELD
        except (ConflictError, UnreachableError) as error:
            get_logger().info("cycle-restarted", reason=str(error))
            return Outcome.MOVED
        finally:
            self._reporting.heartbeat.write_metrics()

    def _gate(self, published: Published, revision: Revision) -> RolloutGate:
        return RolloutGate(
            self._adapters,
            self._reporting,
            self._waits,
            sequence=published.sequence,
            revision=revision,
            spread=self._spread,
        )

    def _read_published(self) -> Published:
        """Return what is published and remember it before anything is done.

        Raises ``StalePublicationError`` if ZooKeeper has lost a publication that this host knows of.
        """
        published = self._reporting.retry.retry_until_reachable(self._adapters.fleet.published)
        self._watermark.check(published)
        self._watermark.note(published)
        self._reporting.refusal.clear_refusal()
        return published

    def _settle(self) -> None:
        try:
            self._reporting.deployment.settle()
        except HostFilesError as error:
            get_logger().error("status-not-written", reason=str(error))

    def _hold(self, cluster: Cluster | None) -> Outcome:
        state = ClusterState.STOPPED if cluster is None else cluster.state
        if state is not self._held:
            self._held = state
            get_logger().warning("deployments-held", cluster=state.value)
            self._adapters.notifier.status(f"nothing starts: the cluster is {state.value}")
        return Outcome.HELD

    def _deploy(self, revision: Revision, gate: RolloutGate | None) -> Outcome:
        supervision = Supervision(
            self._adapters, self._reporting, self._control, revision, gate, disturbed=self._is_disturbed
        )
        run = DeploymentRun(self._adapters, self._reporting, self._inventory, supervision, after=self._after)
        return Outcome.DONE if run.run() else Outcome.FAILED
