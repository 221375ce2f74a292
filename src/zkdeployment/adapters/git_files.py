"""Reads tree files from git's object store: blobs of a commit, never a work tree."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.adapters.git_command import Git, GitError
from zkdeployment.adapters.tree_files import SUFFIXES, check_limits
from zkdeployment.errors import SourceError
from zkdeployment.model.publication import SourceFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_NO_FILE = {"120000": "a symbolic link", "160000": "a submodule", "040000": "a directory"}


def revision_files(repository: Path, revision: str) -> tuple[SourceFile, ...]:
    """Read the tree files of any revision, or tree, of the repository that ``repository`` is a directory of.

    In a hook, also of what is about to be pushed. Raises ``SourceError``.
    """
    git = Git(directory=repository, inherit=True)
    if not repository.is_dir():
        raise SourceError(f"there is no directory {repository}")
    found = git.run("rev-parse", "--verify", "--end-of-options", f"{revision}^{{tree}}")
    if found.status:
        git.run("rev-parse", "--git-dir").check()
        raise SourceError(f"there is no revision {revision} in the repository at {repository}")
    return read_files(git, found.text, revision)


def read_files(git: Git, tree: str, revision: str) -> tuple[SourceFile, ...]:
    """Read the tree files at the top of ``tree`` (anything git takes for a tree), sorted by name.

    ``revision`` is what messages call it. Raises ``GitError`` when git fails and ``SourceError`` when what is
    there cannot be a tree.
    """
    listing = git.run("ls-tree", "-z", "--long", "--full-tree", "--end-of-options", tree).check().output
    entries = [entry for line in listing.split(b"\0") if line for entry in _tree_file(line, revision)]
    check_limits({entry.name: entry.size for entry in entries}, revision)
    entries.sort(key=lambda entry: entry.name)
    contents = _contents(git, [entry.blob for entry in entries])
    return tuple(SourceFile(entry.name, content) for entry, content in zip(entries, contents, strict=True))


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    blob: str
    size: int


def _tree_file(line: bytes, revision: str) -> Iterator[_Entry]:
    """Read a line of ``ls-tree --long``: mode, type, object, size, tab, name."""
    facts, _, raw_name = line.partition(b"\t")
    if not raw_name.endswith(tuple(suffix.encode() for suffix in SUFFIXES)):
        return
    mode, _, blob, size = facts.decode("ascii").split()
    try:
        name = raw_name.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SourceError(f"revision {revision}: the name of {raw_name!r} is not UTF-8") from error
    if mode in _NO_FILE:
        raise SourceError(f"{name} of revision {revision} is {_NO_FILE[mode]}; a tree file has to be a plain file")
    if not size.isdigit():
        raise GitError(f"git ls-tree failed: object {blob} of {name} cannot be read")
    yield _Entry(name, blob, int(size))


def _contents(git: Git, blobs: Sequence[str]) -> Iterator[bytes]:
    """Read blobs, all by one process: each comes as a line with object, type and size, then its content."""
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
