"""The protocol between the execution of a plan and the deployment that supervises it.

This module has the protocol only, so that the modules that execute steps do not depend on the supervisor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection
    from contextlib import AbstractContextManager

    from zkdeployment.model.deployment import Deployment
    from zkdeployment.ports.locks import ServiceLock


class StepSupervisor(Protocol):
    """Permits, shows and reports the steps of one deployment."""

    def check(self, *, midway: bool = False) -> None:
        """Raise ``ConflictError`` unless the deployment may continue, ``ShutdownError`` if the agent has to end.

        ``midway``: the caller is between two actions that belong together; a stopped or held fleet and the
        rollout do not interrupt these.
        """

    def check_waiting(self) -> None:
        """Do as ``check`` for a host that waits, often: ask ZooKeeper only if something may have changed."""

    def begin_locked(self, step: str, lock: ServiceLock) -> None:
        """Check as ``check`` does, begin the changes, and record a step under the lock of its service.

        The step is recorded only if the cluster version is still the one that was checked.
        """

    def hand_on_work(self, pending: Collection[Deployment] = ()) -> None:
        """Hand on the locks that are kept for this host, except those of the services of ``pending``."""

    def begin_changes(self) -> bool:
        """Record that the host has no version any more, before the first change of the deployment.

        Returns whether this call recorded that.
        """

    def show(self, step: str, done: int, total: int) -> bool:
        """Show the current step and return whether it differs from the step shown before."""

    def reporting(
        self, step: str, *, deployment: Deployment | None = None, packages: Collection[str] = ()
    ) -> AbstractContextManager[None]:
        """Report failures of the block to the fleet before enclosing blocks release their locks.

        ``deployment`` or ``packages`` are what the step is about.
        """
