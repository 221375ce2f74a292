"""The ways back with the operator's git rights: a rollback on the main branch, the reset of a fleet's branch."""

from __future__ import annotations

import contextlib
import socket
import tempfile
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.base.cluster import short
from zkdeployment.base.daemon import failpoints
from zkdeployment.base.errors import NotFoundError, RefusedError, TreeError
from zkdeployment.base.values import dataclass
from zkdeployment.config.settings import chosen_settings
from zkdeployment.documents.reading import document_files, read_documents
from zkdeployment.promotion.documents import FLEETS, Fleets
from zkdeployment.promotion.records import PROMOTION_ROLLBACK_TRAILER, BranchMove, MoveOutcome, PromotionEntry
from zkdeployment.promotion.settings import PromoteSettings
from zkdeployment.publishing.acts.commits import (
    COMMITTER,
    Author,
    BranchSnapshot,
    CommitOrder,
    CommitOutcome,
    FileChanges,
)
from zkdeployment.publishing.acts.rollback import RollbackOrder, rollback_changes
from zkdeployment.publishing.rules.review import check_change
from zkdeployment.publishing.section import ChangeBasis
from zkdeployment.strategies.views import RolloutProgressState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zkdeployment.promotion.branches import FleetBranches
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits

#: Seconds for one run of git, because a person waits.
_TIMEOUT = 60.0


def configured_promotion(config: Path | None) -> PromoteSettings:
    """Return the section [promote] of a configuration; raises ``ConfigurationError`` without it."""
    return chosen_settings(config).require(PromoteSettings)


@contextlib.contextmanager
def open_main(settings: PromoteSettings, signing_key: Path | None = None) -> Iterator[OperatorBranches]:
    """Yield the main branch, freshly read; the user's own keys are used, not the promoter's.

    ``signing_key`` signs the commits. Raises ``SourceError`` if the repository cannot be read.
    """
    # GitPython is imported only where it is used, so that the other verbs start fast.
    from zkdeployment.promotion.branches import FleetBranches  # noqa: PLC0415
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits  # noqa: PLC0415
    from zkdeployment.publishing.sources.git.source import GitSource  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="zkdeployment-promote-") as scratch:
        source = GitSource(
            settings.url,
            Path(scratch) / "mirror",
            branch=settings.branch,
            timeout=_TIMEOUT,
            gap=1,
            every_branch=True,
        )
        branches = FleetBranches(source)
        committer = Author.of(COMMITTER, f"{COMMITTER}@{socket.gethostname()}")
        commits = TreeCommits(source, committer, signing_key, reach=failpoints.reach)
        yield OperatorBranches(branches.fetch(), branches, commits)


_SUCCESS = RolloutProgressState.SUCCESS.value


@dataclass(frozen=True, slots=True)
class OperatorBranches:
    """The main branch and the branches of fleets in a mirror of their own: its ``tip``, and commits to it."""

    tip: str
    branches: FleetBranches
    commits: TreeCommits

    def fleets(self) -> Fleets:
        """Return the fleets in the document at the tip; raises ``TreeError`` for documents with errors."""
        found = read_documents(document_files(self.branches.documents(self.tip)))
        if found.errors:
            raise TreeError(f"the documents of {short(self.tip)} have errors: {found.errors[0]}")
        fleets = found.of(FLEETS).get(())
        if fleets is None:
            raise TreeError(
                f"{short(self.tip)} names no fleets: expected a document zkdeployment/Fleets/v1 in the top"
                " directory"
            )
        return fleets


class WayBack(NamedTuple):
    """A rollback: the revision that is wanted again, and the first revision after it that was promoted."""

    good: str
    bad: str


def way_back(
    history: Sequence[PromotionEntry],
    in_main: Callable[[str], bool],
    contains: Callable[[str, str], bool],
    named: str | None = None,
) -> WayBack:
    """Return the rollback from the newest promotion; raises ``RefusedError`` if there is nothing to go back to.

    ``history`` has the newest promotion first, ``in_main`` is whether the main branch contains a revision, and
    ``contains`` whether the first of two revisions is or descends from the second. The wanted revision is the
    ``named`` one, or the last one that succeeded, that lacks the newest revision, and that no rollback undid. A
    fleet is bad if it has the first revision after the wanted one, because later revisions contain that one.
    """
    entries = [entry for entry in history if in_main(entry.revision)]
    if not entries:
        raise RefusedError("there is nothing to roll back: no revision of the main branch was promoted yet")
    newest = entries[0].revision
    undoing = [(entry.rolls_back, entry.revision) for entry in history if entry.rolls_back]

    def is_undone(revision: str) -> bool:
        # Git decides, because an operator may have promoted an older commit after a newer one.
        return any(contains(revision, bad) and not contains(revision, rollback) for bad, rollback in undoing)

    if named is None:
        tried = (entry.revision for entry in entries if entry.result == _SUCCESS)
        good = next((each for each in tried if not (contains(each, newest) or is_undone(each))), None)
        if good is None:
            raise RefusedError(
                f"there is no revision to roll back to: expected a promotion before that of {short(newest)} that"
                " succeeded and was not rolled back, found none in the history; name the REVISION"
            )
    else:
        good = named
    later = [entry.revision for entry in entries if not contains(good, entry.revision)]
    if not later:
        raise RefusedError(f"there is nothing to roll back: no revision after {short(good)} was promoted")
    return WayBack(good, reduce(lambda bad, each: each if contains(bad, each) else bad, reversed(later)))


def roll_back(
    main: OperatorBranches,
    history: Sequence[PromotionEntry],
    rollback: RollbackOrder,
    *,
    dry_run: bool = False,
) -> CommitOutcome:
    """Commit a rollback to the main branch, or return the commit that it would make.

    Raises ``RefusedError`` without a revision to go back to, and what ``TreeCommits.commit`` raises.
    """
    named = None if rollback.revision is None else main.commits.revision(rollback.revision)
    contains = main.branches.contains
    way = way_back(history, partial(contains, main.tip), contains, named)

    def compute(branch: BranchSnapshot) -> FileChanges:
        changes = rollback_changes(branch, rollback.reason, former_strategy=rollback.former_strategy)
        return replace(changes, trailers={**changes.trailers, PROMOTION_ROLLBACK_TRAILER: way.bad})

    basis = ChangeBasis(files=partial(main.commits.files, way.good))
    check = partial(check_change, basis=basis)
    order = CommitOrder(author=rollback.author, compute=compute, check=check, back_to=way.good)
    return main.commits.commit(order, dry_run=dry_run)


class Reset(NamedTuple):
    """The reset of a fleet's branch, and the subjects of the commits that the branch loses."""

    move: BranchMove
    lost: Sequence[str]


def plan_reset(
    main: OperatorBranches, fleet: str, history: Sequence[PromotionEntry], revision: str | None = None
) -> Reset:
    """Return the reset of a fleet's branch to a commit of the main branch.

    Without a ``revision``, the branch gets that of the newest promotion, if that one succeeded or is a rollback.
    Raises ``NotFoundError`` without such a fleet or branch, ``RefusedError`` if the branch has not diverged.
    """
    fleets = main.fleets().by_name
    if fleet not in fleets:
        raise NotFoundError(f"there is no fleet {fleet}; expected one of: {', '.join(sorted(fleets))}")
    branch = fleets[fleet].branch
    tip = main.branches.tips([branch])[branch]
    if tip.commit is None:
        raise NotFoundError(f"there is no branch {branch}: the first promotion creates it")
    if tip.in_main:
        raise RefusedError(f"the branch {branch} has not diverged: the main branch contains {short(tip.commit)}")
    target = _newest(main, history) if revision is None else main.commits.revision(revision)
    return Reset(BranchMove(branch, tip.commit, target), main.branches.own_commits(tip.commit))


def _newest(main: OperatorBranches, history: Sequence[PromotionEntry]) -> str:
    newest = history[0] if history else None
    is_good = newest is not None and (
        newest.result == _SUCCESS or bool(newest.rolls_back and newest.ended is None)
    )
    if newest is not None and is_good and main.branches.contains(main.tip, newest.revision):
        return newest.revision
    found = "no promotion" if newest is None else f"{short(newest.revision)}: {newest.result or 'under way'}"
    raise RefusedError(
        "it is not clear to which commit the branch is to be reset: expected a newest promotion that succeeded or"
        f" rolls back, found {found}; name the commit with --to"
    )


def reset(main: OperatorBranches, planned: Reset) -> None:
    """Set the branch unless it changed since the plan; raises ``RefusedError`` if the branch was not set."""
    result, branch = main.branches.reset(planned.move), planned.move.branch
    if result.outcome is MoveOutcome.RACED:
        reason = result.words or "it changed in the meantime"
        raise RefusedError(f"the branch {branch} was not reset: {reason}; try again")
    if result.outcome is MoveOutcome.REFUSED:
        raise RefusedError(f"the branch {branch} was not reset: the git server refused it: {result.words}")
