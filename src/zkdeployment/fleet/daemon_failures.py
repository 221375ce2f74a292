"""Daemons whose cycles fail for a reason that the program did not expect, as they record it for operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.fleet.ages import age

if TYPE_CHECKING:
    from zkdeployment.model.tree import Value


@dataclass(frozen=True, slots=True)
class DaemonFailure:
    """A daemon whose cycles fail: its kind, its host and process, the error, and when it first failed.

    The daemon removes the record after a cycle without such an error; its end removes the record, too. ``since``
    is in seconds since the epoch.
    """

    daemon: str
    by: str
    message: str
    since: float

    def to_json(self) -> dict[str, Value]:
        """Return the failure as ``-o json`` prints it."""
        return {"daemon": self.daemon, "by": self.by, "message": self.message, "since": self.since}


def describe_failure(failure: DaemonFailure, now: float) -> str:
    """Return the failure as a sentence for lists; ``now`` is in seconds since the epoch."""
    lasting = age(max(0.0, now - failure.since))
    return f"the {failure.daemon} {failure.by} has failed in each cycle for {lasting}: {failure.message}"
