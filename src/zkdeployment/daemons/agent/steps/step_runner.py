"""Runs single steps of a plan under supervision: shows, checks, logs and reports each of them.

The order of steps and the locks they need belong to the executor, the changes of the host to ``step_effects``.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.daemons.agent.steps.group_stops import GroupStoppedError
from zkdeployment.daemons.failpoints import failpoints
from zkdeployment.log import bound, get_logger
from zkdeployment.model.plan import Deploy, Undeploy, group_of, packages_of
from zkdeployment.planning.plan_text import sentence

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.adapters.zookeeper.locks.service_locks import ZooKeeperServiceLock
    from zkdeployment.daemons.agent.steps.step_effects import StepEffects
    from zkdeployment.daemons.agent.supervision import Supervision
    from zkdeployment.model.plan import CheckOut, PackageChange, Step


class StepRunner:
    """Runs the ``total`` steps of one plan, one at a time, and counts them.

    All methods let the supervisor's errors pass.
    """

    def __init__(self, effects: StepEffects, supervisor: Supervision, total: int) -> None:
        self._effects = effects
        self._supervisor = supervisor
        self._done = 0
        self._total = total

    def prepare_packages(self, change: PackageChange) -> None:
        """Prepare a package change that a later step commits."""
        self._supervisor.check_waiting()  # nothing changes before the check of that step
        self.show("prepare packages")
        with self._supervisor.reporting("prepare packages", packages=change.names), failpoints("prepare"):
            self._effects.prepare_packages(change)

    def fetch(self, step: CheckOut) -> None:
        """Fetch a checkout that a later step installs."""
        self._supervisor.check_waiting()
        name = f"fetch {step.package}"
        self.show(name)
        with self._supervisor.reporting(name, packages=[step.package]), failpoints("fetch"):
            self._effects.fetch(step)

    def run(
        self, step: Step, *, lock: ZooKeeperServiceLock | None = None, check: Callable[[], None] | None = None
    ) -> None:
        """Run one step; ``lock`` is the lock of its service, if this host holds it.

        ``check`` replaces the supervisor's check. A step whose group is stopped, or becomes stopped by the failure
        of this step, is left. Raises ``LockLostError``, before the step changes anything, if the lock is lost.
        """
        with contextlib.suppress(GroupStoppedError):
            if not self._supervisor.withholds(step):
                self._run(step, lock, check or self._supervisor.check)
        self._done += 1

    def _run(self, step: Step, lock: ZooKeeperServiceLock | None, check: Callable[[], None]) -> None:
        deployment = step.deployment if isinstance(step, Deploy | Undeploy) else None
        shown = {} if deployment is None else {"deployment": str(deployment)}
        packages = packages_of(step)
        with (
            bound(**shown),
            self._supervisor.reporting(step.title, deployment=deployment, packages=packages, group=group_of(step)),
        ):
            self.show(step.title)
            self._authorize(step, lock, check)  # last: what it finds soon becomes outdated
            if self._supervisor.withholds(step):
                return
            get_logger().info("step", sentence=sentence(step), done=self._done, total=self._total)
            with failpoints(step.kind.replace(" ", "-")):
                self._effects.apply(step, lock)

    def show(self, step: str) -> bool:
        """Show the current step of the host; return whether it differs from the last one shown."""
        return self._supervisor.show(step, self._done, self._total)

    def show_waiting(self, step: str) -> bool:
        """Show that the host waits for other hosts, and do as ``show`` does.

        Work that is kept for this host is handed on, so that no two hosts wait for each other.
        """
        changed = self.show(step)
        if changed:
            self._supervisor.hand_on_work()
        return changed

    def _authorize(self, step: Step, lock: ZooKeeperServiceLock | None, check: Callable[[], None]) -> None:
        if lock is not None:
            self._supervisor.begin_locked(step.title, lock)
            return
        check()
        if self._supervisor.begin_changes():
            check()  # recording the first change took time
