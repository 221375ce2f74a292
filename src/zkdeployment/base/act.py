"""Acts: interventions of operators in the fleet, kept under ``/zkdeployment/audit``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.base.text import printable

if TYPE_CHECKING:
    from zkdeployment.tree.values import Properties, Value

#: The longest reason that is kept, in characters.
MAX_REASON_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Act:
    """One intervention: the operator (``USER@HOST``), the verb, the reason, and the time in epoch seconds."""

    by: str
    what: str
    reason: str
    time: float

    def __str__(self) -> str:
        return f"{self.what} by {self.by}: {self.reason or 'no reason given'}"

    def to_json(self) -> dict[str, Value]:
        """Return the form of the act that is stored in ZooKeeper and printed by ``-o json``."""
        return {"by": self.by, "what": self.what, "reason": self.reason, "time": self.time}

    @classmethod
    def from_json(cls, properties: Properties) -> Act:
        """Return the act stored in ``properties``; missing or malformed values read as unknown."""
        time = properties.get("time")
        return cls(
            by=str(properties.get("by", "?")),
            what=str(properties.get("what", "?")),
            reason=str(properties.get("reason", "")),
            time=float(time) if isinstance(time, int | float) else 0.0,
        )


def sanitize(text: str) -> str:
    """Return a user's input as text for terminals, logs and mail: one line without control characters."""
    return printable(" ".join(text.split()))[:MAX_REASON_LENGTH]
