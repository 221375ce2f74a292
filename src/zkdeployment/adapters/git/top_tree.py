"""Writing commits into git's object store, without a work tree or an index.

Acts change files at the top of the repository only, so a new tree is the listing of the old one with other lines:
its cost does not depend on what the subdirectories hold.
"""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.adapters.git.files import shown
from zkdeployment.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zkdeployment.adapters.git.command import Git

_FILE = b"100644"
_FILE_MODES = frozenset({b"100644", b"100755", b"100664"})
_NOT_NAMES = frozenset({"", ".", ".."})


@dataclass(frozen=True, slots=True)
class TopEntry:
    """An entry in the top directory of a commit; the name is as git stores it."""

    mode: bytes
    kind: bytes
    blob: bytes
    name: bytes


def top_entries(git: Git, tree: str) -> list[TopEntry]:
    """Return the entries in the top directory of ``tree`` (anything that names a git tree)."""
    listing = git.run("ls-tree", "-z", "--full-tree", "--end-of-options", tree).check().output
    entries = []
    for line in filter(None, listing.split(b"\0")):
        facts, _, name = line.partition(b"\t")
        mode, kind, blob = facts.split()
        entries.append(TopEntry(mode, kind, blob, name))
    return entries


def write_tree(
    git: Git, base: str, changes: Mapping[str, bytes | None], known: Collection[bytes], replaced: Collection[str]
) -> str:
    """Return a new tree: that of ``base`` with other contents of files at its top (``None`` removes a file).

    ``known`` are the ids of blobs that the repository has. Entries that are no files stay, except for those in
    ``replaced``. Raises ``RefusedError`` if a name cannot be a file's.
    """
    entries = {}
    for entry in top_entries(git, base):
        name = shown(entry.name.decode("utf-8", "surrogateescape"))
        if name in entries and name in changes:
            raise RefusedError(f"cannot change {name!a}: the repository has two files whose names look like that")
        entries[name if name not in entries else f"{name}\0"] = entry
    for name, content in changes.items():
        old = entries.pop(name, None)
        if old is not None and old.mode not in _FILE_MODES and name not in replaced:
            raise RefusedError(
                f"cannot write {name}: expected a file at the top of the repository, found another"
                " kind of entry; remove it or rename it"
            )
        if content is not None:
            _check_name(name)
            mode = old.mode if old is not None and old.mode in _FILE_MODES else _FILE
            raw = name.encode() if old is None else old.name
            entries[name] = TopEntry(mode, b"blob", _blob(git, content, known), raw)
    lines = b"".join(b"%b %b %b\t%b\0" % (e.mode, e.kind, e.blob, e.name) for e in entries.values())
    return _with_input(git, lines, "mktree", "-z")


def write_commit(git: Git, tree: str, parent: str, message: str, *options: str) -> str:
    """Return a new commit of a tree."""
    text = message.encode("utf-8", "replace").replace(b"\0", b"")
    return _with_input(git, text, "commit-tree", *options, "-p", parent, "-F", "-", tree)


def _check_name(name: str) -> None:
    if name in _NOT_NAMES or "/" in name or not name.isprintable() or name.lower() == ".git" or len(name) > 250:
        raise RefusedError(f"cannot write {name!a}: expected the name of a file at the top of the repository")


def _blob(git: Git, content: bytes, known: Collection[bytes]) -> bytes:
    """Return the id of a blob, which is written unless it is one of the ``known`` ones."""
    form = "sha256" if len(next(iter(known), b"")) == 64 else "sha1"
    digest = hashlib.new(form, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest().encode()
    if digest in known:
        return digest
    return _with_input(git, content, "hash-object", "-w", "--stdin").encode()


def _with_input(git: Git, text: bytes, *arguments: str) -> str:
    with tempfile.TemporaryFile() as file:
        file.write(text)
        file.seek(0)
        return git.run(*arguments, stdin=file).check().text
