"""Acts of users on the fleet, for the API and the pages, and the wait until the cached fleet shows them.

Each act checks whether the paths of the user permit it, raises ``ForbiddenError`` if they do not, and is recorded
with the user as its author.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from zkdeployment.base.act import Act, sanitize
from zkdeployment.base.cluster import short
from zkdeployment.base.errors import ForbiddenError, NotFoundError, RefusedError, ZkdeploymentError
from zkdeployment.fleet.views.locks import check_release, find_lock, plan_release
from zkdeployment.fleet.views.requests import job_of, publication_obstacles
from zkdeployment.publishing.acts.rollback import RollbackOrder, publish_now, roll_back
from zkdeployment.service.users.user import ActKind, act_refusal
from zkdeployment.strategies.views import directive_description

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.base.cluster import Revision
    from zkdeployment.fleet.feed.feed import ZooKeeperFeed
    from zkdeployment.fleet.feed.fleet_assembly import FleetReading
    from zkdeployment.fleet.views.requests import Job
    from zkdeployment.publishing.acts.commits import CommitOutcome, TreeCommits
    from zkdeployment.publishing.records import GuardOverrides
    from zkdeployment.service.dependencies import ServerAdapters
    from zkdeployment.service.users.user import User
    from zkdeployment.strategies.state import Directive, RolloutState


#: The longest wait in seconds.
_LONGEST = 1.0


def wait_for_reading(feed: ZooKeeperFeed, is_wanted: Callable[[FleetReading], bool]) -> None:
    """Wait until ``is_wanted`` accepts a reading of the feed, but only for a moment."""
    changed = threading.Event()
    unsubscribe = feed.subscribe(changed.set)
    deadline = time.monotonic() + _LONGEST
    try:
        while not is_wanted(feed.snapshot().reading) and changed.wait(max(0.0, deadline - time.monotonic())):
            changed.clear()
    finally:
        unsubscribe()


def new_act(adapters: ServerAdapters, user: User, what: str, reason: str) -> Act:
    """Return the record of an act of a user at the present time."""
    return Act(by=user.name, what=what, reason=sanitize(reason), time=adapters.clock.now())


def check_right(user: User, kind: ActKind, *paths: str) -> None:
    """Raise ``ForbiddenError`` if a user may not act on the nodes at these paths; no path is the whole fleet."""
    refusal = act_refusal(user, kind, *paths)
    if refusal is not None:
        raise ForbiddenError(refusal)


def stop_fleet(adapters: ServerAdapters, user: User, reason: str) -> Act:
    """Stop the fleet; return the act."""
    check_right(user, ActKind.STOP)
    act = new_act(adapters, user, "stop", reason)
    adapters.operator.cluster.stop(act)
    return act


def hold_fleet(adapters: ServerAdapters, user: User, reason: str) -> Act:
    """Hold the fleet; return the act."""
    check_right(user, ActKind.HOLD)
    act = new_act(adapters, user, "hold", reason)
    adapters.operator.cluster.hold(act)
    return act


def resume_fleet(adapters: ServerAdapters, user: User, reason: str) -> tuple[Act, Revision]:
    """End a stop or a hold; return the act and the revision that is set again."""
    check_right(user, ActKind.RESUME)
    act = new_act(adapters, user, "resume", reason)
    return act, adapters.operator.cluster.resume(act)


def resume_at_tip(
    adapters: ServerAdapters, user: User, reason: str, *, timeout: float, overrides: GuardOverrides
) -> tuple[Act, Revision]:
    """Request the publication of the branch's tip; return the act and the published revision."""
    check_right(user, ActKind.RESUME)
    act = new_act(adapters, user, "resume --latest", reason)
    return act, adapters.operator.cluster.resume_latest(act, timeout=timeout, overrides=overrides)


def direct_rollout(
    adapters: ServerAdapters, user: User, directive: Directive, reason: str, group: str | None = None
) -> tuple[Act, RolloutState]:
    """Record a directive for the coordinator; return the act and the rollout."""
    check_right(user, ActKind.DIRECT_ROLLOUT)
    act = new_act(adapters, user, directive_description(directive, group), reason)
    return act, adapters.operator.rollouts.direct(directive, act, group)


def release_lock(adapters: ServerAdapters, user: User, name: str, reason: str, *, force: bool) -> Act:
    """Release the lock of a service or of a role; return the act.

    Raises ``NotFoundError`` for an unknown lock, and ``RefusedError`` while its holder works, unless forced.
    """
    lock = find_lock(adapters.operator.locks.locks(), name)
    check_right(user, ActKind.RELEASE_LOCK, *lock.services)
    planned = plan_release(lock, adapters.operator.fleet.snapshot().hosts, now=adapters.clock.now())
    check_release(planned, force=force)
    act = new_act(adapters, user, planned.description, reason)
    adapters.operator.locks.release(planned.node, act)
    return act


def roll_back_fleet(  # noqa: PLR0913  the options of the verb
    adapters: ServerAdapters,
    user: User,
    reason: str,
    *,
    revision: str | None,
    quarantine: bool = False,
    dry_run: bool = False,
    publish: bool = False,
    timeout: float = 60.0,
) -> tuple[CommitOutcome, tuple[str, ...]]:
    """Commit the tree of an earlier revision; with ``publish``, request its publication by a syncer at once.

    Return the outcome, and the obstacle to the publication: the commit stays even if no syncer published it within
    ``timeout`` seconds. Raises what ``roll_back`` raises, and ``RefusedError`` if the service has no repository.
    """
    check_right(user, ActKind.ROLL_BACK)
    commits, operator = require_commits(adapters), adapters.operator
    order = RollbackOrder(
        author=commits.author(user.name),
        reason=sanitize(reason),
        revision=revision,
        quarantine=quarantine,
        now=adapters.clock.now(),
    )
    outcome = roll_back(order, commits, operator.fleet, operator.rollouts, dry_run=dry_run)
    if dry_run or outcome.commit is None:
        return outcome, ()
    if not publish:
        return outcome, tuple(publication_obstacles(operator.fleet.snapshot(), outcome.commit))
    act = new_act(adapters, user, f"rollback to {short(outcome.past or outcome.commit)}", reason)
    try:
        publish_now(outcome.commit, act, commits, operator.fleet, operator.cluster, timeout=timeout)
    except ZkdeploymentError as error:
        return outcome, (str(error),)
    return outcome, ()


def find_job(adapters: ServerAdapters, name: str) -> Job:
    """Return the state of a commit, whose id may be shortened.

    If the commit is published, later answers to other requests show at least that publication. Raises
    ``NotFoundError`` if the branch does not contain the commit, and ``RefusedError`` if the service has no
    repository.
    """
    commits, fleet = require_commits(adapters), adapters.operator.fleet
    try:
        commit = commits.revision(name)
    except RefusedError as error:
        raise NotFoundError(str(error)) from error
    job = job_of(commit, fleet.history(), fleet.refusals(), lambda revision: commits.contains(revision, commit))
    sequence = job.sequence
    if sequence is not None:
        wait_for_reading(adapters.feed, lambda reading: reading.sequence >= sequence)
    return job


def require_commits(adapters: ServerAdapters) -> TreeCommits:
    """Return the branch to which acts commit; raises ``RefusedError`` if the service has no repository."""
    if adapters.commits is None:
        raise RefusedError(
            "the service cannot commit: expected a git repository as url in [sync] of its configuration, found"
            " none"
        )
    return adapters.commits
