"""The places of the frame of documents, which features fill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.documents.collection import Documents
    from zkdeployment.documents.kinds import DocumentKind


@dataclass(frozen=True, kw_only=True)
class DocumentPlaces:
    """The documents of a feature beside the tree."""

    kinds: Callable[[], Sequence[DocumentKind[Any]]]
    #: Receive documents that are valid each by itself, and return them with the problems that they have together.
    rules: Callable[[], Sequence[Callable[[Documents], Documents]]] = tuple
