"""Records of a syncer's publications: accepted approvals, and services that left the governance of their intents.

ZooKeeper holds both as well, but whoever can write to ZooKeeper can change them there. The syncer records them on
its own machine, and a signed publication has the digest of the left services for the other syncers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.signing.statement import left_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.publication import Published
    from zkdeployment.model.publishing.left_service import LeftService
    from zkdeployment.signing.sequences import SigningRecord

#: What a syncer accepted: the fingerprint of each group that was approved or deployed, by the text of its subject.
AcceptedApprovals: TypeAlias = "Mapping[str, str]"

NOTHING_ACCEPTED: AcceptedApprovals = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AcceptedInstance:
    """The last instance of a group: its number in the signed approval, 0 without one, and whether it runs."""

    number: int
    is_running: bool


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The approvals and left services that a syncer accepted with the publication ``sequence`` of ``revision``.

    ``instances`` are the last instances of groups, also of groups that are gone, by the text of the subject.
    ``left`` are the services that had left the governance of their intents; ``None`` if the record is
    damaged.
    """

    approvals: AcceptedApprovals = field(default_factory=lambda: NOTHING_ACCEPTED)
    left: tuple[LeftService, ...] | None = None
    revision: Revision | None = None
    sequence: int = 0
    instances: Mapping[str, AcceptedInstance] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AcceptanceRecord:
    """The record of what a syncer accepted: with its ``last`` publication (``None`` before the first one).

    ``coming`` belongs to a publication that may not be written yet; ``None`` if that is known.
    """

    last: Acceptance | None
    coming: Acceptance | None = None

    def settled(self, published: Published) -> Acceptance | None:
        """Return what was accepted with the last publication, judged by the records of publications in ZooKeeper.

        An approval of a publication that was never written has to be valid when the next publication is written.
        """
        coming, ordered = self.coming, published.revision or published.ordered
        is_written = coming is not None and ordered == coming.revision and published.sequence >= coming.sequence
        return coming if is_written else self.last


@dataclass(frozen=True, slots=True)
class StandingGovernance:
    """The present governance: the intents of ``revision``, and the services that left intents."""

    revision: Revision | None = None
    left: tuple[LeftService, ...] = ()


def recorded_governance(
    own: Acceptance | None, published: Published, signed: SigningRecord | None
) -> StandingGovernance | None:
    """Return what governs by a syncer's ``own`` record; ``None`` if another syncer has published since.

    ``signed`` is the signed publication that stands, with sequence 0 if it is not known; ``None`` if publications
    are not signed. Then only ZooKeeper shows whether another syncer has published.
    """
    if own is None or own.left is None:
        return None
    stands = published.sequence if signed is None else signed.sequence
    if own.sequence >= stands:
        return StandingGovernance(own.revision, own.left)
    revision, digest = standing_list(published, signed)
    return StandingGovernance(revision, own.left) if left_digest(own.left) == digest else None


def standing_list(published: Published, signed: SigningRecord | None) -> tuple[Revision | None, str | None]:
    """Return the revision of the publication that stands, and the digest of its left services if it is known."""
    if signed is not None and signed.sequence:
        return signed.revision, signed.left
    return published.revision or published.ordered, published.left
