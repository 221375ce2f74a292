"""Git's object store: blobs, trees and commits, the files of a tree, and the input of git hooks.

``LastingReader`` reads through one git that keeps running, because starting git takes longer than a read. The
running git ends with its reader, at the latest with this process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import tempfile
import threading
import time
import weakref
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TextIO

from zkdeployment.base.cluster import is_commit
from zkdeployment.base.errors import ConfigurationError, SourceError
from zkdeployment.base.source_files import (
    DOCUMENT_SUFFIXES,
    MOST_BYTES_OF_A_FILE,
    TREE_SUFFIXES,
    SourceFile,
    is_tree_file,
    may_hold_documents,
)
from zkdeployment.base.values import dataclass
from zkdeployment.documents.kinds import mentions_documents
from zkdeployment.publishing.ports import check_entry, check_limits, shorten
from zkdeployment.publishing.records import CommitSummary
from zkdeployment.publishing.sources.git.command import Git, GitError, GitOutput, GitTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


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

    @property
    def summary(self) -> CommitSummary:
        """The commit as records and pages name it."""
        return CommitSummary(self.id, self.author, self.subject, self.time)


def ask(git: Git, name: str) -> GitOutput:
    """Return git's output about the commit with any name; ``git`` must ignore the user's configuration."""
    log = ("log", "--no-walk", "--no-show-signature", "--no-mailmap", "--encoding=UTF-8", _FORM)
    return git.run(*log, "--end-of-options", f"{name}^{{commit}}", "--")


def read(answer: GitOutput) -> Commit:
    """Return the commit in the output of ``ask``; raises ``GitError`` if there is no such commit."""
    return _commit(*answer.check().output.decode("utf-8", "replace").split("\0"))


def read_range(git: Git, span: str, *, most: int) -> list[Commit]:
    """Return the newest commits of a range ``PAST..TIP`` or up to ``TIP``, newest first, at ``most`` this many."""
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
    entries = [entry for entry in listed if is_tree_file(entry.name)]
    for entry in entries:
        check_entry(entry.name, f"revision {revision}", NO_FILE.get(entry.mode, ""))
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


#: The most unanswered requests; together they are smaller than a pipe, so that neither side blocks the other.
_WINDOW = 400
_CHUNK = 1 << 20

_DIRECTORY = "040000"


class LastingReader:
    """Reads objects while it is open (an ``ObjectReader``); it may be opened again and again, by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: Any = None
        self._end_process: Callable[[], object] = lambda: None
        self._identity: tuple[int, int] | None = None
        self._received = b""
        self._deadline = 0.0

    @contextmanager
    def opened(self, git: Git, directory: Path) -> Iterator[Self]:
        """Open the repository in ``directory`` for ``git``, whose time limit applies to the whole block.

        Git is started again after a failure, and after another directory has replaced this one. Raises
        ``GitError``.
        """
        with self._lock:
            try:
                self._start(git, directory)
                yield self
            except BaseException:
                self._end()  # a part of an answer may be unread
                raise

    def entries(self, tree: str, suffixes: tuple[bytes, ...]) -> list[TreeEntry]:
        found, kind, content = next(self._read([tree]))
        if kind != "tree":
            raise missing_object(tree)
        listed = [entry for entry in _parse(content, len(found) // 2) if entry[2].endswith(suffixes)]
        files = [(blob, name) for mode, blob, name in listed if mode not in NO_FILE]
        sizes = dict(self._sizes(files))
        return [
            TreeEntry(name.decode("utf-8", "surrogateescape"), mode, blob, sizes.get(blob, 0))
            for mode, blob, name in listed
        ]

    def nested_entries(self, tree: str, suffixes: tuple[bytes, ...]) -> list[TreeEntry]:
        files = [file for file in self._below(tree) if file[1].endswith(suffixes)]
        sizes = dict(self._sizes(files))
        return [
            TreeEntry(name.decode("utf-8", "surrogateescape"), "100644", blob, sizes[blob]) for blob, name in files
        ]

    def _below(self, tree: str) -> list[tuple[str, bytes]]:
        """Return the files in all directories below a tree, by blob and path; all of a level are read at once."""
        files: list[tuple[str, bytes]] = []
        level = [(tree, b"")]
        while level:
            below = []
            read = self._read([directory for directory, _ in level])
            for (_, parent), (found, kind, content) in zip(level, read, strict=True):
                if kind != "tree":
                    raise missing_object(found)
                for mode, entry, name in _parse(content, len(found) // 2):
                    if mode == _DIRECTORY:
                        below.append((entry, parent + name + b"/"))
                    elif parent and mode not in NO_FILE:
                        files.append((entry, parent + name))
            level = below
        return files

    def contents(self, blobs: Sequence[str]) -> list[bytes]:
        contents = []
        for blob, (_, kind, content) in zip(blobs, self._read(blobs), strict=True):
            if kind != "blob":
                raise missing_object(blob)
            contents.append(content)
        return contents

    def _start(self, git: Git, directory: Path) -> None:
        self._deadline = time.monotonic() + git.timeout
        try:
            status = directory.stat()
        except OSError as error:
            raise GitError(f"git cat-file failed: {error.strerror}: {directory}") from error
        identity = status.st_dev, status.st_ino
        if self._process is None or self._identity != identity:
            self._end()
            self._process, self._identity = git.start("cat-file", "--batch-command"), identity
            self._end_process = weakref.finalize(self, _end, self._process.proc)
            with contextlib.suppress(OSError):  # the limit of the user's pipes: a smaller one is only slower
                fcntl.fcntl(self._process.stdout, fcntl.F_SETPIPE_SZ, _CHUNK)

    def _end(self) -> None:
        self._end_process()
        self._process, self._received = None, b""

    def _sizes(self, files: Sequence[tuple[str, bytes]]) -> Iterator[tuple[str, int]]:
        for (blob, name), answer in zip(files, self._ask("info", [blob for blob, _ in files]), strict=True):
            match answer:
                case [_, "blob", size]:
                    yield blob, int(size)
                case _:
                    raise unreadable_object(blob, name)

    def _read(self, names: Sequence[str]) -> Iterator[tuple[str, str, bytes]]:
        """Yield the id, the kind and the content of each object."""
        for name, answer in zip(names, self._ask("contents", names), strict=True):
            match answer:
                case [found, kind, size]:
                    yield found, kind, self._take(int(size) + 1)[:-1]  # a line break follows
                case _:
                    raise missing_object(name)

    def _ask(self, command: str, names: Sequence[str]) -> Iterator[list[str]]:
        """Send a request for each name, and yield the words of the line with which its answer begins."""
        for start in range(0, len(names), _WINDOW):
            window = names[start : start + _WINDOW]
            try:
                os.write(self._process.stdin.fileno(), "".join(f"{command} {name}\n" for name in window).encode())
            except OSError as error:
                raise GitError("git cat-file failed: it has ended") from error
            for _ in window:
                yield self._take_line().split()

    def _take_line(self) -> str:
        while (end := self._received.find(b"\n")) < 0:
            self._received += self._receive()
        return self._take(end + 1).decode("utf-8", "replace")

    def _take(self, size: int) -> bytes:
        """Return the next bytes of the output."""
        parts, missing = [self._received], size - len(self._received)
        while missing > 0:
            parts.append(self._receive())
            missing -= len(parts[-1])
        received = b"".join(parts)
        self._received = received[size:]
        return received[:size]

    def _receive(self) -> bytes:
        output, poll = self._process.stdout.fileno(), select.poll()  # select() fails for descriptors above 1023
        poll.register(output, select.POLLIN)
        if not poll.poll(1000 * max(0.0, self._deadline - time.monotonic())):
            raise GitTimeoutError("git cat-file did not answer in time and was stopped")
        received = os.read(output, _CHUNK)
        if not received:
            raise GitError("git cat-file failed: it has ended")
        return received


def _end(process: Any) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        pipe.close()
    process.kill()
    process.wait()


def _parse(tree: bytes, length: int) -> Iterator[tuple[str, str, bytes]]:
    """Yield mode, object and name of each entry in a tree whose ids have ``length`` bytes."""
    position = 0
    while position < len(tree):
        space = tree.index(b" ", position)
        end = tree.index(b"\0", space)
        mode = tree[position:space].decode("ascii").rjust(6, "0")
        position = end + 1 + length
        yield mode, tree[end + 1 : position].hex(), tree[space + 1 : end]


_BRANCHES = "refs/heads/"


@dataclass(frozen=True, slots=True)
class Pushed:
    """A branch of a push, its new commit (``None`` deletes the branch) and the commit before (``None``: new)."""

    branch: str
    commit: str | None
    before: str | None = None


def read_pushed(stdin: TextIO) -> tuple[Pushed, ...] | None:
    """Return the branches in the input of a ``pre-receive`` hook: lines ``OLD NEW REF``; ``None`` before a commit.

    Refs other than branches are omitted. Raises ``ConfigurationError`` for lines of another form.
    """
    if ("GIT_INDEX_FILE" in os.environ and "GIT_QUARANTINE_PATH" not in os.environ) or stdin.isatty():
        return None
    lines = [line.split() for line in stdin if line.strip()]
    if not lines:
        return None
    for fields in lines:
        if len(fields) != 3:
            raise ConfigurationError(
                f"expected OLD NEW REF, as git passes them to a pre-receive hook, found {' '.join(fields)!r}"
            )
    return tuple(
        Pushed(ref.removeprefix(_BRANCHES), _pushed_commit(new), _pushed_commit(old))
        for old, new, ref in lines
        if ref.startswith(_BRANCHES)
    )


def _pushed_commit(name: str) -> str | None:
    return None if set(name) == {"0"} else name


def documents_of(commit: str) -> tuple[SourceFile, ...]:
    """Return the files with documents of a commit of this repository; empty if the commit does not exist."""
    git = Git(directory=Path.cwd(), inherit=True)
    tree = _tree_of(git, commit)
    return () if tree is None else read_document_files(GitObjects(git), tree)


def has_revision(commit: str) -> bool:
    """Whether this repository has a commit."""
    return _tree_of(Git(directory=Path.cwd(), inherit=True), commit) is not None


def _tree_of(git: Git, commit: str) -> str | None:
    tree = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{tree}}")
    return None if tree.status else tree.text


def staged_files() -> tuple[SourceFile, ...]:
    """Return the tree files in the index of the repository around this directory; raises ``SourceError``."""
    git = Git(directory=Path.cwd(), inherit=True)
    return read_files(GitObjects(git), git.run("write-tree").check().text, "to be committed", nested=True)
