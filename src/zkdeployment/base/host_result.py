"""The result of a publication on a host. The records of publications belong into ``publishing``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zkdeployment.base.deployment import DeploymentFailure
from zkdeployment.base.json_values import no_keys, unknown_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.tree.values import Properties, Value

#: The longest error that is kept, in characters.
MAX_ERROR_LENGTH = 300

_KEYS = frozenset({"id", "name", "time", "seconds", "error", "failed"})


@dataclass(frozen=True, slots=True)
class HostResult:
    """The result of a publication on a host.

    ``time`` is when the host finished or failed, in seconds since the epoch; ``seconds`` is the duration of its
    deployment. ``error`` is one line; ``None`` means success. ``failed`` is the failure that ``error`` is about.
    ``unknown`` are the keys that this version does not know.
    """

    host_id: str
    host_name: str
    time: float
    seconds: float
    error: str | None = None
    failed: DeploymentFailure | None = None
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)

    def to_json(self) -> dict[str, Value]:
        """Return the form of the result that is stored in ZooKeeper and printed by ``-o json``."""
        return {
            "id": self.host_id,
            "name": self.host_name,
            "time": round(self.time, 1),
            "seconds": round(self.seconds, 1),
            "error": None if self.error is None else self.error[:MAX_ERROR_LENGTH],
            "failed": None if self.failed is None else self.failed.properties(),
        }

    @classmethod
    def from_json(cls, properties: Properties) -> HostResult:
        """Return the value stored in ``properties``; missing or malformed values read as unknown."""
        error = properties.get("error")
        return cls(
            host_id=str(properties.get("id", "?")),
            host_name=str(properties.get("name", "?")),
            time=number(properties.get("time")),
            seconds=number(properties.get("seconds")),
            error=None if error is None else str(error),
            failed=DeploymentFailure.from_properties(properties.get("failed")),
            unknown=unknown_keys(properties, _KEYS),
        )


def number(value: object) -> float:
    """Return a number that was stored, 0 for anything else."""
    return float(value) if isinstance(value, int | float) and abs(value) < 2**53 else 0.0
