"""Git's object store as files are read from it: the entries of a tree, the contents of blobs.

Which entries are tree files and documents is decided in ``files``.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from zkdeployment.adapters.git.command import GitError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.adapters.git.command import Git

#: The modes of entries that are no files.
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
