"""The part of a syncer that judges the section of governance, which a feature brings."""

# ruff: noqa: ARG002  the methods of a keeper that accepts everything ignore their arguments

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.features import installed
from zkdeployment.publishing.daemon.places import SyncerPlaces
from zkdeployment.publishing.governance import StandingGovernance, standing_list
from zkdeployment.publishing.store.documents import NO_CHANGE, SectionWriter

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.base.publication import Published
    from zkdeployment.publishing.records import Publication
    from zkdeployment.publishing.rules.changes import Draft
    from zkdeployment.publishing.section import ApprovalVerifier
    from zkdeployment.publishing.signing.standing import SigningRecord
    from zkdeployment.publishing.store.store import ZooKeeperPublications


class SectionKeeper:
    """The part of a syncer that judges the section and remembers its decisions; this class accepts everything."""

    def standing(self, published: Published, signed: SigningRecord | None) -> StandingGovernance:
        """Return the state that governs until the next publication.

        ``signed`` is the signed publication that stands, with sequence 0 if it is not known; ``None`` if
        publications are not signed. Raises ``UntrustedError`` and ``TreeError`` if ZooKeeper does not hold the
        list of left services of the last publication.
        """
        return StandingGovernance(standing_list(published, signed)[0])

    def judge(self, draft: Draft, published: Published) -> SectionWriter:
        """Return the changes by a draft; raises ``RefusedError`` if it breaks the rules of the section."""
        return NO_CHANGE

    def complete_records(self, published: Published) -> None:
        """Add the facts to the last publication's records that are known only after hosts have deployed it."""

    def accept(self, change: SectionWriter, publication: Publication, published: Published) -> None:
        """Record durably the forms that a publication is about to accept; raises ``HostFilesError``.

        ``published`` is the publication that stands. Call ``settle`` when the coming one was written.
        """

    def settle(self) -> None:
        """Record that the publication of the last ``accept`` was written."""


def section_keeper(
    store: ZooKeeperPublications, memory: Path | None = None, approvals: ApprovalVerifier | None = None
) -> SectionKeeper:
    """Return the keeper of a syncer that publishes to ``store``, of the first feature that brings one.

    The file ``memory`` contains the accepted forms; without the file, as in dry runs, the keeper remembers these
    only in its process, and at first accepts those that ZooKeeper has. With ``approvals``, a verifier, only
    approvals without an objection count.
    """
    for places in installed(SyncerPlaces):
        return places.keeper(store, memory, approvals)
    return SectionKeeper()
