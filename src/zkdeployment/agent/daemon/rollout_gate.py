"""The gate at which a host waits until the rollout of a publication permits its next phase."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.base.daemon.failpoints import failpoints, reach
from zkdeployment.base.errors import ConflictError, HostFilesError
from zkdeployment.base.host import WAITING_PREFIX
from zkdeployment.base.log import get_logger
from zkdeployment.strategies.permission import Permission, Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.agent.adapters import AgentAdapters
    from zkdeployment.agent.daemon.agent import AgentWaits
    from zkdeployment.agent.reporting.host_reporting import HostReporting
    from zkdeployment.base.cluster import Revision


class RolloutGate:
    """Takes one host through the phases of one publication's rollout and reports finished phases.

    Call ``failure`` or ``confirm`` first: they read the host's permission. When the rollout begins, which wakes
    all hosts, the host holds back for up to ``spread`` seconds. All methods wait until ZooKeeper answers.
    """

    def __init__(
        self,
        adapters: AgentAdapters,
        reporting: HostReporting,
        waits: AgentWaits,
        *,
        sequence: int,
        revision: Revision,
        spread: float,
    ) -> None:
        self._adapters = adapters
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
    def phase(self) -> Phase:
        """The phase that a failure belongs to: the first that was not reported."""
        return Phase.DEPLOY if Phase.PREPARE in self._permission.reports else Phase.PREPARE

    def failure(self) -> str | None:
        """Return why the rollout excludes this host, ``None`` if it does not; watch for another rollout."""
        self._read(self._waits.wake)
        if self._permission.is_excluded:
            self._hand_on_locks()
        return self._permission.failure

    def enter(self, phase: Phase, steps: int, check: Callable[[], None]) -> None:
        """Report the phase before, if any, and wait for permission to begin ``phase``.

        Calls ``check`` after each pause and lets its errors pass. Raises ``ConflictError`` if the rollout is over
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
                self._waits.spread_out_until_wake(self._spread)
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
        """Report every permitted phase as finished: the host is at the revision, by whatever way."""
        self._read()
        for phase in Phase:
            if self._permission.allows(phase):
                self._report(phase)

    def _hand_on_locks(self) -> None:
        """Release kept locks: this host continues its unfinished work only when the rollout permits it."""
        self._reporting.registration.hand_on_work()
        identity = self._reporting.host.identity
        if roles := self._reporting.retry.retry_until_reachable(
            lambda: self._adapters.fleet.hand_on_roles(identity)
        ):
            get_logger().warning("role-lock-handed-on", roles=roles)

    def _read_same_rollout(self) -> None:
        """Read the permission again; raise ``ConflictError`` if it belongs to another rollout than before."""
        rollout = self._permission.rollout
        self._read(self._waits.wake)
        if rollout not in {None, self._permission.rollout}:
            raise ConflictError(f"rollout {rollout} is over")

    def _read(self, changed: Callable[[], None] | None = None) -> None:
        identity, follows = self._reporting.host.identity, self._reporting.host.is_leasable
        self._permission = self._reporting.retry.retry_until_reachable(
            lambda: self._adapters.fleet.permission(self._sequence, identity, changed, follows=follows)
        )

    def _report(self, phase: Phase) -> None:
        if phase not in self._permission.reports:
            with failpoints(f"report-{phase.value}"):
                self._reporting.phases.report_success(self.rollout, phase)

    def _pause(self, waiting: str, steps: int) -> None:
        """Show the reason of the wait, then wait for a change."""
        if waiting != self._reporting.host.step:
            get_logger().info("waiting-for-rollout", step=waiting)
        with contextlib.suppress(HostFilesError):  # the next step fails in the same way and reports it
            self._reporting.deployment.show(self._revision, waiting, 0, steps)
        self._reporting.registration.refresh()
        self._reporting.heartbeat.write_metrics()
        reach("at:gate")
        self._waits.wait_for_cycle()
