"""Runs one deployment of a host from its first phase to its recorded outcome.

When a deployment starts is the agent's decision; what each step does belongs to the executor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.daemons.agent.steps.executor import Executor
from zkdeployment.daemons.agent.supervision import FailedError
from zkdeployment.daemons.failpoints import failpoints
from zkdeployment.errors import ConflictError, ScriptError, UnreachableError
from zkdeployment.log import get_logger
from zkdeployment.model.cluster import INITIAL
from zkdeployment.rollout.permission import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.daemons.agent.agent_adapters import AgentAdapters
    from zkdeployment.daemons.agent.reporting.host_reporting import HostReporting
    from zkdeployment.daemons.agent.reporting.inventory_reporter import InventoryReporter
    from zkdeployment.daemons.agent.supervision import Supervision
    from zkdeployment.model.deployment import DeploymentFailure


@dataclass(frozen=True)
class HostCommands:
    """The commands of a host's configuration: after a deployment, and after a failure. Empty: none."""

    after: Sequence[str] = ()
    after_failure: Sequence[str] = ()


class DeploymentRun:
    """Deploys the revision of one supervision.

    ``commands`` are those to run after the steps or after a failure.
    """

    def __init__(
        self,
        adapters: AgentAdapters,
        reporting: HostReporting,
        inventory: InventoryReporter,
        supervision: Supervision,
        *,
        commands: HostCommands,
    ) -> None:
        self._adapters = adapters
        self._reporting = reporting
        self._inventory = inventory
        self._supervision = supervision
        self._commands = commands
        self._begun = adapters.clock.monotonic()
        self._is_role_change = supervision.is_role_change

    def run(self) -> bool:
        """Deploy the revision and return whether that succeeded; a failure was reported then.

        Raises ``ConflictError`` or ``UnreachableError`` if the deployment was abandoned.
        """
        get_logger().info("deployment-started", had=self._reporting.host.version)
        self._reporting.deployment.begin(self._supervision.revision)
        try:
            if (
                self._supervision.revision != INITIAL
            ):  # before the first publication there is nothing to do or undo
                self._execute()
            with failpoints("record"):
                self._record_success()
            self._supervision.confirm()
        except FailedError as failed:
            self._supervision.hand_on_work()
            self._inventory.publish()
            self._record_result(f"{failed}: {self._reporting.host.error}", self._reporting.host.failed)
            self._run_after_failure(str(failed), self._reporting.host.error or "")
            return False
        except (ConflictError, UnreachableError):
            self._reporting.deployment.abandon()
            raise
        get_logger().info("deployment-succeeded")
        if (failure := self._supervision.group_failure) is not None:
            failed_step, reason = failure
            self._run_after_failure(failed_step.step, reason)
        return True

    def _execute(self) -> None:
        if self._supervision.has_revision:
            if not self._supervision.plan().plan.steps:
                return  # the publication changed nothing for this host, which needs no permission
            with self._supervision.reporting("plan"):
                self._supervision.begin_changes()  # neither operators nor a rollout take the host for converged
        self._supervision.enter(Phase.PREPARE)
        host_plan = self._supervision.plan()
        plan = host_plan.plan
        executor = Executor(
            self._adapters,
            self._reporting.host.identity,
            self._supervision,
            plan=host_plan,
            basis=self._supervision.basis,
        )
        try:
            executor.prepare(rehearse=self._supervision.gated)
            self._supervision.enter(Phase.DEPLOY, len(plan.steps))
            executor.execute()
        except ConflictError as conflict:
            get_logger().warning("deployment-abandoned", reason=str(conflict))
            if self._supervision.changed:
                self._inventory.publish()
                cluster = self._reporting.retry.read_cluster()
                if cluster is None or cluster.revision is None:
                    self._run_after(len(plan.steps))
            raise
        if plan.steps:
            self._inventory.publish()  # before the host counts as done, so that later plans are exact
        self._run_after(len(plan.steps))

    def _run_after(self, steps: int) -> None:
        if not self._commands.after:
            return
        self._supervision.show("after", steps, steps)
        with failpoints("after"), self._supervision.reporting("after"):
            # A command that fails leaves the host without a version, even if there was no other step.
            self._supervision.begin_changes()
            self._adapters.scripts.run(self._commands.after, name="after", revision=self._supervision.revision)

    def _run_after_failure(self, step: str, error: str) -> None:
        """Run the command for failures; the step has failed and was reported, whatever the command does."""
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
        failure = self._supervision.group_failure
        if failure is None:
            self._record_result()
        else:
            failed, reason = failure
            self._record_result(f"{failed.step}: {reason}", failed)
        with self._supervision.reporting("record the version"):
            self._reporting.deployment.succeed(
                self._supervision.revision, self._supervision.sequence, self._supervision.lacking
            )
            self._supervision.reach_lease()

    def _record_result(self, error: str | None = None, failed: DeploymentFailure | None = None) -> None:
        if self._is_role_change:
            return  # the history is about publications
        seconds = self._adapters.clock.monotonic() - self._begun - self._supervision.waited
        self._inventory.record_result(self._supervision.revision, seconds, error, failed)
