"""The failures of a daemon's cycles: how errors of each kind are logged, each failure once while it persists.

How long a daemon pauses after a failure belongs to the daemon, or to ``backoff``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.errors import UnreachableError, ZkdeploymentError, error_message
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True)
class FailureKind:
    """Errors of one kind, with the event and the level of their log lines; metrics count them by event."""

    error: type[Exception]
    event: str
    level: int


class CycleFailures:
    """Logs failures by ``kinds``: the first kind whose error type matches applies.

    ``show`` gets the first line of each message, for the status of the daemon. ``record`` gets the message of each
    unexpected error, one whose kind is that of all errors, and an empty text when cycles do not end with such an
    error any more: operators see it.
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
        """Log an error, unless the cycle before failed with the same message; return its kind.

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
        """Note a cycle without failure: the next failure is logged, even if its message is the last one again."""
        self._logged = ""
        self._record("")
