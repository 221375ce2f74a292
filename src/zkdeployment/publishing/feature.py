"""The contributions of publications to the frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.base.features import Feature

if TYPE_CHECKING:
    from zkdeployment.documents.kinds import DocumentKind


def _document_kinds() -> tuple[DocumentKind[Any], ...]:
    from zkdeployment.publishing.rules.quarantines import QUARANTINE

    return (QUARANTINE,)


FEATURE = Feature(document_kinds=_document_kinds)
