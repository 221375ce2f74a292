"""Decides which sequences may be signed: only sequences that are close to the present time.

An attacker could keep a signature with a sequence far ahead of the time, and show it to hosts later in place of
newer publications.
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
    """The syncer's own record of its signatures, kept outside ZooKeeper.

    The syncer has never signed a sequence above ``reserved``. The other values are those of the last statement
    that was published; ``sequence`` is 0 if it is not known which statement that is. ``left`` as in ``Statement``.
    """

    reserved: int = 0
    sequence: int = 0
    since: int = 0
    revision: Revision | None = None
    left: str | None = None

    def covers(self, published: Published) -> bool:
        """Whether the publication that ZooKeeper names is the last publication in this record."""
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
    """Return the error for a sequence that must not be signed."""
    return RefusedError(
        f"the publication is not signed: expected a sequence near the time {now:.0f}, found {sequence} in"
        " ZooKeeper, or in the files .MIRROR.published and .MIRROR.signed beside tree-directory; correct the clock"
        " of this machine, or find out who changed ZooKeeper: restore /zkdeployment there, and remove the file"
        " with that sequence"
    )
