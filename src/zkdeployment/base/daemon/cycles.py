"""The cycles of a daemon: the loop, pauses and random waits, failures, and the lead among several daemons.

The work of a cycle, and the kinds of failures with their pauses, belong to each daemon.
"""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING

from zkdeployment.base.errors import (
    ConflictError,
    LockLostError,
    UnreachableError,
    ZkdeploymentError,
    error_message,
)
from zkdeployment.base.log import get_logger
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.base.daemon.control import Control
    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.base.machine.systemd import SystemdNotifier


@dataclass
class Backoff:
    """The pause in ``seconds``: 0 at first, ``first`` after one failure, doubled by each more up to ``most``."""

    first: float
    most: float
    seconds: float = 0.0

    def fail(self) -> float:
        """Record a failed cycle and return the pause after it."""
        self.seconds = min(self.most, self.seconds * 2 or self.first)
        return self.seconds

    def reset(self) -> None:
        """Record a successful cycle: there is no pause."""
        self.seconds = 0.0


def jittered(seconds: float, share: float = 0.2) -> float:
    """Return ``seconds`` changed at random by up to ``share`` of it, up or down."""
    return seconds * random.uniform(1 - share, 1 + share)  # noqa: S311  not a secret


def spread(seconds: float) -> float:
    """Return a random delay between 0 and ``seconds``, for hosts that are all woken by one change."""
    return random.uniform(0, seconds)  # noqa: S311  not a secret


@dataclass(frozen=True)
class FailureKind:
    """Errors of one kind, with the event and the level of their log lines; metrics count them by event.

    ``pause`` is the number of seconds until the next cycle, unless the daemon determines it.
    """

    error: type[Exception]
    event: str
    level: int
    pause: float = 0.0


class CycleFailures:
    """Logs failures by ``kinds``: the first kind whose error type matches applies.

    ``show`` gets the first line of each message, for the status of the daemon. ``record`` gets the message of each
    unexpected error (an error that only the kind of all errors matches), and an empty text when cycles no longer
    end with such an error. Operators see these messages.
    """

    def __init__(
        self,
        kinds: Sequence[FailureKind],
        show: Callable[[str], None] = lambda _message: None,
        record: Callable[[str], None] = lambda _message: None,
    ) -> None:
        self._kinds = kinds
        self._show = show
        self._record = record
        self._logged = ""

    def report(self, error: Exception) -> FailureKind:
        """Log an error, unless the previous cycle failed with the same message; return its kind.

        Defects of the program are logged with a traceback.
        """
        kind = next(kind for kind in self._kinds if isinstance(error, kind.error))
        message = error_message(error)
        self._show(message.partition("\n")[0])
        if message != self._logged:
            defect = None if isinstance(error, ZkdeploymentError) else error
            get_logger().log(kind.level, kind.event, reason=message, exc_info=defect)
        self._logged = message
        if kind.error is Exception:
            self._record(message)
        elif not isinstance(error, UnreachableError):  # without ZooKeeper, the outcome of the cycle is unknown
            self._record("")
        return kind

    def end(self) -> None:
        """Note a cycle without a failure: the next failure is logged, even with the same message as before."""
        self._logged = ""
        self._record("")


def run_cycles(
    run_cycle: Callable[[], float],
    control: Control,
    clock: Clock,
    notifier: SystemdNotifier,
    *,
    least: Callable[[], float],
) -> None:
    """Run cycles until the daemon is asked to end.

    ``run_cycle`` returns the seconds until the next cycle, which a change may shorten. ``least`` is called after
    each cycle and returns the least seconds between the starts of two cycles.
    """
    while not control.stopping:
        begun = clock.monotonic()
        pause = run_cycle()
        notifier.watchdog()
        control.wait(min(pause, notifier.pace))
        earliest = begun + least()
        while (remaining := earliest - clock.monotonic()) > 0 and not control.stopping:
            control.wait(min(remaining, notifier.pace))
            notifier.watchdog()


#: The failures that are usual for a daemon of which several run and one leads.
LEAD_FAILURES = (
    FailureKind(LockLostError, "lead-lost", logging.WARNING),
    FailureKind(ConflictError, "write-conflicted", logging.INFO),
    FailureKind(UnreachableError, "zookeeper-unreachable", logging.WARNING, pause=2.0),
)

#: The outcome of a cycle in which another daemon leads.
QUEUED = "queued"

#: Seconds in the queue for the lead before the watchdog is notified again.
_QUEUE = 2.0


class DaemonLead:
    """One daemon's contention for the lead; ``held``: the daemon has acquired the lead and not lost it since.

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
        """Note that this daemon may no longer lead."""
        self.held = False
