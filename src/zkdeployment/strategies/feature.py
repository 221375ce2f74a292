"""The contributions of rollout strategies to the frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.base.features import Feature

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.documents.collection import Documents
    from zkdeployment.documents.kinds import DocumentKind


def _document_kinds() -> tuple[DocumentKind[Any], ...]:
    from zkdeployment.strategies.documents import CONFIGURATION, STRATEGY

    return STRATEGY, CONFIGURATION


def _document_rules() -> tuple[Callable[[Documents], Documents], ...]:
    from zkdeployment.strategies.documents import judge_choice

    return (judge_choice,)


FEATURE = Feature(document_kinds=_document_kinds, document_rules=_document_rules)
