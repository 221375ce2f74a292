"""The front page: the fleet at a glance, its verdict, and the problems that an operator has to see first."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from enum import Enum
from itertools import takewhile
from typing import TYPE_CHECKING, Self

from zkdeployment.base.cluster import ClusterState, short
from zkdeployment.base.durations import age, ago
from zkdeployment.base.text import counted, listing
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.history import time_at_pace
from zkdeployment.fleet.views.locks import is_orphaned, present_hosts
from zkdeployment.fleet.views.requests import describe_refusal, describe_request, describe_silence, read_and_late
from zkdeployment.fleet.views.snapshot import UNAFFECTED, FleetSnapshot
from zkdeployment.fleet.views.status import UNAWAITED, FleetStatus, HostState, HostStatus
from zkdeployment.publishing.records import MOST_WAITING, CommitSummary, Refusal, SyncerReport
from zkdeployment.publishing.rules.convergence import describe_unserved
from zkdeployment.service.views.failures import FailureGroup, failure_groups
from zkdeployment.service.views.frame import (
    Moment,
    author_name,
    commit_page,
    host_page,
    intent_page,
    moment,
    publication_page,
)
from zkdeployment.service.views.host_map import Arrangement, HostMap, host_map
from zkdeployment.service.views.hosts import (
    SIGNS,
    HostList,
    HostQuery,
    StateFilter,
    count_text,
    host_list,
    state_filters,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from zkdeployment.base.lock import Lock


#: The most hosts that a problem names.
_NAMED = 4

#: The most different failures that are shown one by one.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class HostLink:
    """A named host with the address of its page."""

    name: str
    href: str


@dataclass(frozen=True, slots=True)
class FleetProblem:
    """A problem in a few words, its reported ``detail``, the hosts that have it, and when it began.

    ``summary`` is how many hosts failed alike, and since when; ``lines`` are the last lines of the failed script.
    ``more`` is the number of hosts that ``hosts`` omits; ``href`` is the page that shows all hosts with the
    problem. ``severe`` problems stop the fleet or a host.
    """

    title: str
    detail: str = ""
    hosts: tuple[HostLink, ...] = ()
    more: int = 0
    href: str = ""
    at: Moment | None = None
    severe: bool = True
    summary: str = ""
    lines: tuple[str, ...] = ()


def fleet_problems(
    snapshot: FleetSnapshot, status: FleetStatus, locks: Sequence[Lock], now: float
) -> tuple[FleetProblem, ...]:
    """Return the problems of the fleet, the most urgent first; ``now`` is in seconds since the epoch."""
    return (
        *_stops(status, now),
        *_failures(snapshot, status, now),
        *_stopped_groups(status, now),
        *_absences(status),
        *_down(status),
        *_unserved(status),
        *_orphaned_locks(snapshot, locks),
        *_requests(status, now),
        *_refusals(status, now),
        *_failing_daemons(status, now),
        *(FleetProblem("The strategy has a mistake", warning, severe=False) for warning in status.warnings),
    )


def _stops(status: FleetStatus, now: float) -> Iterator[FleetProblem]:
    """Yield the stops and holds by operators and by the coordinator."""
    for stop in status.stops:
        if stop.by is not None:
            title = f"{'Held' if stop.is_hold else 'Stopped'} by {stop.by}"
            yield FleetProblem(title, stop.reason, at=moment(stop.time, now), severe=stop.is_failure)


def _failures(snapshot: FleetSnapshot, status: FleetStatus, now: float) -> Iterator[FleetProblem]:
    """Yield the failures of hosts; hosts with the same error are one problem."""
    groups = failure_groups(snapshot, status)
    for group in groups[:_SHOWN]:
        yield failure_problem(group, now)
    if rest := sum(len(group.hosts) for group in groups[_SHOWN:]):
        yield FleetProblem(f"{count_text(rest, 'more host')} failed in other ways", href=_failed().address)
    if replaced := sum(stop.replaced for stop in status.stops):
        yield FleetProblem(f"{count_text(replaced, 'more stop')} recorded", href=_failed().address)


def failure_problem(group: FailureGroup, now: float) -> FleetProblem:
    """Return the problem of hosts that failed alike."""
    return FleetProblem(
        group.title,
        group.error,
        tuple(HostLink(host.name, host_page(host.id)) for host in group.hosts[:_NAMED]),
        max(0, len(group.hosts) - _NAMED),
        _failed().address,
        moment(group.first, now),
        summary=group.summary(now),
        lines=group.lines,
    )


def _stopped_groups(status: FleetStatus, now: float) -> Iterator[FleetProblem]:
    for stop in status.group_stops:
        host = HostLink(stop.stop.host_name, host_page(stop.stop.host_id))
        title = f"Group {stop.group} is stopped: failed at {stop.stop.step} of {short(stop.stop.revision)}"
        page = intent_page(tuple(stop.group.split("/")))
        yield FleetProblem(title, stop.stop.reason, (host,), href=page, at=moment(stop.stop.time, now))


def _failing_daemons(status: FleetStatus, now: float) -> Iterator[FleetProblem]:
    for failure in status.failures:
        title = f"The {failure.daemon} {failure.by} fails in each cycle"
        yield FleetProblem(title, failure.message, at=moment(failure.since, now))


def _absences(status: FleetStatus) -> Iterator[FleetProblem]:
    absent = [host for host in status.hosts if host.state is HostState.ABSENT and host.expected]
    if not absent:
        return
    hosts = tuple(HostLink(host.name, host_page(host.id)) for host in absent[:_NAMED])
    yield FleetProblem(
        f"{count_text(len(absent), 'host')} absent",
        "The tree deploys to them, but their agents do not run, or cannot reach ZooKeeper.",
        hosts,
        len(absent) - len(hosts),
        HostQuery(states=frozenset({HostState.ABSENT})).address,
        severe=False,
    )


def _unserved(status: FleetStatus) -> Iterator[FleetProblem]:
    for sentence in describe_unserved(status.unserved):
        title = f"{sentence[:1].upper()}{sentence[1:]}"
        yield FleetProblem(title, "Correct the targets in the tree, or install the hosts.", severe=False)


def _down(status: FleetStatus) -> Iterator[FleetProblem]:
    """Yield the instances that are down; ``hosts`` are those of the instances, if these are known."""
    if status.down.count:
        names = {instance.host: instance.name for instance in status.down.instances}
        hosts = tuple(HostLink(name, host_page(host)) for host, name in [*names.items()][:_NAMED])
        detail = status.down.names or "The registered instances do not state which hosts they run on."
        more = len(names) - len(hosts)
        yield FleetProblem(str(status.down), detail, hosts, more, "/services", severe=False)


def _orphaned_locks(snapshot: FleetSnapshot, locks: Sequence[Lock]) -> Iterator[FleetProblem]:
    present = present_hosts(snapshot)
    for lock in locks:
        if is_orphaned(lock, present) and lock.holder is not None:
            title = f"{str(lock)[:1].upper()}{str(lock)[1:]} is held by a host that is not registered"
            yield FleetProblem(title, lock.holder.identity, href="/locks", severe=False)


def _refusals(status: FleetStatus, now: float) -> Iterator[FleetProblem]:
    if status.refusal is not None:
        page = commit_page(str(status.refusal.revision))
        text = describe_refusal(status.refusal, now)
        yield FleetProblem("The last push is not published", text, href=page, severe=False)


def _requests(status: FleetStatus, now: float) -> Iterator[FleetProblem]:
    request = status.request
    if request is not None:
        title = "A publication was requested" if request.error is None else "A requested publication was refused"
        yield FleetProblem(title, describe_request(request, now), severe=request.error is not None)


def _failed() -> HostQuery:
    return HostQuery(states=frozenset({HostState.FAILED}))


@dataclass(frozen=True, slots=True)
class FleetProgress:
    """The number of the expected hosts that have the wanted revision, for all who count them."""

    done: int
    expected: int

    @classmethod
    def of(cls, status: FleetStatus) -> Self:
        """Count the hosts of a fleet."""
        counts = _counts(status)
        return cls(counts[HostState.CONVERGED], counts.total())

    def __str__(self) -> str:
        return f"{self.done:,} of {count_text(self.expected, 'host')} have the wanted revision"


class Tone(Enum):
    """The urgency of a verdict; templates choose a colour and a sign by it."""

    GOOD = "good"
    BUSY = "busy"
    HALTED = "halted"  # a decision is due, or an operator waits on purpose
    BAD = "bad"
    UNKNOWN = "unknown"

    @property
    def sign(self) -> str:
        """The sign in titles of pages."""
        return {"good": "✓", "busy": "▸", "halted": "Ⅱ", "bad": "✕"}.get(self.value, "?")


@dataclass(frozen=True, slots=True)
class FleetVerdict:
    """The verdict on the fleet: whether it has the wanted state, or why not.

    ``done`` of the ``expected`` hosts have the wanted revision; ``affected`` counts the others by their states.
    ``since`` is the time of what ``change`` names, such as the begin of this state, and ``trend`` whether it is
    getting better. ``until`` is when the verdict changes although nothing happens, in seconds since the epoch.
    """

    tone: Tone
    headline: str
    sentence: str
    done: int = 0
    expected: int = 0
    affected: str = ""
    since: Moment | None = None
    change: str = "began"
    trend: str = ""
    until: float | None = None

    @property
    def percent(self) -> int:
        """The share of hosts that have the wanted revision, rounded down; 100 only if all have it."""
        return 100 * self.done // self.expected if self.expected else 0

    @property
    def shows_progress(self) -> bool:
        """Whether the share is shown as a bar: a full bar beside anything that is not good would hide it."""
        return self.done < self.expected or self.tone is Tone.GOOD


#: Seconds whose finished hosts tell the pace of a deployment.
_RECENT = 300.0


def fleet_verdict(
    snapshot: FleetSnapshot,
    status: FleetStatus,
    now: float,
    *,
    stale: bool = False,
    syncer: SyncerReport | None = None,
) -> FleetVerdict:
    """Return the verdict on the fleet; ``now`` is in seconds since the epoch.

    A ``stale`` snapshot is one that ZooKeeper no longer confirms: the fleet may be in any other state now. A push
    that is refused, that waits or that a silent ``syncer`` would not see is never good.
    """
    counts = _counts(status)
    progress = FleetProgress.of(status)
    halt = _halt(status, now)
    tone, headline, sentence = halt or deployment_verdict(snapshot, status)
    change: str = status.change
    since = status.since
    is_decided = halt is None and tone is Tone.HALTED and bool(status.rollout_decisions)
    if is_decided:
        change, since = "began", status.rollout_decisions[0].since
    elif halt is None and status.missed and snapshot.rollout is not None and not counts[HostState.FAILED]:
        change, since = "ended", snapshot.rollout.ended
    until = _until(status, syncer, now) if tone is Tone.GOOD else None
    if tone is Tone.GOOD and (unfinished := _unfinished(snapshot, status, syncer, now)) is not None:
        tone, headline, sentence, change, since = *unfinished[:2], f"{unfinished[2]} {headline}.", *unfinished[3:]
    if stale:
        tone, headline = Tone.UNKNOWN, f"Last known: {headline[:1].lower()}{headline[1:]}"
    affected = ", ".join(
        f"{counts[state]:,} {sign.name}"
        for state, sign in SIGNS.items()
        if counts[state] and state is not HostState.CONVERGED
    )
    return FleetVerdict(
        tone,
        headline,
        sentence,
        progress.done,
        progress.expected,
        affected,
        moment(since, now),
        change,
        "" if halt is not None or stale or is_decided else deployment_pace(status.hosts, snapshot, now),
        until,
    )


def _counts(status: FleetStatus) -> Counter[HostState]:
    """Return the number of expected hosts in each state."""
    return Counter(host.state for host in status.hosts if host.expected)


def unpublished_commits(snapshot: FleetSnapshot, syncer: SyncerReport | None) -> tuple[CommitSummary, ...]:
    """Return the commits that the syncer reports as waiting and that are not published since, newest first."""
    waiting = () if syncer is None else syncer.waiting
    return tuple(takewhile(lambda commit: commit.id != str(snapshot.published), waiting))


def count_waiting(commits: Sequence[CommitSummary]) -> str:
    """Return the number of commits that wait, as the beginning of a sentence."""
    number = f"{MOST_WAITING} or more commits" if len(commits) == MOST_WAITING else counted(len(commits), "commit")
    return f"{number} {'waits' if len(commits) == 1 else 'wait'}"


def _until(status: FleetStatus, syncer: SyncerReport | None, now: float) -> float | None:
    """Return the time at which the request expires or the syncer is late; ``None``: neither will."""
    request = status.request
    times = [] if request is None or request.error is not None else [request.written + request.age_limit]
    times += [] if syncer is None else [read_and_late(syncer)[1]]
    return min((time for time in times if time >= now), default=None)


def _unfinished(
    snapshot: FleetSnapshot, status: FleetStatus, syncer: SyncerReport | None, now: float
) -> tuple[Tone, str, str, str, float] | None:
    """Return why a fleet with the wanted revision is not done, as parts of a verdict, and a time with its word.

    The word names what happened at the time.
    """
    return stopped_groups(status) or _unpublished(snapshot, status, syncer, now) or _undecided(status)


def stopped_groups(status: FleetStatus, since: int = 0) -> tuple[Tone, str, str, str, float] | None:
    """Return the stops of groups, which hosts with the wanted revision may lack, and the first time as above.

    Only stops in the publication with the sequence ``since``, or in later ones, count.
    """
    stops = [stop for stop in status.group_stops if stop.sequence >= since]
    if not stops:
        return None
    headline = f"{len(stops)} groups are stopped" if len(stops) > 1 else f"Group {stops[0].group} is stopped"
    sentence = _sentence([listing([str(each) for each in stops], _NAMED)])
    return Tone.BAD, headline, sentence, "began", min(each.stop.time for each in stops)


def _undecided(status: FleetStatus) -> tuple[Tone, str, str, str, float] | None:
    """Return the decisions for which features wait, and the time of the first one as above, or ``None``."""
    due = status.feature_decisions
    if not due:
        return None
    only = f"{due[0].subject} waits for a decision"
    headline = f"{counted(len(due), 'decision')} are due" if len(due) > 1 else f"{only[:1].upper()}{only[1:]}"
    sentence = _sentence([listing([str(each) for each in due], _NAMED)])
    return Tone.HALTED, headline, sentence, "began", min(each.since for each in due)


def _unpublished(
    snapshot: FleetSnapshot, status: FleetStatus, syncer: SyncerReport | None, now: float
) -> tuple[Tone, str, str, str, float] | None:
    """Return why a fleet with the wanted revision may lack a newer one, and a time as above, or ``None``."""
    if status.refusal is not None:
        text = describe_refusal(status.refusal, now)
        sentence = f"{text[:1].upper()}{text[1:]}."
        return Tone.HALTED, "The last push is not published", sentence, "refused", status.refusal.time
    request = status.request
    if request is not None:
        is_over = request.error is not None or request.is_expired(now)
        tone, headline = Tone.BUSY, "A publication is requested"
        if is_over:
            tone, headline = Tone.HALTED, "A requested publication was not made"
        return tone, headline, f"{describe_request(request, now)}.", "requested", request.written
    if syncer is None:
        return None
    if silence := describe_silence(syncer, now):
        return Tone.UNKNOWN, "Newer commits may wait", _sentence(silence), "last read", read_and_late(syncer)[0]
    waiting = unpublished_commits(snapshot, syncer)
    if not waiting:
        return None
    sentence = f"The syncer reports: {syncer.last_message}."
    return Tone.BUSY, count_waiting(waiting), sentence, "committed", waiting[-1].time


def deployment_pace(hosts: Iterable[HostStatus], snapshot: FleetSnapshot, now: float) -> str:
    """Return the pace at which hosts finish, and the predicted time of the others, if any; empty at the end."""
    window = min(_RECENT, max(1.0, now - (snapshot.changed or 0.0)))
    left = recent = 0
    for host in hosts:
        if host.expected:
            left += host.state in {HostState.DEPLOYING, HostState.BEHIND, HostState.REBOOTING}
            recent += host.state is HostState.CONVERGED and now - (host.since or 0.0) <= window
    if not left:
        return ""
    if not recent:
        return f"No host finished in the last {age(window)}."
    pace = f"{count_text(recent, 'host')} finished in the last {age(window)}"
    time = time_at_pace(left, window / recent, governed=snapshot.governed)
    return f"{pace}; the others take {time} at this pace." if time else f"{pace}."


_UNAFFECTED = f"{UNAFFECTED[:1].upper()}{UNAFFECTED[1:]}."


def _halt(status: FleetStatus, now: float) -> tuple[Tone, str, str] | None:
    """Return the verdict if hosts may start nothing at present, else ``None``."""
    if status.cluster is None:
        return Tone.UNKNOWN, "Nothing is published yet", "Hosts wait for the first revision from a syncer."
    first = status.stops[0] if status.stops else None
    match status.cluster.state:
        case ClusterState.STOPPED:
            ending = f"{_UNAFFECTED} No host starts a step until an operator resumes the fleet."
            ending = " ".join(filter(None, (ending, _repaired(status))))
            if first is None:
                return Tone.BAD, "Stopped", f"The cluster version was set to null by hand. {ending}"
            if any(stop.is_open_failure for stop in status.stops):
                return Tone.BAD, "Stopped by a failure", f"{_cause(status)} {ending}"
            if first.is_failure:
                return Tone.HALTED, "Stopped; the failure is repaired", ending
            return Tone.HALTED, "Stopped", f"{first.by} stopped the fleet {ago(first.time, now)}. {ending}"
        case ClusterState.HELD:
            ending = (
                f"{_UNAFFECTED} Hosts start nothing until an operator resumes the fleet or a revision is pushed."
            )
            cause = "The cluster version was set to false by hand."
            if first is not None:
                cause = f"{first.by} held the fleet {ago(first.time, now)}."
            return Tone.HALTED, "Held", f"{cause} {ending}"
        case ClusterState.IMPORTING:
            revision = short(status.cluster.importing)
            return Tone.BUSY, f"Publishing {revision}", "Hosts start when the publication is complete."
    return None


def _repaired(status: FleetStatus) -> str:
    """Return a sentence on the retry of a host, or on the hosts that failed and are repaired."""
    repaired = [stop.host_name for stop in status.stops if stop.repaired]
    if not repaired:
        return _sentence([status.retry] if status.retry else [])
    is_last = not any(stop.is_open_failure for stop in status.stops)
    ending = "; a resume continues" if is_last else ""
    return f"{listing(repaired, _NAMED)} {'is' if len(repaired) == 1 else 'are'} repaired{ending}."


def _cause(status: FleetStatus) -> str:
    failed = {stop.host_name for stop in status.stops if stop.is_open_failure and stop.by is None}
    if not failed:
        return "A critical group of the rollout failed."
    return f"{min(failed)} failed." if len(failed) == 1 else f"{count_text(len(failed), 'host')} failed."


def deployment_verdict(snapshot: FleetSnapshot, status: FleetStatus) -> tuple[Tone, str, str]:
    """Return the tone, the headline and the sentence while hosts may deploy the wanted revision."""
    counts = _counts(status)
    progress = FleetProgress.of(status)
    done, expected, headline = progress.done, progress.expected, str(progress)
    failed = counts[HostState.FAILED]
    if not expected and UNAWAITED.isdisjoint(host.state for host in status.hosts):
        return Tone.UNKNOWN, "No hosts are registered", "Hosts appear here when their agents run."
    if status.converged and not status.missed:
        if status.down.count:
            return (
                Tone.HALTED,
                str(status.down),
                f"{_sentence([status.down.names])} {_all_done(expected)}.".strip(),
            )
        return Tone.GOOD, _all_done(expected), _excluded(status)
    if status.deployed and not status.missed:
        headline = f"{counted(len(status.unserved), 'target')} without a host"
        return Tone.HALTED, headline, f"{_sentence(describe_unserved(status.unserved))} {_all_done(expected)}."
    if failed:
        verb = f"{count_text(failed, 'host')} failed"
        return Tone.BAD, verb, f"{headline}. {_rollout_sentence(status)}".strip()
    if snapshot.governed and not status.completed:
        return _rollout(snapshot, status, headline)
    if status.missed:
        return Tone.BAD, "The rollout ended with failures", f"{headline}. {_rollout_sentence(status)}"
    absent = counts[HostState.ABSENT]
    missing = f"{count_text(absent, 'host')} {'is' if absent == 1 else 'are'} absent." if absent else ""
    if absent and done + absent == expected:
        return Tone.HALTED, headline, missing
    deploying, behind = counts[HostState.DEPLOYING], counts[HostState.BEHIND]
    working = f"{count_text(deploying, 'host')} {'is' if deploying == 1 else 'are'} deploying"
    waiting = f", {behind:,} {'waits' if behind == 1 else 'wait'} for {'its' if behind == 1 else 'their'} turn"
    rebooting = counts[HostState.REBOOTING]
    reboots = f", {count_text(rebooting, 'host')} {'reboots' if rebooting == 1 else 'reboot'}" if rebooting else ""
    return Tone.BUSY, headline, f"{working}{reboots}{waiting if behind else ''}. {missing}".strip()


def _rollout(snapshot: FleetSnapshot, status: FleetStatus, progress: str) -> tuple[Tone, str, str]:
    state = snapshot.rollout
    is_paused = state is not None and state.paused is not None
    if snapshot.coordinator is None and not is_paused:
        return Tone.BAD, "The rollout does not continue", f"No coordinator runs. {progress}."
    if status.rollout_decisions and (is_paused or state is None or state.active_phase is None):
        group = status.rollout_decisions[0].group
        headline = "The rollout is paused" if group is None else f"Group {group} waits for a decision"
        return Tone.HALTED, headline, f"{_sentence([*map(str, status.rollout_decisions)])} {progress}."
    return Tone.BUSY, progress, _rollout_sentence(status)


def _rollout_sentence(status: FleetStatus) -> str:
    return _sentence([status.rollout] if status.rollout else [])


def _sentence(clauses: Sequence[str]) -> str:
    """Return clauses as one sentence; empty without clauses."""
    text = "; ".join(clauses)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _all_done(expected: int) -> str:
    match expected:
        case 0:
            return "No host has anything to do"
        case 1:
            return "The host has the wanted revision"
    return f"All {count_text(expected, 'host')} have the wanted revision"


def _excluded(status: FleetStatus) -> str:
    """Return the sentence on the hosts that have nothing to do, although they may lack the wanted revision."""
    excluded = sum(host.state is HostState.EXCLUDED for host in status.hosts)
    away = sum(host.state is HostState.MAINTENANCE for host in status.hosts)
    keep = "is in no group of the strategy and keeps its" if excluded == 1 else "are in no group and keep their"
    is_away = "is in maintenance and follows" if away == 1 else "are in maintenance and follow"
    sentences = [
        *([f"{count_text(excluded, 'more host')} {keep} revision."] if excluded else []),
        *([f"{count_text(away, 'more host')} {is_away} later."] if away else []),
    ]
    return " ".join(sentences) or "Nothing is left to do."


@dataclass(frozen=True, slots=True)
class CommitLine:
    """A revision with its commit, as far as it is known: the one that hosts should have, or a refused tip."""

    name: str
    full_name: str
    subject: str
    author: str
    published: Moment | None
    href: str


@dataclass(frozen=True, slots=True)
class SyncerLine:
    """The syncer's last message about the repository, and its time."""

    message: str
    at: Moment | None


@dataclass(frozen=True, slots=True)
class FleetView:
    """The values of the front page.

    ``refused`` is the tip that the syncer refuses. ``output`` are the last lines of the script that failed first;
    the other problems keep theirs.
    """

    verdict: FleetVerdict
    wanted: CommitLine | None
    refused: CommitLine | None
    output: tuple[str, ...]
    problems: tuple[FleetProblem, ...]
    filters: tuple[StateFilter, ...]
    map: HostMap
    list: HostList
    syncer: SyncerLine | None
    stale: bool = False


@dataclass(frozen=True, slots=True)
class FrontPageData:
    """The content of the front page: the snapshot with its status, the locks, and the report of the syncer.

    ``stale`` is whether ZooKeeper no longer confirms the snapshot.
    """

    snapshot: FleetSnapshot
    status: FleetStatus
    locks: Sequence[Lock] = ()
    syncer: SyncerReport | None = None
    stale: bool = False


def fleet_view(
    data: FrontPageData,
    query: HostQuery,
    arrangement: Arrangement,
    *,
    now: float,
    changed: Collection[str] | None = None,
) -> FleetView:
    """Return the front page at ``now``, in seconds since the epoch.

    ``arrangement`` is that of the map. With the ids of ``changed`` hosts, the map has only the parts that show
    them.
    """
    status, syncer = data.status, data.syncer
    problems = fleet_problems(data.snapshot, status, data.locks, now)
    first = next((problem for problem in problems if problem.lines), None)
    return FleetView(
        verdict=fleet_verdict(data.snapshot, status, now, stale=data.stale, syncer=syncer),
        wanted=_wanted(status, now),
        refused=_refused(status.refusal),
        output=() if first is None else first.lines,
        problems=tuple(replace(each, lines=()) if each is first else each for each in problems),
        filters=state_filters(status.hosts, query),
        map=host_map(arrangement, query, changed),
        list=host_list(_of_part(arrangement, query, status.hosts), query, now),
        syncer=None if syncer is None else SyncerLine(syncer.last_message, moment(syncer.time, now)),
        stale=data.stale,
    )


def _of_part(arrangement: Arrangement, query: HostQuery, hosts: Sequence[HostStatus]) -> Sequence[HostStatus]:
    """Return the hosts of the part of the map to which a view is limited; all hosts, if there is no such part."""
    found = arrangement.hosts_of(query.part)
    return hosts if found is None else found


def _wanted(status: FleetStatus, now: float) -> CommitLine | None:
    if status.wanted is None:
        return None
    name, found = str(status.wanted), status.publication
    if found is None:
        return CommitLine(short(name), name, "", "", published=None, href="")
    author, page = author_name(found.author), publication_page(found.sequence)
    return CommitLine(short(name), name, found.subject, author, published=moment(found.time, now), href=page)


def _refused(refusal: Refusal | None) -> CommitLine | None:
    if refusal is None:
        return None
    name = str(refusal.revision)
    author = author_name(refusal.author)
    return CommitLine(short(name), name, refusal.subject, author, published=None, href=commit_page(name))
