"""A stop: why the fleet is stopped or held, kept under ``/zkdeployment/stops`` until it is resumed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.model.cluster import short

if TYPE_CHECKING:
    from zkdeployment.model.act import Act
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.tree import Properties, Value

HOLD = "hold"

#: Who stops the fleet when a rollout failed; an operator is ``USER@HOST``.
COORDINATOR = "the coordinator"


@dataclass(frozen=True, slots=True)
class Stop:
    """A failure that stopped the fleet: where, when (seconds since the epoch), at which step, and why.

    Or what an operator did: ``by`` says who, ``step`` is ``stop`` or ``hold``, and there is no host. ``replaced``
    is how many stops are not kept any more because this one took their place.
    """

    host_id: str
    host_name: str
    revision: Revision
    step: str
    reason: str
    time: float
    by: str | None = None
    replaced: int = 0

    def __str__(self) -> str:
        if self.by is not None:
            return f"{'held' if self.is_hold else 'stopped'} by {self.by}: {self.reason}"
        where = f"{self.host_name} ({self.host_id})"
        return f"{where} failed at {self.step} of {short(self.revision)}: {self.reason}"

    @property
    def is_hold(self) -> bool:
        """Whether an operator holds the fleet, which stops less than a stop."""
        return self.by is not None and self.step == HOLD

    @property
    def is_failure(self) -> bool:
        """Whether something failed; what an operator does is meant."""
        return self.by is None or self.by == COORDINATOR

    @property
    def key(self) -> str:
        """What tells it from other stops: the host's id, or the operator behind a mark that no host id has."""
        return self.host_id if self.by is None else f"~{self.by}"

    def properties(self) -> dict[str, Value]:
        """Return the properties of its node."""
        if self.by is not None:
            return {"by": self.by, "step": self.step, "reason": self.reason, "time": self.time}
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
        by = properties.get("by")
        return cls(
            host_id=str(properties.get("host", "?")),
            host_name=str(properties.get("name", "?")),
            revision=revision if isinstance(revision, str | int) else "?",
            step=str(properties.get("step", "?")),
            reason=str(properties.get("reason", "?")),
            time=float(time) if isinstance(time, int | float) else 0.0,
            by=by if isinstance(by, str) else None,
        )

    @classmethod
    def of_operator(cls, act: Act) -> Stop:
        """Make it of an operator's ``stop`` or ``hold``."""
        return cls("?", "?", "?", act.what, act.reason, act.time, by=act.by)
