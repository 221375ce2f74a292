"""Refusals: tips of the branch that the syncer does not publish, with the problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.model.cluster import is_revision

if TYPE_CHECKING:
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.tree import Properties, Value

#: The largest number of problems of a refusal that are kept, and of characters of each.
MOST_PROBLEMS = 20
MAX_PROBLEM_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Refusal:
    """A tip that a syncer refused at ``time``, in seconds since the epoch, and why."""

    revision: Revision
    problems: tuple[str, ...]
    time: float

    def to_json(self) -> dict[str, Value]:
        """Return the refusal as it is stored in ZooKeeper and printed by ``-o json``."""
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
