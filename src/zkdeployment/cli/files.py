"""Reads the tree files and documents in a verb's arguments, and the text that hosts last had to deploy."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import is_commit
from zkdeployment.base.errors import ConfigurationError, SourceError
from zkdeployment.base.source_files import (
    DOCUMENT_SUFFIXES,
    TREE_SUFFIXES,
    SourceFile,
    is_tree_file,
    may_hold_documents,
)
from zkdeployment.cli.options import configured_revision
from zkdeployment.documents.registry import known_kinds, mentions_documents
from zkdeployment.publishing.acts.opening import read_local_revision
from zkdeployment.publishing.rules.interruption import ordered_revision
from zkdeployment.publishing.rules.review import review

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zkdeployment.base.cluster import Revision
    from zkdeployment.fleet.views.forecast import PredictionBasis


def read_files(paths: Iterable[str]) -> list[SourceFile]:
    """Return the named files, and the tree files and documents in named directories.

    Raises ``ConfigurationError`` for a file that cannot be read or is neither.
    """
    return [file for path in paths for file in _read(Path(path))]


def read_trees(names: Iterable[str]) -> list[SourceFile]:
    """Return files and directories as ``read_files`` does; other names are revisions of the local repository.

    Files with documents in subdirectories follow, so that checks can name documents that are not in force.
    """
    return [file for name in names for file in _read_tree(name)]


def looks_like_file(path: str) -> bool:
    """Return whether a path has the suffix of a tree file or a document; the file may be missing."""
    return path.endswith(TREE_SUFFIXES + DOCUMENT_SUFFIXES)


def is_whole_tree(names: Iterable[str]) -> bool:
    """Return whether the names are directories or revisions: a whole tree, which removes all other nodes."""
    return any(Path(name).is_dir() or not looks_like_file(name) for name in names)


def _read_tree(name: str) -> Iterable[SourceFile]:
    if Path(name).exists() or looks_like_file(name):
        return [*_read(Path(name)), *_read_nested(Path(name))]
    try:
        return read_local_revision(name)
    except SourceError as error:
        raise ConfigurationError(
            f"{name} is neither a file nor a directory, and no git revision: {error}"
        ) from error


def _read(path: Path) -> list[SourceFile]:
    try:
        if path.is_dir():
            return [file for entry in sorted(path.iterdir()) for file in _read_in_directory(entry)]
        if not looks_like_file(path.name) and path.exists():
            raise ConfigurationError(
                f"{path} is not a tree file: expected *.zk, *.zkx or a directory with such files"
            )
        file = SourceFile(str(path), path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"cannot read {error.filename or path}: {error.strerror}") from error
    if not is_tree_file(path.name) and not mentions_documents(file.content):
        raise ConfigurationError(
            f"{path} holds no document: expected schema: {' or '.join(known_kinds().by_schema)}"
        )
    return [file]


def _read_nested(top: Path) -> Iterator[SourceFile]:
    """Yield the files with documents in subdirectories; hidden directories belong to other programs."""
    for directory, names, files in os.walk(top):
        names[:] = sorted(name for name in names if not name.startswith("."))
        below = Path(directory)
        for path in (below / name for name in sorted(files) if below != top):
            if path.is_file() and not path.is_symlink() and may_hold_documents(path.name, path.stat().st_size):
                file = SourceFile(str(path), _content(path), is_nested=True)
                if mentions_documents(file.content):
                    yield file


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error


def _read_in_directory(path: Path) -> Iterator[SourceFile]:
    """Yield a directory's entry as the syncer would read it: YAML files without documents are ignored."""
    if is_tree_file(path.name):
        if not path.is_file():  # a pipe or a device may never end
            raise ConfigurationError(f"{path} cannot be read as a tree file: expected a plain file")
        yield SourceFile(str(path), path.read_bytes())
    elif path.is_file() and may_hold_documents(path.name, path.stat().st_size):
        file = SourceFile(str(path), path.read_bytes())
        if mentions_documents(file.content):
            yield file


def with_ordered_text(basis: PredictionBasis, config: Path | None) -> PredictionBasis:
    """Return the basis with the text that hosts were last ordered to deploy, if the live tree may differ.

    The text is that of the git repository around the current directory, or of the configured repository. The basis
    stays unchanged if neither has the revision.
    """
    revision = ordered_revision(basis.published)
    if revision is None:
        return basis
    try:
        return replace(basis, ordered_text=review(_read_ordered(revision, config)))
    except (ConfigurationError, SourceError):
        return basis


def _read_ordered(revision: Revision, config: Path | None) -> Sequence[SourceFile]:
    if isinstance(revision, str) and is_commit(revision):
        try:
            return read_local_revision(revision)
        except SourceError:
            pass  # the revision is in another repository, or there is no repository
    return configured_revision(config, revision)[1]
