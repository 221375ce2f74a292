"""What git is about to take: the index before a commit, branches before a push ends."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from zkdeployment.adapters.git.command import Git
from zkdeployment.adapters.git.files import read_files
from zkdeployment.errors import ConfigurationError

if TYPE_CHECKING:
    from zkdeployment.model.source_files import SourceFile

_BRANCHES = "refs/heads/"


@dataclass(frozen=True, slots=True)
class Pushed:
    """A branch that is being pushed, and the commit that it is to be at; ``None``: it is being deleted."""

    branch: str
    commit: str | None


def read_pushed(stdin: TextIO) -> tuple[Pushed, ...] | None:
    """Read what a ``pre-receive`` hook is told: lines ``OLD NEW REF``; ``None`` before a commit.

    Other refs than branches are left out. Raises ``ConfigurationError`` for lines that say something else.
    """
    if ("GIT_INDEX_FILE" in os.environ and "GIT_QUARANTINE_PATH" not in os.environ) or stdin.isatty():
        return None
    lines = [line.split() for line in stdin if line.strip()]
    if not lines:
        return None
    for words in lines:
        if len(words) != 3:
            raise ConfigurationError(
                f"expected OLD NEW REF, as git tells a pre-receive hook, found {' '.join(words)!r}"
            )
    return tuple(
        Pushed(ref.removeprefix(_BRANCHES), None if set(new) == {"0"} else new)
        for _, new, ref in lines
        if ref.startswith(_BRANCHES)
    )


def staged_files() -> tuple[SourceFile, ...]:
    """Read the tree files of the index of the repository around the working directory; raises ``SourceError``."""
    git = Git(directory=Path.cwd(), inherit=True)
    return read_files(git, git.run("write-tree").check().text, "to be committed")
