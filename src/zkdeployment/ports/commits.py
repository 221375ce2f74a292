"""The port for acts that are commits: changes of the wanted state in the branch of the tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zkdeployment.adapters.git.approvals import GitApprovals
    from zkdeployment.intents.life_cycle import IntentSnapshot
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.commits import Author, BranchSnapshot, CommitOutcome, FileChanges
    from zkdeployment.model.problem import Problem
    from zkdeployment.model.source_files import SourceFile

#: Returns why the approval of an intent does not count in a commit, ``None`` if it counts. ``None`` instead of a
#: function: approvals need no signature.
ApprovalObjection: TypeAlias = "Callable[[IntentSnapshot], str | None] | None"

#: The check of a change: from the files at the tip, the files of the commit, and the objections to its approvals,
#: to the problems of the commit.
CommitCheck: TypeAlias = (
    "Callable[[Sequence[SourceFile], Sequence[SourceFile], ApprovalObjection], Iterable[Problem]]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOrder:
    """An act that is to become a commit.

    ``compute`` returns the change for the present branch; it is called again when others pushed in the meantime,
    and may raise ``RefusedError``. ``back_to`` names the revision whose files the act restores: a commit id, whole
    or shortened. Such an act may leave a tip that is damaged, or not signed as it has to be. ``once`` is a trailer
    (key and value) of ``compute``'s message: if a commit since ``back_to`` has it, that commit is the outcome.
    ``reads_newer`` is whether ``compute`` needs the files of the commits since ``back_to``.
    """

    author: Author
    compute: Callable[[BranchSnapshot], FileChanges]
    check: CommitCheck
    back_to: str | None = None
    once: tuple[str, str] | None = None
    reads_newer: bool = False


class TreeCommits(Protocol):
    """The branch of the tree as a place for commits. Several threads may call these methods.

    ``SourceError``: the repository cannot be read, or the outcome of a push is not known. ``RefusedError``: the
    repository or the configuration does not allow the act, with what is missing.
    """

    @property
    def approvals(self) -> GitApprovals | None:
        """The verifier of approvals in commits of the branch; ``None`` if approvals need no signature.

        The verifier is for ``compute`` of an order: the tip does not change meanwhile.
        """

    def author(self, user: str) -> Author:
        """Return the author of the acts of a user of this machine or of this service: ``USER <USER@HOST>``."""

    def commit(self, order: CommitOrder, *, dry_run: bool = False) -> CommitOutcome:
        """Commit an act to the branch and return when the repository accepted it; ``dry_run`` pushes nothing.

        Raises ``TreeError`` with all errors if the result is not a valid tree, and ``ConflictError`` if others
        pushed at each attempt.
        """

    def at_tip(self) -> tuple[Revision, Sequence[SourceFile]]:
        """Return the tip of the branch with its tree files and documents, whose signature is not verified."""

    def revision(self, name: str) -> str:
        """Return the whole id of a commit of the branch; ``RefusedError`` if the branch does not contain it."""

    def files(self, revision: Revision) -> Sequence[SourceFile]:
        """Return the tree files and documents of a revision of the branch; raises ``SourceError``."""

    def contains(self, revision: Revision, commit: str) -> bool:
        """Whether ``revision`` is ``commit`` or descends from it; ``False`` if either is unknown."""

    def trailer(self, revision: Revision, key: str) -> str | None:
        """Return a trailer of a commit's message; ``None`` without such a trailer or commit."""
