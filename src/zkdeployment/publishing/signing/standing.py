"""The publications that a syncer signs: their sequences, and the buckets of all their targets.

Sequences must be near the present time: an attacker could keep a signature with a sequence far in the future, and
later show it to hosts in place of newer publications.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from zkdeployment.base.errors import RefusedError
from zkdeployment.base.publication import LeftService, Published, Targets, next_sequence
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.signing.statement import bucket_of, digest_of, encode_bucket

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zkdeployment.base.cluster import Revision
    from zkdeployment.publishing.records import Publication
    from zkdeployment.strategies.strategy import Strategy


#: Seconds that a sequence in ZooKeeper may be ahead of the time: the clock of another syncer may be fast.
TOLERANCE = 300

#: Seconds that the sequences of this syncer may be ahead of the time: its clock may have been wrong.
_AHEAD = 86_400


@dataclass(frozen=True, slots=True)
class SigningRecord:
    """The syncer's own record of its signatures, kept outside ZooKeeper.

    The syncer has never signed a sequence above ``reserved``. The other values are those of the last published
    statement; ``sequence`` is 0 if that statement is not known. ``left`` as in ``Statement``.
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
    """Whether a clock that is less than a day fast can have produced a sequence at ``now``, in seconds."""
    return sequence <= now + _AHEAD


def sequence_to_sign(reserved: int, found: int, now: float) -> int:
    """Return the sequence of the next signed publication, at ``now`` (seconds since the epoch).

    ``reserved`` is from the syncer's own record, ``found`` the highest sequence that other programs recorded.
    Raises ``RefusedError`` if one of them is too far ahead of the time.
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


@dataclass(frozen=True, slots=True)
class SignedTargets:
    """The digests of all targets.

    ``targets`` maps the name of each bucket that is not empty to the digests of its targets by name, ``data`` to
    the data of its node, and ``digests`` to its digest.
    """

    targets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    data: Mapping[str, bytes] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)

    def after(self, encoded: Mapping[str, bytes], gone: Collection[str] = ()) -> SignedTargets:
        """Return the digests after a change; buckets without a changed target are not computed again.

        ``encoded`` maps the names of new and changed targets to the data of their nodes; ``gone`` are the names of
        targets that no longer exist.
        """
        changed: dict[str, dict[str, str]] = {}
        for name in (*encoded, *gone):
            bucket = bucket_of(name)
            if bucket not in changed:
                changed[bucket] = dict(self.targets.get(bucket, {}))
            if name in encoded:
                changed[bucket][name] = digest_of(encoded[name])
            else:
                changed[bucket].pop(name, None)
        targets, data, digests = dict(self.targets), dict(self.data), dict(self.digests)
        for bucket, listed in changed.items():
            if listed:
                targets[bucket], data[bucket] = listed, encode_bucket(listed)
                digests[bucket] = digest_of(data[bucket])
            else:
                for values in (targets, data, digests):
                    values.pop(bucket, None)
        return SignedTargets(targets, data, digests)


@dataclass(frozen=True, slots=True)
class StandingPublication:
    """The content that ZooKeeper has to hold for a publication.

    ``stamp`` is the data version of the node ``/zkdeployment/targets`` that names the publication.

    The other values are those of ``Statement`` and of ``Publication``.
    """

    revision: Revision
    sequence: int
    since: int
    stamp: int = 0
    targets: Targets = field(default_factory=dict)
    strategy: Strategy | None = None
    left: tuple[LeftService, ...] = ()


def coming_publication(publication: Publication) -> StandingPublication:
    """Return a publication in its probable final form; other writers may still raise its sequences."""
    last, sequence = publication.published, publication.sequence
    since = last.effective_since if publication.repeats and last is not None else sequence
    return StandingPublication(
        publication.revision,
        sequence,
        since,
        targets=publication.targets,
        strategy=publication.strategy,
        left=publication.left,
    )
