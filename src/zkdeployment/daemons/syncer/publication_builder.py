"""Working out a publication: from two texts where that is enough, else from the text and the live tree."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.errors import SourceError, TreeError
from zkdeployment.log import get_logger
from zkdeployment.planning.drift import drift, has_others_below
from zkdeployment.planning.publishing import Draft, PublishedState, check, draft, draft_over_text
from zkdeployment.planning.review import Review, review

if TYPE_CHECKING:
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.publication import Published
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.ports.publication import PublicationStore, TreeSource

#: How many reviewed revisions are kept: the published one and the tip.
_KEPT = 2


class PublicationBuilder:
    """Reads trees from ``source`` and what is live from ``store``."""

    def __init__(self, source: TreeSource, store: PublicationStore) -> None:
        self._source = source
        self._store = store
        self._reviews: dict[Revision, Review] = {}

    def draft(
        self, published_state: PublishedState, tip: Revision, *, whole: bool = False, prune: bool = False
    ) -> Draft:
        """Work out the publication of ``tip``; raises ``TreeError`` with all errors of the tree.

        With ``whole`` the whole live tree is read in any case. Else it is read only when it is not known to be the
        text that was published last, or is not where that matters.
        """
        last = None if whole or prune else self._published_text(published_state.published)
        reviewed = self._review(tip, again=True)
        check(reviewed.problems, tip)
        drafted = None if last is None else self._draft_over_text(reviewed, last, published_state, tip)
        if drafted is None:
            published_state = replace(published_state, strategy=self._published_strategy())
            drafted = draft(reviewed, self._store.live_tree(), published_state, revision=tip, prune=prune)
        return drafted

    def _draft_over_text(
        self, reviewed: Review, last: Review, published_state: PublishedState, tip: Revision
    ) -> Draft | None:
        """Work it out from two texts; ``None`` if what it touches is not what the last one says."""
        try:
            drafted = draft_over_text(reviewed, last, published_state, revision=tip)
        except TreeError:
            return None  # with what else is live it may be right
        change, tree = drafted.publication.change, drafted.live.tree
        found = self._store.live_nodes(change.paths)
        drifted = list(drift(change, tree, found))
        for words in drifted:
            get_logger().warning("tree-drift", found=words)
        return None if drifted or has_others_below(change, tree, found) else drafted.over(found)

    def _published_text(self, published: Published) -> Review | None:
        """Return the text that the live tree is known to be, if it is."""
        if published.revision is None or published.exact is None:
            return None
        try:
            last = self._review(published.revision)
        except SourceError:
            return None  # history was rewritten, or the tree has moved to another repository
        return last if last.fingerprint == published.exact else None

    def _published_strategy(self) -> Strategy | None:
        """Read the published strategy; one that was damaged is replaced, like none."""
        try:
            return self._store.strategy()
        except TreeError as error:
            get_logger().warning("strategy-damaged", reason=str(error))
            return None

    def _review(self, revision: Revision, *, again: bool = False) -> Review:
        """Review a revision's tree, once: the published one and the tip come back every time.

        With ``again`` the source is asked for it in any case: a key that signed it may be allowed no more.
        """
        known = self._reviews.get(revision)
        if known is None or again:
            last = known or next(reversed(self._reviews.values()), None)
            self._reviews[revision] = review(self._source.files(revision), last)
            for old in list(self._reviews)[:-_KEPT]:
                del self._reviews[old]
        return self._reviews[revision]
