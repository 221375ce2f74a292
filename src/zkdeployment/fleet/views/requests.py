"""Requests for publications and the outcomes of commits, as sentences and as jobs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

from zkdeployment.base.cluster import ClusterState, Revision, is_named, short
from zkdeployment.base.durations import age, ago
from zkdeployment.base.publication import Published
from zkdeployment.base.records import Key, Record
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.snapshot import FleetSnapshot, stops_in_force
from zkdeployment.publishing.rules.convergence import PublicationSnapshot, is_converged, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zkdeployment.publishing.records import (
        PublicationRecord,
        PublicationRequest,
        PublicationSummary,
        Refusal,
        SyncerReport,
    )


@dataclass(frozen=True, slots=True)
class RequestView(Record):
    """An operator's request for a publication; ``time`` is when ZooKeeper got it."""

    by: str
    reason: str
    time: float
    age_limit: float
    error: str | None


def request_body(request: PublicationRequest | None) -> dict[str, Any] | None:
    """Return the JSON of an operator's request; ``None`` without one."""
    if request is None:
        return None
    view = RequestView(request.by, request.reason, request.written, request.age_limit, request.error)
    return view.to_json()


def describe_request(request: PublicationRequest, now: float) -> str:
    """Return a sentence on a request: its author and its state; ``now`` is in seconds since the epoch."""
    reason = f" ({request.reason})" if request.reason else ""
    request_text = f"{request.by} requested {ago(request.written, now)} to publish the branch's tip{reason}"
    if request.error is not None:
        return f"{request_text}; the syncer refused: {request.error}"
    if request.is_expired(now):
        return f"{request_text}; no syncer answered in time, and the request has expired"
    left = request.written + request.age_limit - now
    return f"{request_text}; no syncer has answered yet, and the request expires in {age(left)}"


def publication_obstacles(snapshot: FleetSnapshot, commit: Revision) -> Iterator[str]:
    """Return the reasons why a syncer does not publish a commit yet."""
    cluster = snapshot.cluster
    if cluster is None:
        return
    if cluster.state is ClusterState.STOPPED:
        yield "the fleet is stopped: nothing is published before 'zkdeployment resume --latest'"
        yield from (str(stop) for stop in stops_in_force(snapshot))
        return
    if cluster.state is not ClusterState.RUNNING:
        return
    published = Published(
        revision=snapshot.published,
        strategy=snapshot.strategy if snapshot.governed else None,
        ordered=cluster.revision,
    )
    known = PublicationSnapshot(
        cluster,
        published,
        hosts=snapshot.hosts,
        rollout=snapshot.rollout,
        maintenance=frozenset(snapshot.maintenance),
        reboots=tuple(snapshot.reboots.values()),
    )
    if not is_converged(known):
        yield refusal(known, commit)


def describe_refusal(refusal: Refusal, now: float) -> str:
    """Return one line with the refused commit, the time and the first problem; ``now`` is in epoch seconds."""
    commit = describe_commit(refusal.revision, refusal.subject, refusal.author)
    return f"the tip {commit} is refused, {ago(refusal.time, now)}: {listing(refusal.problems, 1)}"


def describe_commit(revision: Revision, subject: str, author: str) -> str:
    """Return a revision with the subject and the author of its commit, as far as they are known."""
    name = author.partition(" <")[0]
    return " ".join((short(revision), *([f'"{subject}"'] if subject else []), *([f"by {name}"] if name else [])))


@dataclass(frozen=True, slots=True)
class WantedPublication(Record):
    """The publication of the wanted revision at ``time``, in seconds since the epoch, and its commit.

    The author and the subject are empty if the repository did not name them.
    """

    sequence: int
    revision: Revision
    time: float
    author: str = ""
    subject: str = ""

    @classmethod
    def of(cls, record: PublicationRecord | None, wanted: Revision | None) -> WantedPublication | None:
        """Return the publication of the ``wanted`` revision; ``None`` if the last publication is another one."""
        if record is None or str(record.revision) != str(wanted):
            return None
        author, subject = ("", "") if record.origin is None else (record.origin.author, record.origin.subject)
        return cls(record.sequence, record.revision, record.time, author, subject)


def describe_wanted(
    publication: WantedPublication | None, change: str, since: float | None, now: float
) -> list[str]:
    """Return a line on the publication of the wanted revision and on the fleet's last change, or nothing.

    ``change`` names the change at the time ``since``, as in ``FleetStatus``.
    """
    parts = []
    if publication is not None:
        commit = describe_commit(publication.revision, publication.subject, publication.author)
        parts.append(f"{commit}, published {ago(publication.time, now)}")
    if since is not None:
        parts.append(f"{'this state began' if change == 'began' else change} {ago(since, now)}")
    return ["; ".join(parts)] if parts else []


#: The most known revisions that a sentence names.
_NAMED = 5


def describe_unknown(revision: str, known: Iterable[Revision], syncer: SyncerReport | None, now: float) -> str:
    """Return a sentence on a revision that neither is ``known`` nor waits in the branch; empty for all others.

    ``known`` are the wanted, published and refused revisions. Only a later reading of the repository by the syncer
    can find a commit that was just pushed.
    """
    waiting = () if syncer is None else (commit.id for commit in syncer.waiting)
    listed = list(dict.fromkeys([*waiting, *known]))
    if any(is_named(each, revision) for each in listed):
        return ""
    read = "no syncer has reported;" if syncer is None else f"as of {ago(read_and_late(syncer)[0], now)},"
    named = listing([short(each) for each in listed], _NAMED)
    return (
        f"waiting until {revision} is pushed and the syncer reads it: {read} no such revision is published,"
        f" refused or waits in the branch{named and f' ({named})'}; a later revision that contains it may be"
        " published instead"
    )


def read_and_late(syncer: SyncerReport) -> tuple[float, float]:
    """Return when a syncer last read the repository, and when the next reading is late."""
    read = min(syncer.time, syncer.time if syncer.fetched is None else syncer.fetched)
    return read, read + syncer.patience


def describe_silence(syncer: SyncerReport | None, now: float, *, is_stopped: bool = False) -> list[str]:
    """Return a sentence on a syncer that is late, because newer commits may wait; nothing for any other.

    A fleet for which no syncer ever reported is published by hand, so that no syncer is missing. While the fleet
    is stopped, a syncer reports without reading the repository.
    """
    if syncer is None:
        return []
    if now > read_and_late(replace(syncer, fetched=None))[1]:
        since = f"{datetime.fromtimestamp(syncer.time, UTC).astimezone():%Y-%m-%d %H:%M:%S}"
        silent = f"the syncer is silent since {since}, {ago(syncer.time, now)} ({syncer.by})"
        return [f"{silent}; newer commits may wait"]
    read, late = read_and_late(syncer)
    if now > late and not is_stopped:
        unread = f"the syncer last read the repository {ago(read, now)}: {syncer.last_message}"
        return [f"{unread}; newer commits may wait"]
    return []


class JobState(Enum):
    """The state of a commit."""

    PENDING = "pending"  # the syncer has neither published nor refused it
    PROCESSED = "processed"  # a published revision is the commit, or descends from it
    FAILED = "failed"  # the syncer refused the commit, or a tip that contains the commit


def _text(revision: Revision | None) -> str | None:
    return None if revision is None else str(revision)


@dataclass(frozen=True, slots=True)
class Job(Record):
    """A commit, its state, the sequence of the first publication with it, and the problems of its refusal.

    ``refused`` is the tip that was refused: the commit, or a revision that contains the commit.
    """

    commit: Annotated[str, Key("job")]
    state: JobState
    sequence: int | None = None
    problems: tuple[str, ...] = ()
    refused: Annotated[Revision | None, Key(write=_text, form=str | None)] = None


def job_of(
    commit: str,
    records: Iterable[PublicationRecord | PublicationSummary],
    refusals: Iterable[Refusal],
    contains: Callable[[Revision], bool],
) -> Job:
    """Return the job of a commit.

    ``records`` are the publications, newest first, ``refusals`` the refused tips, oldest first. ``contains``
    returns whether a revision is the commit or descends from it. A commit that was refused and published later is
    processed, and so is one that was published before the branch was set back.
    """
    sequence = None
    for record in records:
        if contains(record.revision):
            sequence = record.sequence
        elif sequence is not None:
            break  # the publications before the first one with the commit
    if sequence is not None:
        return Job(commit, JobState.PROCESSED, sequence)
    newest_first = tuple(refusals)[::-1]
    itself = (refusal for refusal in newest_first if refusal.revision == commit)
    containing = (refusal for refusal in newest_first if contains(refusal.revision))
    refusal = next(itself, None) or next(containing, None)
    if refusal is None:
        return Job(commit, JobState.PENDING)
    return Job(commit, JobState.FAILED, problems=refusal.problems, refused=refusal.revision)
