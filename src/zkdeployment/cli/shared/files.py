"""Tree files and documents of rollouts, or revisions of them, named on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.errors import ConfigurationError, SourceError
from zkdeployment.model.source_files import (
    DOCUMENT_SUFFIXES,
    TREE_SUFFIXES,
    SourceFile,
    is_tree_file,
    may_hold_documents,
)
from zkdeployment.rollout.document_faults import mentions_documents
from zkdeployment.rollout.schema import SCHEMAS
from zkdeployment.wiring.repository import read_local_revision

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def read_files(paths: Iterable[str]) -> list[SourceFile]:
    """Read files, and of directories the tree files and documents; raises ``ConfigurationError``."""
    return [file for path in paths for file in _read(Path(path))]


def read_trees(names: Iterable[str]) -> list[SourceFile]:
    """Read files and directories, too, or revisions of the git repository around where there is neither."""
    return [file for name in names for file in _read_tree(name)]


def looks_like_file(path: str) -> bool:
    """Whether somebody means a file by this, although it may not be there."""
    return path.endswith(TREE_SUFFIXES + DOCUMENT_SUFFIXES)


def is_whole_tree(names: Iterable[str]) -> bool:
    """Whether what is in none of these is meant to be gone; files by name may be a part of a tree."""
    return any(Path(name).is_dir() or not looks_like_file(name) for name in names)


def _read_tree(name: str) -> Iterable[SourceFile]:
    if Path(name).exists() or looks_like_file(name):
        return _read(Path(name))
    try:
        return read_local_revision(name)
    except SourceError as error:
        raise ConfigurationError(
            f"{name} is neither a file nor a directory, and as a git revision: {error}"
        ) from error


def _read(path: Path) -> list[SourceFile]:
    try:
        if path.is_dir():
            return [file for one in sorted(path.iterdir()) for file in _read_of_directory(one)]
        if not looks_like_file(path.name) and path.exists():
            raise ConfigurationError(f"{path} is not a tree file: expected *.zk, *.zkx or a directory of these")
        file = SourceFile(str(path), path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"cannot read {error.filename or path}: {error.strerror}") from error
    if not is_tree_file(path.name) and not mentions_documents(file.content):
        raise ConfigurationError(f"{path} has nothing of rollouts: expected schema: {' or '.join(SCHEMAS)}")
    return [file]


def _read_of_directory(path: Path) -> Iterator[SourceFile]:
    """Read a file as the repository's are read: other people's YAML files do not matter."""
    if is_tree_file(path.name):
        if not path.is_file():  # what is read to its end here may have none
            raise ConfigurationError(f"{path} is not a plain file, as a tree file has to be")
        yield SourceFile(str(path), path.read_bytes())
    elif path.is_file() and may_hold_documents(path.name, path.stat().st_size):
        file = SourceFile(str(path), path.read_bytes())
        if mentions_documents(file.content):
            yield file
