"""Commits, each read with one run of git."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.adapters.tree_files import shorten

if TYPE_CHECKING:
    from zkdeployment.adapters.git.command import Git, GitOutput

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
    """Return git's output about the commit of any name; ``git`` has to run alone."""
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
