"""Reads the files of a tree from a directory, by the rules that apply to a revision in a repository."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.errors import SourceError
from zkdeployment.base.source_files import SourceFile, is_tree_file, may_hold_documents
from zkdeployment.documents.kinds import mentions_documents
from zkdeployment.publishing.ports import check_entry

if TYPE_CHECKING:
    from collections.abc import Iterator


def read_directory(top: Path, tree: str) -> Iterator[SourceFile]:
    """Yield the tree files and the YAML files with documents in a directory, sorted by name.

    ``tree`` names the tree in messages. Raises ``SourceError`` for a tree file that the syncer refuses, such as a
    symbolic link, and for files that cannot be read.
    """
    try:
        for path in sorted(top.iterdir()):
            mode = path.lstat().st_mode
            if is_tree_file(path.name):
                check_entry(path.name, tree, "" if stat.S_ISREG(mode) else _kind(mode))
                yield SourceFile(path.name, path.read_bytes())
            elif (content := _documents(path)) is not None:
                yield SourceFile(path.name, content)
    except OSError as error:
        raise SourceError(f"cannot read {error.filename or top}: {error.strerror}") from error


def read_nested(top: Path) -> Iterator[SourceFile]:
    """Yield the files with documents in subdirectories, with their paths below ``top``; raises ``SourceError``.

    Hidden directories belong to other programs.
    """
    for directory, names, files in os.walk(top):
        names[:] = sorted(name for name in names if not name.startswith("."))
        below = Path(directory)
        for path in (below / name for name in sorted(files) if below != top):
            try:
                content = _documents(path)
            except OSError as error:
                raise SourceError(f"cannot read {path}: {error.strerror}") from error
            if content is not None:
                yield SourceFile(str(path.relative_to(top)), content, is_nested=True)


def _documents(path: Path) -> bytes | None:
    """Return the content of a file with documents; ``None`` for other files, for links, pipes and devices."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or not may_hold_documents(path.name, status.st_size):
        return None
    content = path.read_bytes()
    return content if mentions_documents(content) else None


def _kind(mode: int) -> str:
    kinds = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a directory"}
    return kinds.get(stat.S_IFMT(mode), "a pipe, a socket or a device")
