"""Reads revisions of local tree repositories for commands and hooks.

GitPython is imported only when a repository is read, so that the other commands start fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.adapters.git.hooks import Pushed
    from zkdeployment.model.source_files import SourceFile


def read_local_revision(name: str) -> Sequence[SourceFile]:
    """Return the files of a revision of the git repository around this directory; raises ``SourceError``."""
    from zkdeployment.adapters.git.source import revision_files  # noqa: PLC0415

    return revision_files(Path.cwd(), name)


def is_local_revision(name: str) -> bool:
    """Whether the git repository around this directory has this revision."""
    from zkdeployment.adapters.git.hooks import has_revision  # noqa: PLC0415

    return has_revision(name)


def read_staged() -> Sequence[SourceFile]:
    """Return the files of the git index, as a pre-commit hook sees them; raises ``SourceError``."""
    from zkdeployment.adapters.git.hooks import staged_files  # noqa: PLC0415

    return staged_files()


def read_documents_of(commit: str) -> Sequence[SourceFile]:
    """Return the files with documents of a commit; none if there is no such commit. Raises ``SourceError``."""
    from zkdeployment.adapters.git.hooks import documents_of  # noqa: PLC0415

    return documents_of(commit)


def read_push(lines: TextIO) -> Sequence[Pushed] | None:
    """Return the branches of a push, as git passes them to a pre-receive hook; ``None`` without any."""
    from zkdeployment.adapters.git.hooks import read_pushed  # noqa: PLC0415

    return read_pushed(lines)
