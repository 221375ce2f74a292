"""Check configurations: commits that create, change and delete them.

Each function raises what ``TreeCommits.commit`` raises. ``permit`` is called with the path of the object of the
configuration at the tip of the branch; it raises ``ForbiddenError`` if the author may not act there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from zkdeployment.base.text import listing
from zkdeployment.checks.rules.edits import find_check, with_changed_check, with_new_checks, without_check
from zkdeployment.publishing.acts.checking import check_change
from zkdeployment.publishing.acts.commits import CommitOrder, FileChanges

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zkdeployment.publishing.acts.commits import Author, BranchSnapshot, CommitOutcome, TreeCommits

    #: Raises an error if the author may not act on configurations for this path.
    Permission: TypeAlias = Callable[[str], None]

#: The limit of documents that a commit message names.
_NAMED = 5


def _anywhere(_path: str) -> None:
    """Permit acts on configurations of all paths."""


def create_checks(
    commits: TreeCommits,
    contents: Mapping[tuple[str, str], Mapping[str, Any]],
    author: Author,
    reason: str = "",
    *,
    dry_run: bool = False,
) -> CommitOutcome:
    """Add documents of configurations and monitoring systems, given by kind and name, each in a file of its own.

    Raises ``RefusedError`` if another document has one of the names.
    """
    names = listing([f"{kind} {name}" for kind, name in contents], _NAMED)

    def compute(branch: BranchSnapshot) -> FileChanges:
        return FileChanges(with_new_checks(branch.files, contents), _subject(f"Create {names}", reason))

    return _commit(commits, author, compute, dry_run=dry_run)


def change_check(
    commits: TreeCommits,
    name: str,
    content: Mapping[str, Any],
    author: Author,
    reason: str = "",
    *,
    permit: Permission = _anywhere,
) -> CommitOutcome:
    """Replace the values of a configuration; raises ``NotFoundError`` if no configuration has this name."""

    def compute(branch: BranchSnapshot) -> FileChanges:
        permit(find_check(branch.files, name).value.path)
        changed = with_changed_check(branch.files, name, content)
        return FileChanges(changed, _subject(f"Change check {name}", reason))

    return _commit(commits, author, compute)


def delete_check(
    commits: TreeCommits,
    name: str,
    author: Author,
    reason: str = "",
    *,
    permit: Permission = _anywhere,
    dry_run: bool = False,
) -> CommitOutcome:
    """Remove a configuration, so that all its instances are undeployed; raises ``NotFoundError``."""

    def compute(branch: BranchSnapshot) -> FileChanges:
        permit(find_check(branch.files, name).value.path)
        return FileChanges(without_check(branch.files, name), _subject(f"Delete check {name}", reason))

    return _commit(commits, author, compute, dry_run=dry_run)


def _commit(
    commits: TreeCommits,
    author: Author,
    compute: Callable[[BranchSnapshot], FileChanges],
    *,
    dry_run: bool = False,
) -> CommitOutcome:
    return commits.commit(CommitOrder(author=author, compute=compute, check=check_change), dry_run=dry_run)


def _subject(act: str, reason: str) -> str:
    return f"{act}: {reason}" if reason else act
