"""The lead among several daemons of one kind, as each of them knows it. The election belongs to an adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.adapters.systemd import SystemdNotifier

#: Seconds in the queue for the lead before the watchdog is served again.
_QUEUE = 2.0


class DaemonLead:
    """One daemon's contention for the lead; ``held``: it led when it last asked, and has not lost the lead since.

    ``queue`` waits in the queue for a number of seconds and returns whether this daemon leads. ``otherwise`` is
    the daemon's status while another one leads.
    """

    def __init__(self, queue: Callable[[float], bool], notifier: SystemdNotifier, *, otherwise: str) -> None:
        self._queue = queue
        self._notifier = notifier
        self._otherwise = otherwise
        self.held = False

    def acquire(self) -> bool:
        """Wait in the queue for a moment unless this daemon leads; return whether it leads now."""
        before, self.held = self.held, self._queue(_QUEUE)
        if not self.held:
            self._notifier.status(self._otherwise)
        elif not before:
            get_logger().info("lead-acquired")
        return self.held

    def lose(self) -> None:
        """Note that this daemon does not lead any more, as far as it knows."""
        self.held = False
