"""History: the record of each publication, and the refusals of tips."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zkdeployment.model.cluster import is_revision
from zkdeployment.model.history import HostResult, number
from zkdeployment.model.origin import Origin
from zkdeployment.unknown_keys import no_keys, unknown_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.tree import Properties, Value

#: The largest number of problems of a refusal that are kept, and of characters of each.
MOST_PROBLEMS = 20
MAX_PROBLEM_LENGTH = 500

#: The keys of the record of a publication.
_KEYS = frozenset(
    {
        "revision",
        "time",
        "sequence",
        "since",
        "author",
        "subject",
        "committed",
        "signer",
        "forced_by",
        "reason",
        "hosts",
        "excluded",
        "results",
        "left_out",
    }
)


@dataclass(frozen=True)
class ForcedBy:
    """The operator (``USER@HOST``) who forced a publication, and the reason."""

    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PublicationRecord:
    """The record of one publication at ``time``, in seconds since the epoch.

    ``hosts`` is the number of registered hosts at that time; ``excluded`` is the number of these that the
    publication's strategy put in no group. ``since`` is the sequence of the last publication that concerned hosts:
    an earlier one if only documents changed; 0 in old records. ``results`` maps host ids to results. ``left_out``
    is the number of successful hosts that are only counted, because the record has no room for their results.
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
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)
    since: int = 0

    @property
    def effective_since(self) -> int:
        """The sequence of the last publication that concerned hosts: this one, unless only documents changed."""
        return self.since or self.sequence

    @property
    def is_repetition(self) -> bool:
        """Whether only documents changed: hosts that had the publication before recorded this one, too."""
        return self.effective_since < self.sequence

    @property
    def expected(self) -> int:
        """The number of registered hosts that were expected to deploy the publication."""
        return 0 if self.is_repetition else max(0, self.hosts - self.excluded)

    @property
    def failed(self) -> int:
        """The number of hosts that failed."""
        return sum(1 for result in self.results.values() if result.error is not None)

    @property
    def done(self) -> int:
        """The number of hosts that deployed the publication successfully."""
        return len(self.results) - self.failed + self.left_out

    @property
    def ended(self) -> float | None:
        """The time at which the last host finished or failed; ``None`` before the first one did."""
        return max((result.time for result in self.results.values()), default=None)

    def to_json(self) -> dict[str, Value]:
        """Return the form of the record that is stored in ZooKeeper."""
        origin, forced = self.origin, self.forced
        return {
            "revision": self.revision,
            "time": self.time,
            "sequence": self.sequence,
            "since": self.since,
            "author": None if origin is None else origin.author,
            "subject": None if origin is None else origin.subject,
            "committed": None if origin is None else origin.time,
            "signer": None if origin is None else origin.signer,
            "forced_by": None if forced is None else forced.by,
            "reason": None if forced is None else forced.reason,
            "hosts": self.hosts,
            "excluded": self.excluded,
            "results": [result.to_json() for _, result in sorted(self.results.items())],
            "left_out": self.left_out,
        }

    def summary(self) -> dict[str, Value]:
        """Return the record as the list of ``history`` prints it: with counts instead of results."""
        summary = self.to_json()
        del summary["results"], summary["left_out"]
        return summary | {"done": self.done, "failed": self.failed, "ended": self.ended}

    @classmethod
    def from_json(cls, properties: Properties) -> PublicationRecord:
        """Return the value stored in ``properties``; missing or malformed values read as unknown."""
        revision, author, by = (properties.get(name) for name in ("revision", "author", "forced_by"))
        signer, listed = properties.get("signer"), properties.get("results")
        results = (
            [HostResult.from_json(entry) for entry in listed if isinstance(entry, dict)]
            if isinstance(listed, list)
            else []
        )
        return cls(
            revision=revision if isinstance(revision, str | int) else "?",
            time=number(properties.get("time")),
            sequence=int(number(properties.get("sequence"))),
            since=int(number(properties.get("since"))),
            origin=None
            if author is None
            else Origin(
                author=str(author),
                subject=str(properties.get("subject", "")),
                time=number(properties.get("committed")),
                signer=None if signer is None else str(signer),
            ),
            forced=None if by is None else ForcedBy(str(by), str(properties.get("reason") or "")),
            hosts=int(number(properties.get("hosts"))),
            excluded=int(number(properties.get("excluded"))),
            results={result.host_id: result for result in results},
            left_out=int(number(properties.get("left_out"))),
            unknown=unknown_keys(properties, _KEYS),
        )


@dataclass(frozen=True)
class Refusal:
    """A tip that a syncer refused at ``time``, in seconds since the epoch, and why."""

    revision: Revision
    problems: tuple[str, ...]
    time: float

    def to_json(self) -> dict[str, Value]:
        """Return the form of the refusal that is stored in ZooKeeper and printed by ``-o json``."""
        return {"revision": self.revision, "problems": [*self.problems], "time": self.time}

    @classmethod
    def from_json(cls, properties: Properties) -> Refusal:
        """Return the refusal stored in ``properties``; missing or malformed values read as unknown."""
        revision, time, problems = (properties.get(name) for name in ("revision", "time", "problems"))
        return cls(
            revision=revision if is_revision(revision) else "?",
            problems=tuple(map(str, problems)) if isinstance(problems, list) else (),
            time=float(time) if isinstance(time, int | float) else 0.0,
        )
