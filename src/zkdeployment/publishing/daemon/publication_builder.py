"""Prepares the publication of a revision: over the last published text if possible, else over the live tree.

Reads trees and live nodes. Whether a revision may be published is decided in the syncer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.errors import SourceError, TreeError
from zkdeployment.base.log import get_logger
from zkdeployment.documents.collection import PublishedDocuments
from zkdeployment.publishing.rules.changes import (
    Baseline,
    PreparedPublication,
    draft,
    drift,
    has_foreign_children,
    is_repetition_of,
    require_publishable,
)
from zkdeployment.publishing.rules.interruption import ordered_revision, ordered_targets
from zkdeployment.publishing.rules.review import Review, place, review
from zkdeployment.publishing.section import section
from zkdeployment.publishing.signing.standing import StandingPublication
from zkdeployment.strategies.documents import strategy_in_force

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.publication import Published
    from zkdeployment.publishing.ports import TreeSource
    from zkdeployment.publishing.rules.convergence import PublicationSnapshot
    from zkdeployment.publishing.rules.decision import Publish
    from zkdeployment.publishing.section import Governance, StandingGovernance
    from zkdeployment.publishing.store.store import ZooKeeperPublications
    from zkdeployment.strategies.strategy import Strategy

#: The number of reviewed revisions that are cached: the published one and the tip.
_CACHED_REVIEWS = 2


class PublicationBuilder:
    """Reads trees from ``source``, and live nodes and the published strategy from ``store``.

    ``signed``: publications are signed. Services at and below the ``governed`` paths need an intent.
    """

    def __init__(
        self,
        source: TreeSource,
        store: ZooKeeperPublications,
        *,
        signed: bool = False,
        governed: Collection[str] = (),
    ) -> None:
        self._signed = signed
        self._governed = governed
        self._source = source
        self._store = store
        self._reviews: dict[Revision, Review] = {}

    def prepare(self, decision: Publish, standing: StandingGovernance, *, sequence: int) -> PreparedPublication:
        """Return the publication of the tip over the live tree; raises ``TreeError`` with all errors of the tree.

        ``standing`` is the governance before the publication. ``sequence`` is the one that the publication will
        probably have: its signature is begun at once.

        The whole live tree is read if the decision asks for it, if the live tree is not known to be the last
        published text, or if the nodes that change are not as that text has them.
        """
        tip, snapshot, may_repeat = decision.tip, decision.snapshot, decision.may_repeat
        published = snapshot.published
        last = None if decision.whole else self._exact_text(published)
        if standing.revision != published.revision:
            last = None  # ZooKeeper names another publication than the one whose governance is known
        reviewed = self._review(tip, reread=True)
        governance, whole = section().governance(reviewed.documents), reviewed.compilation.whole
        problems = governance.ungoverned_problems(self._governed, whole)
        ungoverned = (place(one, reviewed.linted) for one in problems)
        require_publishable((*reviewed.problems, *ungoverned), tip)
        if self._signed:
            repeats = may_repeat and last is not None and last.linted.tree == reviewed.linted.tree
            since = published.effective_since if repeats else sequence
            strategy, left = strategy_in_force(reviewed.documents), standing.left
            coming = StandingPublication(
                tip, sequence, since, targets=reviewed.targets, strategy=strategy, left=left
            )
            self._store.start_signing(coming)
        prepared = None if last is None else self._prepare_over_text(reviewed, last, standing, snapshot, tip)
        if prepared is not None:
            return replace(prepared, repeats=prepared.repeats and may_repeat)
        strategy, documents, live = self._published_strategy(), self._store.documents(), self._store.live_tree()
        text = self._standing_text(standing)
        governance = self._governance(text, published, standing)
        baseline = Baseline.of_live_tree(live, strategy, documents, governance, with_properties=self._signed)
        ordered = ordered_revision(published)
        ordered_text = None if ordered is None else self._text_of(ordered)
        completed = ordered_targets(published, snapshot.cluster, baseline.targets, reviewed, ordered_text)
        baseline = replace(baseline, completed=completed, text=None if text is None else text.linted.tree)
        drafted = draft(reviewed, baseline, snapshot, revision=tip, prune=decision.options.prune)
        before = last or self.published_text(published)
        repeats = may_repeat and is_repetition_of(before, reviewed, drafted, snapshot)
        return PreparedPublication(drafted, live.versions, repeats=repeats)

    def _prepare_over_text(
        self,
        reviewed: Review,
        last: Review,
        standing: StandingGovernance,
        snapshot: PublicationSnapshot,
        tip: Revision,
    ) -> PreparedPublication | None:
        """Return the publication over the last text; ``None`` if a live node to be changed has drifted."""
        try:
            baseline = Baseline.of_text(last, standing.left)
            drafted = draft(reviewed, baseline, snapshot, revision=tip)
        except TreeError:
            return None  # other live nodes may resolve the conflict
        change, tree = drafted.change, drafted.baseline.live.tree
        nodes = self._store.live_nodes(change.paths)
        differences = list(drift(change, tree, nodes))
        for difference in differences:
            get_logger().warning("tree-drifted", found=difference)
        if differences or has_foreign_children(change, tree, nodes):
            return None
        versions = {path: node.version for path, node in nodes.items()}
        repeats = is_repetition_of(last, reviewed, drafted, snapshot)
        return PreparedPublication(drafted, versions, partial=True, repeats=repeats)

    def _standing_text(self, standing: StandingGovernance) -> Review | None:
        """Return the text of the revision that governs; ``None`` if it is unknown or no longer readable."""
        return None if standing.revision is None else self._text_of(standing.revision)

    def _governance(self, text: Review | None, published: Published, standing: StandingGovernance) -> Governance:
        """Return the standing governance: by the ``text``, or, without a valid one, by what ZooKeeper holds."""
        if text is not None and not text.documents.errors:
            return section().governance(text.documents, standing.left)
        if published.intents is None:
            return section().governance(PublishedDocuments(), standing.left)
        return section().read(self._store.session, standing.left)

    def _exact_text(self, published: Published) -> Review | None:
        """Return the text that the live tree is known to be exactly, if there is one."""
        last = None if published.exact is None else self.published_text(published)
        return last if last is not None and last.fingerprint == published.exact else None

    def published_text(self, published: Published) -> Review | None:
        """Return the text of the published revision, not of the live tree; ``None`` if it cannot be read."""
        return None if published.revision is None else self._text_of(published.revision)

    def _text_of(self, revision: Revision) -> Review | None:
        try:
            return self._review(revision)
        except SourceError:
            return None  # history was rewritten, or the tree has moved to another repository

    def _published_strategy(self) -> Strategy | None:
        """Return the published strategy; a damaged one counts as none and is replaced."""
        try:
            return self._store.strategy()
        except TreeError as error:
            get_logger().warning("strategy-damaged", reason=str(error))
            return None

    def _review(self, revision: Revision, *, reread: bool = False) -> Review:
        """Return the review of a revision's tree, from the cache if possible.

        With ``reread`` the source always reads the revision again, which verifies its signature: a key that signed
        the revision may have been revoked since.
        """
        cached = self._reviews.get(revision)
        if cached is None or reread:
            last = cached or next(reversed(self._reviews.values()), None)
            self._reviews[revision] = review(self._source.files(revision), last, signed=self._signed)
            for old in list(self._reviews)[:-_CACHED_REVIEWS]:
                del self._reviews[old]
        return self._reviews[revision]
