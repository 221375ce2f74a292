"""Tree files and documents, read from git's object store: blobs of a commit, never a work tree."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.adapters.git.command import Git, GitError
from zkdeployment.adapters.tree_files import check_limits
from zkdeployment.documents.registry import mentions_documents
from zkdeployment.errors import SourceError
from zkdeployment.model.source_files import (
    DOCUMENT_SUFFIXES,
    MOST_BYTES_OF_A_FILE,
    TREE_SUFFIXES,
    SourceFile,
    is_tree_file,
    may_hold_documents,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

_SUFFIXES = tuple(suffix.encode() for suffix in (*TREE_SUFFIXES, *DOCUMENT_SUFFIXES))

_NO_FILE = {"120000": "a symbolic link", "160000": "a submodule", "040000": "a directory"}


def revision_files(repository: Path, revision: str) -> tuple[SourceFile, ...]:
    """Return the files of any revision or tree of the repository around the directory ``repository``.

    In a hook this includes objects that are being pushed. Raises ``SourceError``.
    """
    git = Git(directory=repository, inherit=True)
    if not repository.is_dir():
        raise SourceError(f"there is no directory {repository}")
    answer = git.run("rev-parse", "--verify", "--end-of-options", f"{revision}^{{tree}}")
    if answer.status:
        git.run("rev-parse", "--git-dir").check()
        raise SourceError(f"there is no revision {revision} in the repository at {repository}")
    return read_files(git, answer.text, revision)


def read_files(git: Git, tree: str, revision: str) -> tuple[SourceFile, ...]:
    """Return the tree files and documents at the top of ``tree`` (anything that names a git tree), sorted by name.

    ``revision`` names the tree in messages. Raises ``GitError`` if git fails, and ``SourceError`` if the files
    cannot be a tree.
    """
    listed = _list(git, tree)
    entries = [_checked(entry, revision) for entry in listed if is_tree_file(entry.name)]
    documents = list(_documents(git, listed))
    sizes = {entry.name: entry.size for entry in entries}
    check_limits(sizes | {file.name: len(file.content) for file in documents}, revision)
    return tuple(sorted([*_read(git, entries), *documents], key=lambda file: file.name))


def read_usable_files(git: Git, tree: str) -> tuple[tuple[SourceFile, ...], frozenset[str]]:
    """Return the files as ``read_files`` does, without those that cannot be used, and the names of the latter.

    A tree that has to be left may be damaged: symbolic links in place of tree files, or no tree files at all.
    """
    entries = _list(git, tree)
    tree_entries = [entry for entry in entries if is_tree_file(entry.name)]
    usable = [entry for entry in tree_entries if _is_usable(entry)]
    documents = _documents(git, entries)
    files = sorted([*_read(git, usable), *documents], key=lambda file: file.name)
    return tuple(files), frozenset(shown(entry.name) for entry in tree_entries if entry not in usable)


def shown(name: str) -> str:
    """Return a name that git listed, without bytes that are not UTF-8, for messages and as a key."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def read_document_files(git: Git, tree: str) -> tuple[SourceFile, ...]:
    """Return only the files with documents at the top of ``tree``, sorted by name; raises ``GitError``."""
    return tuple(sorted(_documents(git, _list(git, tree)), key=lambda file: file.name))


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of ``ls-tree --long``; only files have a size. Bytes of a name that are not UTF-8 are kept."""

    name: str
    mode: str
    blob: str
    size: int


def _list(git: Git, tree: str) -> list[_Entry]:
    """Return the entries of a tree that may be tree files or hold documents."""
    listing = git.run("ls-tree", "-z", "--long", "--full-tree", "--end-of-options", tree).check().output
    return [_entry(line) for line in listing.split(b"\0") if line.endswith(_SUFFIXES)]


def _entry(line: bytes) -> _Entry:
    """Return the entry in a line: mode, type, object, size, tab, name."""
    facts, _, raw_name = line.partition(b"\t")
    mode, _, blob, size = facts.decode("ascii").split()
    name = raw_name.decode("utf-8", "surrogateescape")
    if mode not in _NO_FILE and not size.isdigit():
        raise GitError(f"git ls-tree failed: object {blob} of {name!r} cannot be read")
    return _Entry(name, mode, blob, int(size) if size.isdigit() else 0)


def _checked(entry: _Entry, revision: str) -> _Entry:
    """Return the entry; raises ``SourceError`` if it cannot be a tree file."""
    raw_name = entry.name.encode("utf-8", "surrogateescape")
    if raw_name.decode("utf-8", "replace") != entry.name:
        raise SourceError(f"revision {revision}: the name of {raw_name!r} is not UTF-8")
    if not entry.name.isprintable():
        raise SourceError(f"revision {revision}: the name of {entry.name!a} has characters that cannot be printed")
    if entry.mode in _NO_FILE:
        message = (
            f"{entry.name} of revision {revision} is {_NO_FILE[entry.mode]}; a tree file has to be a plain file"
        )
        raise SourceError(message)
    return entry


def _is_usable(entry: _Entry) -> bool:
    return entry.mode not in _NO_FILE and entry.name == shown(entry.name) and entry.size <= MOST_BYTES_OF_A_FILE


def _documents(git: Git, entries: Iterable[_Entry]) -> Iterator[SourceFile]:
    """Yield the YAML files that hold documents; reads at most the size limit of one file at a time."""
    batch: list[_Entry] = []
    taken = 0
    for entry in entries:
        if entry.mode in _NO_FILE or not may_hold_documents(entry.name, entry.size):
            continue
        if taken + entry.size > MOST_BYTES_OF_A_FILE:
            yield from _with_documents(git, batch)
            batch, taken = [], 0
        batch.append(entry)
        taken += entry.size
    yield from _with_documents(git, batch)


def _with_documents(git: Git, entries: Sequence[_Entry]) -> Iterator[SourceFile]:
    for file in _read(git, entries):
        if mentions_documents(file.content):
            yield SourceFile(shown(file.name), file.content)


def _read(git: Git, entries: Sequence[_Entry]) -> Iterator[SourceFile]:
    if entries:
        contents = _contents(git, [entry.blob for entry in entries])
        yield from (SourceFile(entry.name, content) for entry, content in zip(entries, contents, strict=True))


def _contents(git: Git, blobs: Sequence[str]) -> Iterator[bytes]:
    """Yield the content of blobs, read by one process: a line with object, type and size, then the content."""
    with tempfile.TemporaryFile() as wanted:
        wanted.write("".join(f"{blob}\n" for blob in blobs).encode("ascii"))
        wanted.seek(0)
        output = git.run("cat-file", "--batch", stdin=wanted).check().output
    position = 0
    for blob in blobs:
        end = output.find(b"\n", position)
        match output[position:end].split():
            case [_, b"blob", size]:
                position = end + 1 + int(size) + 1
                yield output[end + 1 : position - 1]
            case _:
                raise GitError(f"git cat-file failed: object {blob} is missing")
