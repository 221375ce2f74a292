"""Acts: what operators did to the fleet, kept under ``/zkdeployment/audit``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.printable import printable

if TYPE_CHECKING:
    from zkdeployment.model.tree import Properties, Value

#: Characters of a reason.
MAX_REASON_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Act:
    """Who (``USER@HOST``) did what, when (seconds since the epoch), and why."""

    by: str
    what: str
    reason: str
    time: float

    def __str__(self) -> str:
        return f"{self.what} by {self.by}: {self.reason or 'no reason given'}"

    def to_json(self) -> dict[str, Value]:
        """Return it as ZooKeeper keeps it and ``-o json`` prints it."""
        return {"by": self.by, "what": self.what, "reason": self.reason, "time": self.time}

    @classmethod
    def from_json(cls, properties: Properties) -> Act:
        """Read it; what is missing or malformed reads as unknown."""
        time = properties.get("time")
        return cls(
            by=str(properties.get("by", "?")),
            what=str(properties.get("what", "?")),
            reason=str(properties.get("reason", "")),
            time=float(time) if isinstance(time, int | float) else 0.0,
        )


def sanitize(text: str) -> str:
    """Return what somebody typed fit for terminals, logs and mail: one line, no control characters."""
    return printable(" ".join(text.split()))[:MAX_REASON_LENGTH]
