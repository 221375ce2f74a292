"""History: what was published, when and by whom, and how it went on each host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.model.origin import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.tree import Properties, Value

#: Characters of an error.
MAX_ERROR_LENGTH = 300


@dataclass(frozen=True, slots=True)
class HostResult:
    """How a publication went on a host: when that was over (seconds since the epoch), how many seconds it took.

    ``error`` is one line; ``None``: it was done.
    """

    host_id: str
    host_name: str
    time: float
    seconds: float
    error: str | None = None

    def to_json(self) -> dict[str, Value]:
        """Return it as ZooKeeper keeps it and ``-o json`` prints it."""
        return {
            "id": self.host_id,
            "name": self.host_name,
            "time": round(self.time, 1),
            "seconds": round(self.seconds, 1),
            "error": None if self.error is None else self.error[:MAX_ERROR_LENGTH],
        }

    @classmethod
    def from_json(cls, properties: Properties) -> HostResult:
        """Read it; what is missing or malformed reads as unknown."""
        error = properties.get("error")
        return cls(
            host_id=str(properties.get("id", "?")),
            host_name=str(properties.get("name", "?")),
            time=_number(properties.get("time")),
            seconds=_number(properties.get("seconds")),
            error=None if error is None else str(error),
        )


@dataclass(frozen=True, slots=True)
class ForcedBy:
    """Who (``USER@HOST``) had a publication forced, and why."""

    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PublicationRecord:
    """One publication: its sequence, what, when (seconds since the epoch), where it comes from, who forced it.

    ``hosts`` is how many were registered then, ``excluded`` how many of these the publication's strategy put in no
    group; ``results`` are by host id. ``left_out`` is how many hosts that
    were done are only counted, for want of room.
    """

    revision: Revision
    time: float
    sequence: int = 0
    origin: Origin | None = None
    forced: ForcedBy | None = None
    hosts: int = 0
    excluded: int = 0
    results: Mapping[str, HostResult] = field(default_factory=dict)
    left_out: int = 0

    @property
    def expected(self) -> int:
        """How many of the registered hosts were to take it up."""
        return max(0, self.hosts - self.excluded)

    @property
    def failed(self) -> int:
        """How many hosts failed."""
        return sum(1 for one in self.results.values() if one.error is not None)

    @property
    def done(self) -> int:
        """How many hosts have it."""
        return len(self.results) - self.failed + self.left_out

    @property
    def ended(self) -> float | None:
        """When the last host was done or failed, if any was."""
        return max((one.time for one in self.results.values()), default=None)

    def to_json(self) -> dict[str, Value]:
        """Return it as ZooKeeper keeps it."""
        origin, forced = self.origin, self.forced
        return {
            "revision": self.revision,
            "time": self.time,
            "sequence": self.sequence,
            "author": None if origin is None else origin.author,
            "subject": None if origin is None else origin.subject,
            "committed": None if origin is None else origin.time,
            "signer": None if origin is None else origin.signer,
            "forced_by": None if forced is None else forced.by,
            "reason": None if forced is None else forced.reason,
            "hosts": self.hosts,
            "excluded": self.excluded,
            "results": [one.to_json() for _, one in sorted(self.results.items())],
            "left_out": self.left_out,
        }

    def summary(self) -> dict[str, Value]:
        """Return it as the list of ``history`` prints it: counts instead of results."""
        found = self.to_json()
        del found["results"], found["left_out"]
        return found | {"done": self.done, "failed": self.failed, "ended": self.ended}

    @classmethod
    def from_json(cls, properties: Properties) -> PublicationRecord:
        """Read it; what is missing or malformed reads as unknown."""
        revision, author, by = (properties.get(name) for name in ("revision", "author", "forced_by"))
        signer, listed = properties.get("signer"), properties.get("results")
        results = (
            [HostResult.from_json(one) for one in listed if isinstance(one, dict)]
            if isinstance(listed, list)
            else []
        )
        return cls(
            revision=revision if isinstance(revision, str | int) else "?",
            time=_number(properties.get("time")),
            sequence=int(_number(properties.get("sequence"))),
            origin=None
            if author is None
            else Origin(
                author=str(author),
                subject=str(properties.get("subject", "")),
                time=_number(properties.get("committed")),
                signer=None if signer is None else str(signer),
            ),
            forced=None if by is None else ForcedBy(str(by), str(properties.get("reason") or "")),
            hosts=int(_number(properties.get("hosts"))),
            excluded=int(_number(properties.get("excluded"))),
            results={one.host_id: one for one in results},
            left_out=int(_number(properties.get("left_out"))),
        )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and abs(value) < 2**53 else 0.0
