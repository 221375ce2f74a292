"""Acts: interventions of operators in the fleet, kept under ``/zkdeployment/audit``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from zkdeployment.base.records import Key, Record
from zkdeployment.base.text import printable

#: The longest reason that is kept, in characters.
MAX_REASON_LENGTH = 500

#: The recorded reason of an emergency act without a reason.
NO_REASON = "no reason given"


@dataclass(frozen=True, slots=True)
class Act(Record):
    """One intervention: the operator (``USER@HOST``), the verb, the reason, and the time in epoch seconds."""

    is_lenient: ClassVar[bool] = True
    by: Annotated[str, Key(about="The user of the service, or USER@HOST for a verb.")]
    what: str
    reason: str = ""
    time: float = 0.0

    def __str__(self) -> str:
        return f"{self.what} by {self.by}: {self.reason or NO_REASON}"


def sanitize(text: str) -> str:
    """Return a user's input as text for terminals, logs and mail: one line without control characters."""
    return printable(" ".join(text.split()))[:MAX_REASON_LENGTH]
