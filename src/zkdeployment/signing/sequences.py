"""Which sequences are signed: none that a clock near the truth would not give.

A signature with a sequence far ahead can be hidden and shown to hosts later, in place of newer publications.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.errors import RefusedError
from zkdeployment.model.publication import next_sequence

if TYPE_CHECKING:
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.publication import Published

#: Seconds that a sequence in ZooKeeper may be ahead of the time: the clock of another syncer may be fast.
TOLERANCE = 300

#: Seconds that the sequences of this syncer may be ahead of the time: its clock may have been wrong.
_AHEAD = 86_400


@dataclass(frozen=True, slots=True)
class SigningRecord:
    """What a syncer knows of its signatures without ZooKeeper.

    ``reserved`` is at least the highest sequence that it ever signed. The other values are those of the statement
    that stands; ``sequence`` is 0 if none is known to stand.
    """

    reserved: int = 0
    sequence: int = 0
    since: int = 0
    revision: Revision | None = None

    def covers(self, published: Published) -> bool:
        """Whether a publication, as ZooKeeper names it, is the one that is known to stand."""
        return self.sequence > 0 and (self.sequence, self.since, self.revision) == (
            published.sequence,
            published.effective_since,
            published.revision,
        )


def is_plausible(sequence: int, now: float) -> bool:
    """Whether a clock that is less than a day fast can have given a sequence at ``now``, in seconds."""
    return sequence <= now + _AHEAD


def sequence_to_sign(reserved: int, found: int, now: float) -> int:
    """Return the sequence of the next signed publication, at ``now`` (seconds since the epoch).

    ``reserved`` is from the syncer's own record, ``found`` the highest sequence that others recorded. Raises
    ``RefusedError`` if one of them is too far ahead of the time.
    """
    sequence = next_sequence(reserved, now)
    if found >= sequence:
        if found > now + TOLERANCE:
            raise implausible(found, now)
        sequence = found + 1
    if not is_plausible(sequence, now):
        raise implausible(sequence, now)
    return sequence


def implausible(sequence: int, now: float) -> RefusedError:
    """Return the error of a sequence that is not signed."""
    return RefusedError(
        f"the publication is not signed: expected a sequence near the time {now:.0f}, found {sequence} in"
        " ZooKeeper, or in the files .MIRROR.published and .MIRROR.signed beside tree-directory; correct the clock"
        " of this machine, or find out who changed ZooKeeper: restore /zkdeployment there, and remove the file"
        " with that sequence"
    )
