"""Jobs: the outcomes of commits that acts pushed to the branch."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.publishing.history import PublicationRecord, Refusal
    from zkdeployment.model.tree import Value


class JobState(Enum):
    """The state of a commit."""

    PENDING = "pending"  # the syncer has neither published nor refused it
    PROCESSED = "processed"  # a published revision is the commit, or descends from it
    FAILED = "failed"  # the syncer refused the commit, or a tip that contains the commit


@dataclass(frozen=True, slots=True)
class Job:
    """A commit, its state, the sequence of the first publication with it, and the problems of its refusal.

    ``refused`` is the tip that was refused: the commit, or a revision that contains the commit.
    """

    commit: str
    state: JobState
    sequence: int | None = None
    problems: tuple[str, ...] = ()
    refused: Revision | None = None

    def to_json(self) -> dict[str, Value]:
        """Return the job as the API prints it."""
        return {
            "job": self.commit,
            "state": self.state.value,
            "sequence": self.sequence,
            "problems": [*self.problems],
            "refused": None if self.refused is None else str(self.refused),
        }


def job_of(
    commit: str,
    records: Iterable[PublicationRecord],
    refusals: Iterable[Refusal],
    contains: Callable[[Revision], bool],
) -> Job:
    """Return the job of a commit.

    ``records`` are the publications, newest first, ``refusals`` the refused tips, oldest first. ``contains``
    returns whether a revision is the commit or descends from it. A commit that was refused and published later is
    processed, and so is one that was published before the branch was set back.
    """
    sequence = None
    for record in records:
        if contains(record.revision):
            sequence = record.sequence
        elif sequence is not None:
            break  # the publications before the first one with the commit
    if sequence is not None:
        return Job(commit, JobState.PROCESSED, sequence)
    newest_first = tuple(refusals)[::-1]
    itself = (refusal for refusal in newest_first if refusal.revision == commit)
    containing = (refusal for refusal in newest_first if contains(refusal.revision))
    refusal = next(itself, None) or next(containing, None)
    if refusal is None:
        return Job(commit, JobState.PENDING)
    return Job(commit, JobState.FAILED, problems=refusal.problems, refused=refusal.revision)
