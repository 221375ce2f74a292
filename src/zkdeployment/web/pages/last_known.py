"""The last values that pages read beside the cached fleet, for times without ZooKeeper."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from zkdeployment.errors import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")


class Known(Enum):
    """The values that are remembered: one of each kind, so that the memory is bounded."""

    LOCKS = "locks"
    HISTORY = "history"
    TARGETS = "targets"
    INTENTS = "intents"
    REPORTS = "reports"
    WITHHELD = "withheld"
    LEFT = "left"
    SESSIONS = "sessions that have ended"
    USES = "the use of pools"


class LastKnown:
    """Remembers the last value of each kind. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._values: dict[Known, Any] = {}

    def read(self, kind: Known, read: Callable[[], T], default: T) -> T:
        """Return what ``read`` returns; while ZooKeeper is unreachable, its last value, or else ``default``."""
        try:
            value = self._values[kind] = read()
        except UnreachableError:
            value = self._values.get(kind, default)
        return value
