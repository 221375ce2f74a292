"""What one deployment has to ask before each step, what it shows meanwhile, and how it fails."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.daemons.failpoints import reach
from zkdeployment.errors import (
    ConflictError,
    DuplicateError,
    LockLostError,
    RestartError,
    ShutdownError,
    UnreachableError,
)
from zkdeployment.log import bound
from zkdeployment.model.cluster import ClusterState
from zkdeployment.planning.planner import plan, unwanted_services

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zkdeployment.daemons.agent.agent_adapters import AgentAdapters
    from zkdeployment.daemons.agent.host_reporter import HostReporter
    from zkdeployment.daemons.agent.rollout_gate import RolloutGate
    from zkdeployment.daemons.control import Control
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.deployment import DesiredState
    from zkdeployment.model.host import Identity
    from zkdeployment.model.plan import Plan
    from zkdeployment.rollout.state_machine import Phase


class FailedError(Exception):
    """A failure that was reported; the message is the step."""


#: These say that the world changed, not that a deployment failed. Of two hosts with one id the one that lost it is
#: none of the fleet any more.
_NO_FAILURES = (
    ConflictError,
    DuplicateError,
    FailedError,
    LockLostError,
    RestartError,
    ShutdownError,
    UnreachableError,
)


class Supervision:
    """The ``Supervisor`` of one deployment of one revision. Without a ``gate`` nothing holds it up.

    While it waits at the gate it gives way when ``disturbed`` says so. ``changed``: it changes the host.
    """

    def __init__(
        self,
        adapters: AgentAdapters,
        reporter: HostReporter,
        control: Control,
        revision: Revision,
        gate: RolloutGate | None,
        *,
        disturbed: Callable[[], bool],
    ) -> None:
        self._adapters = adapters
        self._reporter = reporter
        self._control = control
        self._revision = revision
        self._gate = gate
        self._disturbed = disturbed
        self.changed = False

    @property
    def gated(self) -> bool:
        """Whether a rollout says when it goes on."""
        return self._gate is not None

    def enter(self, phase: Phase, steps: int = 0) -> None:
        """Wait to be let into a phase, when the one before went well; raises what ``check`` raises."""
        if self._gate is not None:
            self._gate.enter(phase, steps, self._check_waiting)

    def plan(self) -> Plan:
        """Read what is wanted and what is there, and return what is to be done."""
        with self.reporting("plan"):
            self._reporter.show(self._revision, "plan", 0, 0)
            reach("before:plan")
            return read_plan(self._adapters, self._reporter.host.identity, self._revision)

    def begin_changes(self) -> bool:
        """Give up the host's version before the deployment's first change; say whether that was done now."""
        if self.changed:
            return False
        reach("before:give-up-version")
        self._reporter.give_up_version()
        self.changed = True
        reach("after:give-up-version")
        return True

    def check(self, *, midway: bool = False) -> None:
        """Raise ``ConflictError`` unless the revision is still wanted of this host, ``ShutdownError`` to end.

        ``midway`` is what has to be finished even if somebody stopped or held the fleet, or the rollout lets this
        host do no more. Waits for ZooKeeper, and is registered when it returns.
        """
        self._check_cluster(midway=midway)
        if self._gate is not None and not midway:
            self._gate.check()

    def _check_waiting(self) -> None:
        self._check_cluster()
        if self._disturbed():
            raise ConflictError("there is a new configuration or a new program; it waits again with that")

    def _check_cluster(self, *, midway: bool = False) -> None:
        self._control.check()
        cluster = self._reporter.read_cluster()
        self._reporter.refresh_session()
        if midway and cluster is not None and cluster.state in {ClusterState.STOPPED, ClusterState.HELD}:
            return
        if cluster is None or cluster.revision != self._revision:
            now = "gone" if cluster is None else f"{cluster.version} ({cluster.state.value})"
            raise ConflictError(f"the cluster version is not {self._revision} any more, it is {now}")

    def show(self, step: str, done: int, total: int) -> bool:
        """Show the step under way; says whether it is another one than before."""
        with self.reporting(step):
            return self._reporter.show(self._revision, step, done, total)

    @contextlib.contextmanager
    def reporting(self, step: str) -> Iterator[None]:
        """Stop the fleet for what fails inside, before anything that was entered earlier is left."""
        with bound(step=step):
            try:
                yield
            except _NO_FAILURES:
                raise
            except Exception as error:  # a bug of ours, too, must not spread over the fleet
                part = None if self._gate is None else (self._gate.rollout, self._gate.phase)
                self._reporter.fail(self._revision, step, error, part)
                raise FailedError(step) from error


def read_plan(adapters: AgentAdapters, identity: Identity, revision: Revision) -> Plan:
    """Return what this host has to do to get to a revision, once interrupted changes of software are undone."""
    wanted = adapters.fleet.wanted(identity, revision)
    with adapters.notifier.uninterrupted():
        adapters.packages.recover()
        adapters.checkouts.recover()
    return make_plan(adapters, wanted)


def make_plan(adapters: AgentAdapters, wanted: DesiredState) -> Plan:
    """Return what this host has to do to get to what is wanted; changes nothing."""
    inventory = adapters.inventory()
    services = adapters.fleet.services(unwanted_services(wanted.assignments, inventory))
    return plan(wanted.assignments, inventory, wanted.controller, services=services)
