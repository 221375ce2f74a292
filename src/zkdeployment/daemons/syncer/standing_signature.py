"""Keeps the publication that stands in ZooKeeper signed with the syncer's key, without publishing again.

A new publication is signed when it is written. This module is for the others: after the key was changed or first
configured, and after somebody changed the signed nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import UntrustedError
from zkdeployment.log import get_logger
from zkdeployment.model.cluster import INITIAL, Cluster
from zkdeployment.signing.standing import StandingPublication
from zkdeployment.signing.statement import SignedStatement, Statement, require_plausible

if TYPE_CHECKING:
    from zkdeployment.daemons.syncer.publication_builder import PublicationBuilder
    from zkdeployment.daemons.watermark import Watermark
    from zkdeployment.model.cluster import Revision
    from zkdeployment.planning.published_state import PublishedState
    from zkdeployment.ports.process import Clock
    from zkdeployment.ports.publication import PublicationSigner, PublicationStore

#: The sequence of the signature of the revision ``initial``: below that of every publication.
_FIRST = 1


class StandingSignature:
    """Signs what ``builder`` reads from the repository, never what ZooKeeper holds.

    Only the tip is signed again: whoever can write to ZooKeeper could have an old revision signed otherwise. A
    publication of an earlier revision keeps its signature until the tip is published.
    """

    def __init__(
        self,
        store: PublicationStore,
        builder: PublicationBuilder,
        signer: PublicationSigner | None,
        watermark: Watermark,
        clock: Clock,
    ) -> None:
        self._store = store
        self._builder = builder
        self._signer = signer
        self._watermark = watermark
        self._clock = clock
        self._settled: bytes | None = None
        self._has_checked = False

    def ensure(self, state: PublishedState, tip: Revision) -> bool:
        """Sign the standing publication again if necessary; return ``False`` if ``tip`` must be published again.

        That is so if ``tip`` is the published revision, and the targets in ZooKeeper are others than its targets.
        """
        if self._signer is None or self._is_settled(state):
            return True
        standing = self._standing(state, tip)
        if standing is None:
            return True
        if self._is_signed(self._signer, state, standing):
            self._settled, self._has_checked = state.signed, True
            return True
        lock = self._store.lock()
        if not lock.try_acquire():
            return True  # the syncer that holds it publishes; the next cycle looks again
        try:
            signed = self._store.renew_signature(standing, keeps_other=self._has_checked)
        finally:
            lock.release()
        if not signed:
            return standing.revision != tip
        self._has_checked = True
        get_logger().info("publication-signed-again", revision=standing.revision, sequence=standing.sequence)
        return True

    def _is_settled(self, state: PublishedState) -> bool:
        return state.signed is not None and (state.signed == self._settled or self._store.has_signed(state.signed))

    def _standing(self, state: PublishedState, tip: Revision) -> StandingPublication | None:
        """Return the standing publication as the repository has it; ``None`` if it is not to be signed again."""
        published = state.published
        if not published.sequence:
            is_new = state.cluster == Cluster(INITIAL) and not self._watermark.known.sequence
            return StandingPublication(INITIAL, _FIRST, _FIRST, published.stamp) if is_new else None
        if published.revision is None or published.revision != tip:
            return None
        require_plausible(published.sequence, self._clock.now())
        reviewed = self._builder.published_text(published)
        if reviewed is None or reviewed.errors:
            return None
        return StandingPublication(
            published.revision,
            published.sequence,
            published.effective_since,
            published.stamp,
            reviewed.targets,
            reviewed.documents.strategy(),
        )

    @staticmethod
    def _is_signed(signer: PublicationSigner, state: PublishedState, standing: StandingPublication) -> bool:
        """Whether the standing publication has a valid signature by this syncer's key."""
        if not state.signed:
            return False
        try:
            signed = SignedStatement.from_data(state.signed)
            if not signer.made(signed):
                return False
            statement = Statement.from_text(signed.text)
        except UntrustedError:
            return False
        return (statement.revision, statement.sequence) == (standing.revision, standing.sequence)
