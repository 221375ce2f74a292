"""Leases of monitoring systems: one bridge at a time gets the updates of a system."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.tree import Value

#: Seconds for which a request of a bridge keeps the lease, and the rest from which on a request renews it.
_DURATION = 120.0
_RENEWED = 80.0


@dataclass(frozen=True, slots=True)
class SystemLease:
    """The bridge that gets the updates of a monitoring system until a time, in seconds since the epoch."""

    holder: str
    until: float

    def is_held(self, now: float) -> bool:
        """Whether the lease holds; one that ends too late was written by a service whose clock was wrong."""
        return now < self.until <= now + 2 * _DURATION

    @property
    def end(self) -> str:
        """The end of the lease in words."""
        return datetime.fromtimestamp(self.until, UTC).isoformat(sep=" ", timespec="seconds")

    def to_json(self) -> dict[str, Value]:
        """Return the stored form of the lease."""
        return {"holder": self.holder, "until": self.until}

    @classmethod
    def from_json(cls, value: Mapping[str, Value]) -> SystemLease | None:
        """Return the lease that ``to_json`` encoded; ``None`` for anything else."""
        match value:
            case {"holder": str(holder), "until": int() | float() as until, **_others}:
                return cls(holder, until)
            case _:
                return None


def lease_after(lease: SystemLease | None, bridge: str, now: float) -> SystemLease | None:
    """Return the lease after a request of a bridge: its own one, or that of the bridge that holds it.

    A bridge without a name, which is empty then, gets no lease.
    """
    if lease is not None and lease.is_held(now) and (lease.holder != bridge or lease.until - now >= _RENEWED):
        return lease
    return SystemLease(bridge, now + _DURATION) if bridge else None
