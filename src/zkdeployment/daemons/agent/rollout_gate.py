"""Where a host waits until the rollout of a publication lets it go on."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING

from zkdeployment.daemons.agent.host_reporter import LOOK
from zkdeployment.daemons.failpoints import reach
from zkdeployment.errors import ConflictError, HostFilesError
from zkdeployment.log import get_logger
from zkdeployment.model.host import WAITING_PREFIX
from zkdeployment.rollout.state import Permission
from zkdeployment.rollout.state_machine import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.daemons.agent.agent_adapters import AgentAdapters
    from zkdeployment.daemons.agent.host_reporter import HostReporter
    from zkdeployment.daemons.control import Control
    from zkdeployment.model.cluster import Revision


class RolloutGate:
    """Lets a host into the phases of one publication's rollout, and tells the rollout how they went.

    The first thing asked of it is ``failure`` or ``confirm``. When the rollout begins, which wakes all hosts, it
    holds back for up to ``spread`` seconds. All it does insists until ZooKeeper answers.
    """

    def __init__(
        self,
        adapters: AgentAdapters,
        reporter: HostReporter,
        control: Control,
        *,
        sequence: int,
        revision: Revision,
        spread: float,
    ) -> None:
        self._adapters = adapters
        self._reporter = reporter
        self._control = control
        self._sequence = sequence
        self._revision = revision
        self._spread = spread
        self._permission = Permission()
        self._phase: Phase | None = None
        self.waited = 0.0

    @property
    def rollout(self) -> str:
        """The rollout that the host goes with, once it was let in."""
        return self._permission.rollout or ""

    @property
    def phase(self) -> Phase:
        """The phase that a failure belongs to: the first that was not reported."""
        return Phase.DEPLOY if Phase.PREPARE in self._permission.reports else Phase.PREPARE

    def failure(self) -> str | None:
        """Look why the rollout goes on without this host, if it does; be woken by another rollout."""
        self._look(self._control.wake)
        if self._permission.is_excluded:
            self._hand_on_role()
        return self._permission.failure

    def enter(self, phase: Phase, steps: int, check: Callable[[], None]) -> None:
        """Report the phase before, if any, and wait to be let into this one.

        Whatever ``check`` raises ends that; it is called after each pause. Raises ``ConflictError`` if the rollout
        is over, or goes on without this host.
        """
        begun = self._adapters.clock.monotonic()
        if self._phase is not None:
            self._report(self._phase)
            self._look_again()
        if not self._permission.allows(phase):
            self._hand_on_role()
        while not self._permission.allows(phase):
            if self._permission.failure is not None:
                raise ConflictError(self._permission.failure)
            self._pause(f"{WAITING_PREFIX}{phase.value}: {self._permission.obstacle}", steps)
            if self._permission.rollout is None:
                self._reporter.wait_for_wake(random.uniform(0, self._spread))  # noqa: S311  not a secret
            check()
            self._look_again()
        self._reporter.go_on()
        self._phase = phase
        self.waited += self._adapters.clock.monotonic() - begun
        get_logger().info("phase-begins", phase=phase.value, rollout=self.rollout)

    def check(self) -> None:
        """Raise ``ConflictError`` unless the host may go on with the phase that it was let into."""
        rollout = self._permission.rollout
        self._look()
        if self._permission.rollout != rollout or (self._phase and not self._permission.allows(self._phase)):
            raise ConflictError(f"rollout {rollout} lets this host do no more: {self._permission.obstacle}")

    def confirm(self) -> None:
        """Report what the host was let into: it has the revision, whoever brought it there."""
        self._look()
        for phase in Phase:
            if self._permission.allows(phase):
                self._report(phase)

    def _hand_on_role(self) -> None:
        """Let other hosts of the role go on: what this host left half-done waits for its turn in the rollout."""
        identity = self._reporter.host.identity
        if self._reporter.retry_until_reachable(lambda: self._adapters.fleet.hand_on_role(identity)):
            get_logger().warning("role-lock-handed-on", role=identity.role)

    def _look_again(self) -> None:
        rollout = self._permission.rollout
        self._look(self._control.wake)
        if rollout not in {None, self._permission.rollout}:
            raise ConflictError(f"rollout {rollout} is over")

    def _look(self, changed: Callable[[], None] | None = None) -> None:
        identity = self._reporter.host.identity
        self._permission = self._reporter.retry_until_reachable(
            lambda: self._adapters.fleet.permission(self._sequence, identity, changed)
        )

    def _report(self, phase: Phase) -> None:
        if phase not in self._permission.reports:
            reach(f"before:report-{phase.value}")
            self._reporter.report(self.rollout, phase)
            reach(f"after:report-{phase.value}")

    def _pause(self, waiting: str, steps: int) -> None:
        """Show what the host waits for, until something happens."""
        if waiting != self._reporter.host.step:
            get_logger().info("waiting-for-rollout", step=waiting)
        with contextlib.suppress(HostFilesError):  # the next step meets the same trouble, and tells
            self._reporter.show(self._revision, waiting, 0, steps)
        self._reporter.refresh()
        self._reporter.tell()
        reach("at:gate")
        self._reporter.wait_for_wake(LOOK * random.uniform(0.8, 1.2))  # noqa: S311  not a secret
