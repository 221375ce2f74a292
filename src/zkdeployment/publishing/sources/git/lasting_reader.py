"""Reads objects of a repository through one git that keeps running, because starting git takes longer than a read.

The running git ends with its reader, at the latest with this process.
"""

from __future__ import annotations

import os
import select
import threading
import time
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from zkdeployment.publishing.sources.git.command import GitError, GitTimeoutError
from zkdeployment.publishing.sources.git.objects import NO_FILE, TreeEntry, missing_object, unreadable_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from zkdeployment.publishing.sources.git.command import Git

#: The most unanswered requests; together they are smaller than a pipe, so that neither side blocks the other.
_WINDOW = 400
_CHUNK = 1 << 16

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
        output = self._process.stdout.fileno()
        if not select.select([output], [], [], max(0.0, self._deadline - time.monotonic()))[0]:
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
