"""Work in progress: the script that a host runs under a service node's lock, kept under ``/zkdeployment/busy``.

The record outlives the lock: a host whose session expired may still be running the script. A record may also be
kept for its host: the script was cut off, or runs without its agent, and the host has to complete the step first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkdeployment.model.tree import Properties, Value


@dataclass(frozen=True)
class LockedWork:
    """A step that a host executes under a lock; ``since`` is when it started, in seconds since the epoch.

    A ``kept`` record blocks other hosts until its host has completed the step, or an operator releases the lock;
    others block them for the lock delay.
    """

    host_id: str
    host_name: str
    step: str
    since: float
    kept: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.host_name} ({self.host_id}) at {self.step}"

    def properties(self) -> dict[str, Value]:
        """Return the properties of the record's node."""
        kept: dict[str, Value] = {"kept": True} if self.kept else {}
        return {"host": self.host_id, "name": self.host_name, "step": self.step, "since": self.since, **kept}

    @classmethod
    def from_properties(cls, properties: Properties) -> LockedWork:
        """Return the work that a node describes; missing values read as unknown."""
        since = properties.get("since")
        return cls(
            host_id=str(properties.get("host", "?")),
            host_name=str(properties.get("name", "?")),
            step=str(properties.get("step", "?")),
            since=float(since) if isinstance(since, int | float) else 0.0,
            kept=properties.get("kept") is True,
        )
