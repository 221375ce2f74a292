"""The page of a commit: how far it has come from the push to the last host; and the commits that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.cluster import ClusterState, Revision, short
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.requests import Job, JobState, publication_obstacles
from zkdeployment.fleet.views.status import FleetStatus, HostState, describe_late_syncer
from zkdeployment.publishing.records import CommitSummary, PublicationOutcome, PublicationSummary
from zkdeployment.service.views.fleet import Tone, count_waiting, deployment_verdict, stopped_groups
from zkdeployment.service.views.frame import Moment, author_name, commit_page, moment, publication_page
from zkdeployment.strategies.views import GroupState, group_state

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.strategies.state import RolloutState


@dataclass(frozen=True, slots=True)
class WaitingCommit:
    """A commit that waits for its publication."""

    subject: str
    author: str
    name: str
    href: str


@dataclass(frozen=True, slots=True)
class WaitingCommits:
    """The commits that wait, the newest first: how many, and what they wait for; ``more``: there may be others."""

    title: str
    commits: tuple[WaitingCommit, ...]
    more: bool
    reason: str


#: The most waiting commits that the front page names.
_NAMED = 3


def waiting_commits(commits: Sequence[CommitSummary], snapshot: FleetSnapshot) -> WaitingCommits | None:
    """Return the commits that wait, with the reason; ``None`` if none waits, or the newest one is refused."""
    tip = commits[0].id if commits else None
    if tip is None or (snapshot.refusal is not None and str(snapshot.refusal.revision) == tip):
        return None
    return WaitingCommits(
        count_waiting(commits),
        tuple(
            WaitingCommit(each.subject, author_name(each.author), short(each.id), commit_page(each.id))
            for each in commits[:_NAMED]
        ),
        len(commits) > _NAMED,
        publication_outlook(snapshot, tip),
    )


def publication_outlook(snapshot: FleetSnapshot, commit: Revision) -> str:
    """Return when a syncer publishes a commit that waits, as a sentence without its full stop."""
    state = None if snapshot.cluster is None else snapshot.cluster.state
    if state is ClusterState.STOPPED:
        return "published when the fleet is resumed with the tip of the branch"
    rollout = snapshot.rollout
    if rollout is not None and snapshot.governed and rollout.ended is None:
        return "published when this rollout ends"
    if state is ClusterState.RUNNING and any(publication_obstacles(snapshot, commit)):
        return "published when all hosts have the present revision"
    return "published in the next cycle of the syncer"


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a commit; ``state`` is ``done``, ``now``, ``failed`` or ``later``."""

    name: str
    state: str
    text: str
    at: Moment | None = None
    href: str = ""


@dataclass(frozen=True, slots=True)
class CommitView:
    """The page of a commit. ``done`` of the ``expected`` hosts have it; ``problems`` are those of its refusal.

    ``may_publish``: it waits, and a publication can be requested.
    """

    name: str
    full_name: str
    subject: str
    author: str
    tone: Tone
    headline: str
    stages: tuple[Stage, ...]
    problems: tuple[str, ...] = ()
    done: int = 0
    expected: int = 0
    may_publish: bool = False


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """A commit, its state, and the fleet; ``publication`` is the first one with the commit, if there is one.

    ``commit`` is ``None`` if the author and the subject are not known.
    """

    job: Job
    commit: CommitSummary | None
    snapshot: FleetSnapshot
    status: FleetStatus
    publication: PublicationSummary | None = None


def commit_view(facts: CommitFacts, now: float) -> CommitView:
    """Return the page of a commit at ``now``, in seconds since the epoch."""
    job, commit = facts.job, facts.commit
    pushed = Stage(
        "Pushed",
        "done",
        "" if commit is None else f"committed by {author_name(commit.author)}",
        None if commit is None else moment(commit.time, now),
    )
    common = (
        short(job.commit),
        job.commit,
        "" if commit is None else commit.subject,
        "" if commit is None else author_name(commit.author),
    )
    match job.state:
        case JobState.FAILED:
            tip = "" if str(job.refused) == job.commit else f" with {short(job.refused)}, which contains it"
            refused = Stage("Checked", "failed", f"refused by the syncer{tip}")
            stages = (pushed, refused, *_later("Published", "Rollout", "Converged"))
            return CommitView(*common, Tone.BAD, "Refused", stages, job.problems)
        case JobState.PENDING:
            late = describe_late_syncer(facts.status, now)
            outlook = late[0] if late else publication_outlook(facts.snapshot, job.commit)
            checked = Stage("Checked", "later", "with its publication")
            waits = Stage("Published", "now", f"waits; {outlook}")
            stages = (pushed, checked, waits, *_later("Rollout", "Converged"))
            headline = f"Waits: {outlook}"
            return CommitView(*common, Tone.HALTED, headline, stages, may_publish=True)
    return _published(facts, common, pushed, now)


def _later(*names: str) -> Iterator[Stage]:
    return (Stage(name, "later", "") for name in names)


def _published(facts: CommitFacts, common: tuple[str, str, str, str], pushed: Stage, now: float) -> CommitView:
    found, sequence = facts.publication, facts.job.sequence or 0
    published = Stage(
        "Published",
        "done",
        f"as publication {sequence}",
        None if found is None else moment(found.time, now),
        publication_page(sequence),
    )
    checked = Stage("Checked", "done", "the syncer accepted it")
    stages = [pushed, checked, published]
    if found is None:
        return CommitView(*common, Tone.UNKNOWN, "Published; the record of its hosts is gone", tuple(stages))
    if found.is_repetition:
        stages.append(Stage("Converged", "done", "nothing changed for hosts"))
        return CommitView(*common, Tone.GOOD, "Published", tuple(stages))
    if found.sequence != facts.snapshot.since:
        return _former(found, common, stages)
    return _current(facts, common, stages)


def _former(found: PublicationSummary, common: tuple[str, str, str, str], stages: list[Stage]) -> CommitView:
    """Return the page of a commit that hosts no longer deploy, because of a later publication."""
    hosts = f"{found.done:,} of {counted(found.expected, 'host', ',')}"
    replaced = f"{hosts} had it when a later publication replaced it"
    match found.outcome(newest=False):
        case PublicationOutcome.FAILED:
            tone, headline = Tone.BAD, f"Failed on {counted(found.failed, 'host', ',')}"
            stages.append(Stage("Converged", "failed", f"{hosts} had it; {found.failed:,} failed"))
        case PublicationOutcome.REPAIRED:
            tone, headline = Tone.GOOD, "Published after a repair, and replaced since"
            failed = counted(found.repaired, "host", ",")
            stages.append(Stage("Converged", "done", f"{replaced}; {failed} failed at first"))
        case PublicationOutcome.DONE:
            tone, headline = Tone.GOOD, "Published, and replaced since"
            stages.append(Stage("Converged", "done", replaced))
        case _:
            tone, headline = Tone.HALTED, "Superseded before all hosts were done"
            stages.append(Stage("Converged", "later", replaced))
    return CommitView(*common, tone, headline, tuple(stages))


def _current(facts: CommitFacts, common: tuple[str, str, str, str], stages: list[Stage]) -> CommitView:
    """Return the page of a commit that hosts deploy now, or have deployed last."""
    status, snapshot = facts.status, facts.snapshot
    expected = [host for host in status.hosts if host.expected]
    done = sum(host.state is HostState.CONVERGED for host in expected)
    failed = sum(host.state is HostState.FAILED for host in expected)
    tone, verdict, _ = deployment_verdict(snapshot, status)
    group = "" if snapshot.rollout is None or not snapshot.governed else _group(snapshot.rollout)
    if group:
        is_over = snapshot.rollout is not None and snapshot.rollout.ended is not None
        stages.append(Stage("Rollout", "done" if is_over else "now", group, href="/rollout"))
    hosts = f"on {done:,} of {counted(len(expected), 'host', ',')}"
    if failed:
        tone, headline = Tone.BAD, f"Failed on {counted(failed, 'host', ',')}"
    elif snapshot.cluster is not None and snapshot.cluster.state is not ClusterState.RUNNING:
        tone, headline = Tone.HALTED, f"The fleet is {snapshot.cluster.state.value}; {hosts}"
    elif (stopped := stopped_groups(status, snapshot.since)) is not None:
        tone, headline = stopped[:2]
    elif tone is Tone.GOOD:
        headline = "Converged on all hosts"
    elif tone is not Tone.BUSY and (status.missed or status.deployed or not status.completed):
        headline = f"{verdict}; {hosts}"
    else:
        headline = f"Converged {hosts}" if expected else verdict
    state = {Tone.GOOD: "done", Tone.BAD: "failed"}.get(tone, "now")
    stages.append(Stage("Converged", state, f"{hosts}{f'; {failed:,} failed' if failed else ''}", href="/"))
    return CommitView(*common, tone, headline, tuple(stages), done=done, expected=len(expected))


def _group(rollout: RolloutState) -> str:
    """Return the place of a rollout: its group among all groups, or that it is over."""
    groups = rollout.rollout.strategy.groups
    states = [group_state(rollout, group.name) for group in groups]
    ended = {GroupState.SUCCESS, GroupState.FAILED}
    if rollout.ended is not None:
        return f"over: {states.count(GroupState.SUCCESS)} of {counted(len(groups), 'group')} succeeded"
    place = next((place for place, state in enumerate(states) if state not in {*ended, GroupState.WAITING}), None)
    if place is None:
        place = next((place for place, state in enumerate(states) if state not in ended), len(groups) - 1)
    over = sum(state in ended for state in states)
    return f"in group {min(over + 1, len(groups))} of {len(groups)}: {groups[place].name} ({states[place].value})"
