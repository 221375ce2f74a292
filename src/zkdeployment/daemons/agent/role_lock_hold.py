"""Tenure of a role's lock, from the role controller's start script to its end script."""

from __future__ import annotations

import contextlib
from itertools import count
from typing import TYPE_CHECKING

from zkdeployment.daemons.failpoints import reach
from zkdeployment.daemons.queue_pace import TURN, asks_for_holder
from zkdeployment.errors import ConflictError, LockLostError, UnreachableError
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zkdeployment.daemons.agent.executor import StepSupervisor
    from zkdeployment.ports.locks import RoleLock


class RoleLockHold:
    """What a host does while its role's lock is its own.

    ``show`` tells what it waits for, and says whether that is news.
    """

    def __init__(self, role: str, lock: RoleLock, supervisor: StepSupervisor, show: Callable[[str], bool]) -> None:
        self._role = role
        self._lock = lock
        self._supervisor = supervisor
        self._show = show
        self._holder: str | None = None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the lock and hold it.

        What goes wrong inside leaves it taken: nobody else of this role goes on until this host succeeded.
        """
        self._enter()
        reach("after:role-lock")
        yield
        reach("before:role-release")
        self._retry_until_reachable(self._lock.release)

    def check(self) -> None:
        """Like the supervisor's, but what is under way is finished although another host stopped the fleet.

        Raises ``ConflictError`` also when somebody took the lock away: then queue again.
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
                if self._is_ours(turn):
                    return
                self._supervisor.check()
        except BaseException:
            self._lock.withdraw()  # it was never ours
            raise

    def _is_ours(self, turn: int) -> bool:
        try:
            if self._lock.acquire(0):
                return True
            if self._holder is None or asks_for_holder(turn, self._lock.ahead):
                self._holder = self._lock.holder()
            waiting = f"wait for the lock of role {self._role}, held by {self._holder or 'nobody'}"
            if self._show(waiting):
                get_logger().info("waiting-for-role-lock", role=self._role, step=waiting)
            return self._lock.acquire(TURN)
        except UnreachableError as error:
            get_logger().warning("role-lock-not-taken", role=self._role, reason=str(error))
            return False

    def _retry_until_reachable(self, call: Callable[[], None]) -> None:
        """Do a call until ZooKeeper answers; the supervisor waits for it, and may end that."""
        while True:
            try:
                return call()
            except UnreachableError as error:
                get_logger().warning("role-lock-unreachable", role=self._role, reason=str(error))
                self._supervisor.check(midway=True)
