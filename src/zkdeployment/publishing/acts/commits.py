"""Acts as commits: the author, the snapshot of the branch, and the change by the act."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.base.act import sanitize
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.source_files import Problem, SourceFile
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from zkdeployment.base.json_values import Value
    from zkdeployment.publishing.records import CommitSummary
    from zkdeployment.publishing.section import ApprovalObjection


#: The trailer of a rollback's commit message that names the revision whose tree files the commit restores.
ROLLBACK_TRAILER = "Zkdeployment-Rollback-To"

#: The trailer that names the rollout whose failure made the coordinator commit a rollback.
ROLLOUT_TRAILER = "Zkdeployment-Failed-Rollout"

#: Characters that git removes from names and mail addresses.
_CRUD = "<>\n\0"
_ENDS = " .,:;<>\"\\'"


#: The committer of acts, whose author is the person who ordered the act.
COMMITTER = "zkdeployment"


@dataclass(frozen=True, slots=True)
class Author:
    """The author of a commit."""

    name: str
    email: str

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>"

    @classmethod
    def of(cls, name: str, email: str) -> Author:
        """Return an author that git accepts: one line each, without angle brackets, never empty."""
        return cls(_identity(name) or "unknown", _identity(email) or "unknown")


def _identity(text: str) -> str:
    return "".join(character for character in sanitize(text) if character not in _CRUD).strip(_ENDS)


@dataclass(frozen=True, slots=True)
class BranchSnapshot:
    """The branch at its tip: the tree files and documents in the top directory.

    ``unusable`` are the names of entries that resemble tree files but cannot be read as such, for example symbolic
    links. For an act that goes back to a revision, ``past_files`` are the files of that revision, and ``newer``
    the commits since then, newest first. ``newer_files`` are the files of each trusted one of these commits, if
    the act requested them; they are read during the iteration.
    """

    tip: str
    files: Sequence[SourceFile]
    unusable: frozenset[str] = frozenset()
    past: str | None = None
    past_files: Sequence[SourceFile] = ()
    newer: Sequence[CommitSummary] = ()
    newer_files: Iterable[Sequence[SourceFile]] = ()


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The change of an act: the new content of files by name (``None`` deletes the file), and the commit message.

    ``trailers`` end the message, one ``KEY: VALUE`` a line, so that programs recognise the commit.
    """

    files: Mapping[str, bytes | None]
    subject: str
    body: str = ""
    trailers: Mapping[str, str] = field(default_factory=dict)

    @property
    def message(self) -> str:
        """The whole commit message."""
        trailers = "\n".join(f"{key}: {sanitize(value)}" for key, value in self.trailers.items())
        parts = (sanitize(self.subject), self.body.strip(), trailers)
        return "\n\n".join(part for part in parts if part) + "\n"

    def apply(self, files: Sequence[SourceFile]) -> tuple[SourceFile, ...]:
        """Return the files with the change."""
        kept = [file for file in files if file.name not in self.files]
        new = [SourceFile(name, content) for name, content in self.files.items() if content is not None]
        return tuple(sorted([*kept, *new], key=lambda file: file.name))


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """The outcome of an act as a commit.

    ``commit`` is in the branch if ``made``; without a change it is the tip of the branch, and for a dry run it is
    ``None``. ``changed`` is whether there is anything to change. ``diff`` is the change as ``git diff`` prints it.
    ``undone`` are the commits that a rollback to ``past`` undoes, newest first. ``files`` are the tree files and
    documents after the act.
    """

    commit: str | None
    changed: bool
    made: bool = False
    diff: str = ""
    past: str | None = None
    undone: Sequence[CommitSummary] = ()
    files: Sequence[SourceFile] = ()

    def to_json(self) -> dict[str, Value]:
        """Return the outcome as ``-o json`` prints it."""
        return {
            "commit": self.commit,
            "changed": self.changed,
            "diff": self.diff,
            "undone": [commit.to_json() for commit in self.undone],
        }


#: The check of a change: from the files at the tip, the files of the commit, and the objections to its approvals,
#: to the problems of the commit.
CommitCheck: TypeAlias = (
    "Callable[[Sequence[SourceFile], Sequence[SourceFile], ApprovalObjection], Iterable[Problem]]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOrder:
    """An act that will become a commit.

    ``compute`` returns the change for the present branch; it is called again when others pushed in the meantime,
    and may raise ``RefusedError``. ``back_to`` names the revision whose files the act restores: a commit id, whole
    or shortened. Such an act may leave a tip that is damaged, or lacks a required signature. ``once`` is a trailer
    (key and value) of ``compute``'s message: if a commit since ``back_to`` has it, that commit is the outcome.
    ``reads_newer`` is whether ``compute`` needs the files of the commits since ``back_to``.
    """

    author: Author
    compute: Callable[[BranchSnapshot], FileChanges]
    check: CommitCheck
    back_to: str | None = None
    once: tuple[str, str] | None = None
    reads_newer: bool = False

    def require_publishable(self, within: str | None) -> None:
        """Raise ``RefusedError`` if only commits of the branch ``within`` and rollbacks are published."""
        if within is not None and self.back_to is None:
            raise RefusedError(
                f"the act would not be published: expected a rollback or a commit of {within} (contained-in),"
                f" found another act; repeat it with a configuration whose branch is {within}"
            )
