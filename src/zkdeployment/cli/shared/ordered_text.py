"""Reads the text of the revision that hosts were last ordered to deploy, if a prediction needs it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.cli.shared.options import configured_revision
from zkdeployment.errors import ConfigurationError, SourceError
from zkdeployment.model.cluster import is_commit
from zkdeployment.planning.interruption import ordered_revision
from zkdeployment.planning.review import review
from zkdeployment.wiring.repository import read_local_revision

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.source_files import SourceFile
    from zkdeployment.planning.prediction import PredictionBasis


def with_ordered_text(basis: PredictionBasis, config: Path | None) -> PredictionBasis:
    """Return the basis with the text that hosts were last ordered to deploy, if the live tree may be another one.

    The text is that of the git repository around the current directory, or of the configured repository. The basis
    stays unchanged if neither has the revision.
    """
    revision = ordered_revision(basis.published)
    if revision is None:
        return basis
    try:
        return replace(basis, ordered_text=review(_read(revision, config)))
    except (ConfigurationError, SourceError):
        return basis


def _read(revision: Revision, config: Path | None) -> Sequence[SourceFile]:
    if isinstance(revision, str) and is_commit(revision):
        try:
            return read_local_revision(revision)
        except SourceError:
            pass  # another repository, or none
    return configured_revision(config, revision)[1]
