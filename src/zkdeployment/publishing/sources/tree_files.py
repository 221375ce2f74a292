"""Limits that all sources of trees share: for the files of a revision, and for attempts to reach a repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.act import sanitize
from zkdeployment.base.errors import SourceError
from zkdeployment.base.source_files import MOST_BYTES_OF_A_FILE, is_tree_file

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Trees are text written by people; larger repositories are a mistake or an attack.
MOST_BYTES = 128 << 20
MOST_FILES = 10_000

#: Attempts to reach a repository, the first one included.
ATTEMPTS = 4

_LONGEST = 300


def check_limits(sizes: Mapping[str, int], revision: str) -> None:
    """Raise ``SourceError`` if files of these sizes (bytes by name) exceed a limit or include no tree file."""
    if not any(map(is_tree_file, sizes)):
        raise SourceError(f"revision {revision} has no tree files (*.zk) at its top")
    if len(sizes) > MOST_FILES:
        raise SourceError(f"revision {revision} has {len(sizes)} tree files; {MOST_FILES} are allowed")
    for name, size in sizes.items():
        if size > MOST_BYTES_OF_A_FILE:
            raise SourceError(
                f"{name} of revision {revision} has {size} bytes; {MOST_BYTES_OF_A_FILE} are allowed"
            )
    if sum(sizes.values()) > MOST_BYTES:
        raise SourceError(f"the tree files of revision {revision} have more than {MOST_BYTES} bytes")


def shorten(text: str) -> str:
    """Return a name or a subject line without control characters, cut to a readable length."""
    text = sanitize(text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
