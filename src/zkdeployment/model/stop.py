"""A stop: why the fleet was stopped, kept under ``/zkdeployment/stops`` until it is resumed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.model.cluster import short

if TYPE_CHECKING:
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.tree import Properties, Value


@dataclass(frozen=True, slots=True)
class Stop:
    """A failure that stopped the fleet: where, when (seconds since the epoch), at which step, and why."""

    host_id: str
    host_name: str
    revision: Revision
    step: str
    reason: str
    time: float

    def __str__(self) -> str:
        where = f"{self.host_name} ({self.host_id})"
        return f"{where} failed at {self.step} of {short(self.revision)}: {self.reason}"

    def properties(self) -> dict[str, Value]:
        """Return the properties of its node."""
        return {
            "host": self.host_id,
            "name": self.host_name,
            "revision": self.revision,
            "step": self.step,
            "reason": self.reason,
            "time": self.time,
        }

    @classmethod
    def from_properties(cls, properties: Properties) -> Stop:
        """Read its node; what is missing reads as unknown."""
        revision = properties.get("revision")
        time = properties.get("time")
        return cls(
            host_id=str(properties.get("host", "?")),
            host_name=str(properties.get("name", "?")),
            revision=revision if isinstance(revision, str | int) else "?",
            step=str(properties.get("step", "?")),
            reason=str(properties.get("reason", "?")),
            time=float(time) if isinstance(time, int | float) else 0.0,
        )
