"""What ``why`` answers: a cause, in words, with what supports it and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkdeployment.model.tree import Value


class Cause(Enum):
    """What it comes down to."""

    CONVERGED = "converged"
    UNPUBLISHED = "unpublished"  # nothing was ever published
    UNKNOWN = "unknown"  # nobody knows the host
    ABSENT = "absent"  # its agent is not registered
    FAILED = "failed"
    STOPPED = "stopped"
    HELD = "held"
    IMPORTING = "importing"  # a publication is under way, or was interrupted
    LOCK = "lock"  # it waits for one
    WORKING = "working"
    IDLE = "idle"  # it is registered and has not begun
    ROLLOUT = "rollout"  # its turn has not come in the rollout


@dataclass(frozen=True, slots=True)
class Explanation:
    """The cause, a sentence that says it, facts that support it, and what to do."""

    cause: Cause
    sentence: str
    facts: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Value]:
        """Return it as ``-o json`` prints it."""
        return {
            "cause": self.cause.value,
            "answer": self.sentence,
            "facts": [*self.facts],
            "advice": [*self.advice],
        }
