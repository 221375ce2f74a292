"""The hold of a role's lock, from the role controller's start script to its end script."""

from __future__ import annotations

import contextlib
from itertools import count
from typing import TYPE_CHECKING

from zkdeployment.daemons.agent.steps.known_holder import KnownHolder
from zkdeployment.daemons.failpoints import failpoints
from zkdeployment.daemons.queue_pace import TURN
from zkdeployment.errors import ConflictError, LockLostError, UnreachableError
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zkdeployment.adapters.zookeeper.locks.role_locks import RoleRequestLock
    from zkdeployment.daemons.agent.steps.step_runner import StepRunner
    from zkdeployment.daemons.agent.supervision import Supervision
    from zkdeployment.ports.process import Clock


class RoleLockHold:
    """Acquires, checks and releases the lock of this host's role."""

    def __init__(
        self, role: str, lock: RoleRequestLock, clock: Clock, supervisor: Supervision, runner: StepRunner
    ) -> None:
        self._role = role
        self._lock = lock
        self._supervisor = supervisor
        self._runner = runner
        self._holder = KnownHolder(lock, clock)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the lock, hold it during the block, and release it afterwards.

        The lock is kept if the block fails: no other host of this role continues until this host succeeded.
        """
        with failpoints("role-lock"):
            self._enter()
        yield
        with failpoints("role-release"):
            self._retry_until_reachable(self._lock.release)

    def check(self) -> None:
        """Raise ``ConflictError`` unless the deployment may continue and the lock is still held.

        A fleet that another host stopped does not interrupt the steps under this lock. A lock that an operator
        removed does: the next deployment queues again.
        """
        self._supervisor.check(midway=True)
        self._retry_until_reachable(self._check_lock)

    def _check_lock(self) -> None:
        try:
            self._lock.check()
        except LockLostError as error:
            raise ConflictError(str(error)) from error

    def _enter(self) -> None:
        try:
            for turn in count():
                if self._acquire(turn):
                    # Nothing under the lock has begun: a stop since the last check prevents all of it.
                    return self._supervisor.check()
                self._supervisor.check_waiting()
        except BaseException:
            self._lock.withdraw()
            raise

    def _acquire(self, turn: int) -> bool:
        """Return whether the lock was acquired within one turn."""
        try:
            if self._lock.acquire(0):
                return True
            self._holder.read(turn)
            waiting = f"wait for the lock of role {self._role}, {self._holder}"
            if self._runner.show_waiting(waiting):
                get_logger().info("waiting-for-role-lock", role=self._role, step=waiting)
            return self._lock.acquire(TURN)
        except UnreachableError as error:
            get_logger().warning("role-lock-not-acquired", role=self._role, reason=str(error))
            return False

    def _retry_until_reachable(self, call: Callable[[], None]) -> None:
        """Repeat a call until ZooKeeper answers; the supervisor's check runs during the wait and may end it."""
        while True:
            try:
                return call()
            except UnreachableError as error:
                get_logger().warning("role-lock-unreachable", role=self._role, reason=str(error))
                self._supervisor.check(midway=True)
