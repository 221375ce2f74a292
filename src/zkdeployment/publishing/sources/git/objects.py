"""Git's object store: blobs, trees and commits, and the files of a tree that are read from it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from zkdeployment.base.cluster import is_commit
from zkdeployment.base.errors import SourceError
from zkdeployment.base.source_files import (
    DOCUMENT_SUFFIXES,
    MOST_BYTES_OF_A_FILE,
    TREE_SUFFIXES,
    SourceFile,
    is_tree_file,
    may_hold_documents,
)
from zkdeployment.documents.registry import mentions_documents
from zkdeployment.publishing.sources.git.command import Git, GitError
from zkdeployment.publishing.sources.tree_files import check_limits, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from zkdeployment.publishing.sources.git.command import GitOutput


#: The modes of entries other than files.
NO_FILE = {"120000": "a symbolic link", "160000": "a submodule", "040000": "a directory"}


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """An entry of a tree; only files have a size. Bytes of a name that are not UTF-8 are kept."""

    name: str
    mode: str
    blob: str
    size: int


class ObjectReader(Protocol):
    """Reads objects of a repository. Raises ``GitError`` if an object is missing or damaged."""

    def entries(self, tree: str, suffixes: tuple[bytes, ...]) -> list[TreeEntry]:
        """Return the entries at the top of ``tree`` (any name of a git tree) whose names have such a suffix."""

    def nested_entries(self, tree: str, suffixes: tuple[bytes, ...]) -> list[TreeEntry]:
        """Return the files in all directories below ``tree`` with such a suffix; each name is a path."""

    def contents(self, blobs: Sequence[str]) -> list[bytes]:
        """Return the contents of blobs, in the order given."""


class GitObjects:
    """Reads objects with a run of git for each call (an ``ObjectReader``)."""

    def __init__(self, git: Git) -> None:
        self._git = git

    def entries(self, tree: str, suffixes: tuple[bytes, ...]) -> list[TreeEntry]:
        return [_entry(line) for line in self._list(tree) if line.endswith(suffixes)]

    def nested_entries(self, tree: str, suffixes: tuple[bytes, ...]) -> list[TreeEntry]:
        entries = [_entry(line) for line in self._list(tree, "-r") if line.endswith(suffixes)]
        return [entry for entry in entries if "/" in entry.name]

    def _list(self, tree: str, *options: str) -> list[bytes]:
        listed = ("ls-tree", *options, "-z", "--long", "--full-tree", "--end-of-options", tree)
        return self._git.run(*listed).check().output.split(b"\0")

    def contents(self, blobs: Sequence[str]) -> list[bytes]:
        with tempfile.TemporaryFile() as wanted:
            wanted.write("".join(f"{blob}\n" for blob in blobs).encode("ascii"))
            wanted.seek(0)
            output = self._git.run("cat-file", "--batch", stdin=wanted).check().output
        contents = []
        position = 0
        for blob in blobs:  # a line with object, type and size, then the content
            end = output.find(b"\n", position)
            match output[position:end].split():
                case [_, b"blob", size]:
                    position = end + 1 + int(size) + 1
                    contents.append(output[end + 1 : position - 1])
                case _:
                    raise missing_object(blob)
        return contents


def missing_object(name: str) -> GitError:
    """Return the error for an object that git does not have."""
    return GitError(f"git cat-file failed: object {name} is missing")


def unreadable_object(blob: str, name: bytes) -> GitError:
    """Return the error for an entry whose object cannot be read."""
    shown = name.decode("utf-8", "surrogateescape")
    return GitError(f"git ls-tree failed: object {blob} of {shown!r} cannot be read")


def _entry(line: bytes) -> TreeEntry:
    """Return the entry in a line: mode, type, object, size, tab, name."""
    facts, _, name = line.partition(b"\t")
    mode, _, blob, size = facts.decode("ascii").split()
    if mode not in NO_FILE and not size.isdigit():
        raise unreadable_object(blob, name)
    return TreeEntry(name.decode("utf-8", "surrogateescape"), mode, blob, int(size) if size.isdigit() else 0)


_FIELDS = 5
_FORM = "--format=%H%x00%P%x00%ct%x00%an <%ae>%x00%s"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: its id, its parents' ids, its time (seconds since the epoch), its author and its subject."""

    id: str
    parents: tuple[str, ...]
    time: float
    author: str
    subject: str


def ask(git: Git, name: str) -> GitOutput:
    """Return git's output about the commit with any name; ``git`` must ignore the user's configuration."""
    log = ("log", "--no-walk", "--no-show-signature", "--no-mailmap", "--encoding=UTF-8", _FORM)
    return git.run(*log, "--end-of-options", f"{name}^{{commit}}", "--")


def read(answer: GitOutput) -> Commit:
    """Return the commit in the output of ``ask``; raises ``GitError`` if there is no such commit."""
    return _commit(*answer.check().output.decode("utf-8", "replace").split("\0"))


def read_range(git: Git, span: str, *, most: int) -> list[Commit]:
    """Return the newest commits of a range ``PAST..TIP``, newest first, at ``most`` this many."""
    log = ("log", "-z", f"--max-count={most}", "--no-show-signature", "--no-mailmap", "--encoding=UTF-8", _FORM)
    fields = git.run(*log, "--topo-order", "--end-of-options", span, "--").check().output.split(b"\0")
    texts = [field.decode("utf-8", "replace") for field in fields]
    return [_commit(*texts[start : start + _FIELDS]) for start in range(0, len(texts) - _FIELDS + 1, _FIELDS)]


def _commit(commit: str, parents: str, time: str, author: str, subject: str) -> Commit:
    return Commit(commit, tuple(parents.split()), float(time), shorten(author), shorten(subject.strip()))


_DOCUMENT_SUFFIXES = tuple(suffix.encode() for suffix in DOCUMENT_SUFFIXES)
_SUFFIXES = (*(suffix.encode() for suffix in TREE_SUFFIXES), *_DOCUMENT_SUFFIXES)


def revision_files(repository: Path, revision: str) -> tuple[SourceFile, ...]:
    """Return the files of any revision or tree of the repository around the directory ``repository``.

    A full id always means the object with that id, never a tag or a branch with that name. In a hook, objects that
    are being pushed are included. Raises ``SourceError``.
    """
    git = Git(directory=repository, inherit=True)
    if not repository.is_dir():
        raise SourceError(f"there is no directory {repository}")
    answer = git.run("rev-parse", "--verify", "--end-of-options", f"{revision}^{{tree}}")
    if answer.status or not _is_named_by_itself(git, revision):
        git.run("rev-parse", "--git-dir").check()
        raise SourceError(f"there is no revision {revision} in the repository at {repository}")
    return read_files(GitObjects(git), answer.text, revision, nested=True)


def _is_named_by_itself(git: Git, revision: str) -> bool:
    """Whether a full id is the id of an object; true for other names.

    Git takes an id of the wrong length, of another kind of repository, as the name of a tag or a branch.
    """
    full_id = revision.lower()
    if not is_commit(full_id):
        return True
    return git.run("rev-parse", "--verify", "--quiet", "--end-of-options", revision).text == full_id


def read_files(objects: ObjectReader, tree: str, revision: str, *, nested: bool = False) -> tuple[SourceFile, ...]:
    """Return the tree files and documents at the top of ``tree`` (anything that names a git tree), sorted by name.

    ``revision`` names the tree in messages. With ``nested``, files with documents in subdirectories follow, so
    that checks can name documents that are not in force. Raises ``GitError`` if git fails, and ``SourceError`` if
    the files cannot be a tree.
    """
    listed = objects.entries(tree, _SUFFIXES)
    entries = [_checked(entry, revision) for entry in listed if is_tree_file(entry.name)]
    documents = list(_documents(objects, listed))
    sizes = {entry.name: entry.size for entry in entries}
    check_limits(sizes | {file.name: len(file.content) for file in documents}, revision)
    files = sorted([*_read(objects, entries), *documents], key=lambda file: file.name)
    below = _documents(objects, objects.nested_entries(tree, _DOCUMENT_SUFFIXES)) if nested else ()
    return (*files, *(replace(file, is_nested=True) for file in below))


def read_usable_files(objects: ObjectReader, tree: str) -> tuple[tuple[SourceFile, ...], frozenset[str]]:
    """Return the files as ``read_files`` does, without unusable ones, and the names of unusable files.

    The tree that a rollback leaves may be damaged: it may have symbolic links in place of tree files, or no tree
    files at all.
    """
    entries = objects.entries(tree, _SUFFIXES)
    tree_entries = [entry for entry in entries if is_tree_file(entry.name)]
    usable = [entry for entry in tree_entries if _is_usable(entry)]
    documents = _documents(objects, entries)
    files = sorted([*_read(objects, usable), *documents], key=lambda file: file.name)
    return tuple(files), frozenset(shown(entry.name) for entry in tree_entries if entry not in usable)


def shown(name: str) -> str:
    """Return a name from git without bytes that are not UTF-8, for messages and as a key."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def read_document_files(objects: ObjectReader, tree: str) -> tuple[SourceFile, ...]:
    """Return only the files with documents at the top of ``tree``, sorted by name; raises ``GitError``."""
    return tuple(sorted(_documents(objects, objects.entries(tree, _SUFFIXES)), key=lambda file: file.name))


def _checked(entry: TreeEntry, revision: str) -> TreeEntry:
    """Return the entry; raises ``SourceError`` if it cannot be a tree file."""
    raw_name = entry.name.encode("utf-8", "surrogateescape")
    if raw_name.decode("utf-8", "replace") != entry.name:
        raise SourceError(f"revision {revision}: the name of {raw_name!r} is not UTF-8")
    if not entry.name.isprintable():
        raise SourceError(f"revision {revision}: the name of {entry.name!a} has characters that cannot be printed")
    if entry.mode in NO_FILE:
        message = (
            f"{entry.name} of revision {revision} is {NO_FILE[entry.mode]}; a tree file has to be a plain file"
        )
        raise SourceError(message)
    return entry


def _is_usable(entry: TreeEntry) -> bool:
    return entry.mode not in NO_FILE and entry.name == shown(entry.name) and entry.size <= MOST_BYTES_OF_A_FILE


def _documents(objects: ObjectReader, entries: Iterable[TreeEntry]) -> Iterator[SourceFile]:
    """Yield the YAML files that hold documents; reads at most the size limit of one file at a time."""
    batch: list[TreeEntry] = []
    taken = 0
    for entry in entries:
        if entry.mode in NO_FILE or not may_hold_documents(entry.name, entry.size):
            continue
        if taken + entry.size > MOST_BYTES_OF_A_FILE:
            yield from _with_documents(objects, batch)
            batch, taken = [], 0
        batch.append(entry)
        taken += entry.size
    yield from _with_documents(objects, batch)


def _with_documents(objects: ObjectReader, entries: Sequence[TreeEntry]) -> Iterator[SourceFile]:
    for file in _read(objects, entries):
        if mentions_documents(file.content):
            yield SourceFile(shown(file.name), file.content)


def _read(objects: ObjectReader, entries: Sequence[TreeEntry]) -> Iterator[SourceFile]:
    if entries:
        contents = objects.contents([entry.blob for entry in entries])
        yield from (SourceFile(entry.name, content) for entry, content in zip(entries, contents, strict=True))
