"""Commits, each read with one run of git."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.adapters.tree_files import shorten

if TYPE_CHECKING:
    from zkdeployment.adapters.git.command import Git, GitOutput

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
    """Return git's output about the commit of any name; ``git`` has to run alone."""
    log = ("log", "--no-walk", "--no-show-signature", "--no-mailmap", "--encoding=UTF-8", _FORM)
    return git.run(*log, "--end-of-options", f"{name}^{{commit}}", "--")


def read(answer: GitOutput) -> Commit:
    """Return the commit in the output of ``ask``; raises ``GitError`` if there is no such commit."""
    output = answer.check().output.decode("utf-8", "replace")
    commit, parents, time, author, subject = output.split("\0")
    return Commit(commit, tuple(parents.split()), float(time), shorten(author), shorten(subject.strip()))
