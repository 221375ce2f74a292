"""The input of git hooks: the index before a commit, the branches of a push."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.publishing.sources.git.command import Git
from zkdeployment.publishing.sources.git.objects import GitObjects, read_document_files, read_files

if TYPE_CHECKING:
    from zkdeployment.base.source_files import SourceFile

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
        Pushed(ref.removeprefix(_BRANCHES), _commit(new), _commit(old))
        for old, new, ref in lines
        if ref.startswith(_BRANCHES)
    )


def _commit(name: str) -> str | None:
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
