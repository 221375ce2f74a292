"""Rollbacks of the fleet: commits that return to the last good revision, and their publication."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import Cluster, Revision, short
from zkdeployment.base.errors import RefusedError, UnreachableError, ZkdeploymentError
from zkdeployment.publishing.acts.commits import (
    ROLLOUT_TRAILER,
    BranchSnapshot,
    CommitOrder,
    CommitOutcome,
    FileChanges,
)
from zkdeployment.publishing.acts.quarantine import quarantines_of_rollback
from zkdeployment.publishing.acts.rollback import RollbackOrder, last_good_revision, rollback_changes
from zkdeployment.publishing.records import GuardOverrides
from zkdeployment.publishing.rules.review import check_change
from zkdeployment.publishing.section import ChangeBasis

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.base.act import Act
    from zkdeployment.fleet.store.audit import ActAudit
    from zkdeployment.fleet.store.cluster_control import ZooKeeperClusterControl, ZooKeeperRolloutControl
    from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits


def roll_back(
    rollback: RollbackOrder,
    commits: TreeCommits,
    fleet: ZooKeeperFleetReader,
    rollouts: ZooKeeperRolloutControl,
    *,
    dry_run: bool = False,
    audit: ActAudit | None = None,
) -> CommitOutcome:
    """Commit a rollback, or return the commit that it would make; ``audit`` records the act.

    Raises ``RefusedError`` if there is no revision to go back to, and what ``TreeCommits.commit`` raises.
    """
    revision = rollback.revision or _last_good(fleet, rollouts)

    def compute(branch: BranchSnapshot) -> FileChanges:
        changes = rollback_changes(
            branch, rollback.reason, rollout=rollback.rollout, former_strategy=rollback.former_strategy
        )
        if not rollback.quarantine:
            return changes
        new = quarantines_of_rollback(branch, rollback.reason, rollback.author, rollback.now)
        return replace(changes, files={**changes.files, **new})

    published = fleet.published().revision
    basis = ChangeBasis(files=None if published is None else partial(commits.files, published))
    once = None if rollback.rollout is None else (ROLLOUT_TRAILER, rollback.rollout)
    order = CommitOrder(
        author=rollback.author,
        compute=compute,
        check=partial(check_change, basis=basis),
        back_to=revision,
        once=once,
        reads_newer=rollback.quarantine,
    )
    outcome = commits.commit(order, dry_run=dry_run)
    if audit is not None:
        audit.record(rollback_title(outcome), outcome)
    return outcome


def rollback_title(outcome: CommitOutcome) -> str:
    """Return the name of a rollback in the record of acts."""
    return f"rollback to {short(outcome.past or outcome.commit or '')}"


def publish_now(  # noqa: PLR0913  the adapters, and the limits of the wait
    commit: str,
    act: Act,
    commits: TreeCommits,
    fleet: ZooKeeperFleetReader,
    cluster: ZooKeeperClusterControl,
    *,
    timeout: float,
    tick: Callable[[], None] = lambda: None,
) -> Revision:
    """Request the publication of the branch's tip, which contains ``commit``, and return the published revision.

    Neither the state of the fleet nor the size of the change prevents the publication. Raises what
    ``resume_latest`` raises.
    """
    published = _published(commit, commits, fleet)
    if published is not None:
        return published
    try:
        overrides = GuardOverrides(mass_removal=True)
        return cluster.resume_latest(act, timeout=timeout, overrides=overrides, tick=tick)
    except UnreachableError:
        raise
    except ZkdeploymentError:
        # A syncer that follows the branch may have published the commit before it saw the request.
        published = _published(commit, commits, fleet)
        if published is None:
            raise
        return published


def _published(commit: str, commits: TreeCommits, fleet: ZooKeeperFleetReader) -> Revision | None:
    """Return the published revision if hosts may deploy it and it contains a commit."""
    snapshot = fleet.snapshot()
    published = snapshot.published
    if published is None or snapshot.cluster != Cluster(published) or not commits.contains(published, commit):
        return None
    return published


def _last_good(fleet: ZooKeeperFleetReader, rollouts: ZooKeeperRolloutControl) -> str:
    is_refused = fleet.snapshot().refusal is not None  # then the refused push is undone, and nothing before it
    revision = last_good_revision(fleet.history(), rollouts.attempts, with_current=is_refused)
    if not isinstance(revision, str):
        raise RefusedError(
            "there is no revision to roll back to: expected a published revision before the current one that"
            " succeeded, found none in the history; name the REVISION"
        )
    return revision
