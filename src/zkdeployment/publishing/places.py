"""The places of the frame of publications, which features fill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zkdeployment.base.publication import Targets
    from zkdeployment.base.source_files import Problem
    from zkdeployment.documents.collection import Documents
    from zkdeployment.publishing.section import PublicationSection
    from zkdeployment.tree.values import Tree

    #: Yields the problems that documents have with a tree (``None``: there are no files of a tree) and with its
    #: targets, from which nothing is withheld.
    ReviewRule = Callable[[Documents, Tree | None, Targets], Iterable[Problem]]


@dataclass(frozen=True, kw_only=True)
class PublishingPlaces:
    """The contributions of a feature to publications."""

    #: Receive the documents with the tree beside them, and return further problems.
    review_rules: Callable[[], Sequence[ReviewRule]] = tuple
    #: The part of the feature in publications; ``None`` without one.
    section: Callable[[], PublicationSection | None] = lambda: None
