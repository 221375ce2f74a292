"""Views of the past: publications with their outcome, the acts of operators, and failed logins."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from zkdeployment.base.cluster import is_named
from zkdeployment.base.durations import age
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.records import Key, Record
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.strategies.views import rollout_status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zkdeployment.base.act import Act
    from zkdeployment.base.deployment import HostResult
    from zkdeployment.base.machine.reboots import RebootRecord
    from zkdeployment.publishing.records import PublicationRecord, PublicationSummary, Refusal
    from zkdeployment.strategies.state import RolloutState


class LoginProblem(Enum):
    """The reasons for which logins are refused; the value is the text for logs and people.

    An unknown name and a wrong key are one problem: an answer must not reveal which names exist.
    """

    WRONG = "the name or the key is wrong"
    RETIRED = "the user is retired"
    EXPIRED = "the key has expired"
    THROTTLED = "there were too many failed logins"
    TAKEN = "another user has this name"


@dataclass(frozen=True, slots=True)
class FailedLogin(Record):
    """A failed login; ``user`` is ``None`` if no user has the given name, which may be a misplaced key."""

    is_lenient: ClassVar[bool] = True
    time: float
    user: Annotated[str | None, Key(about="The user; null if there is no user of the given name.")] = None
    address: str = "?"
    problem: LoginProblem = LoginProblem.WRONG


def find_record(records: Sequence[PublicationRecord], name: str) -> PublicationRecord:
    """Return the newest publication of a revision, or the publication with a sequence number.

    ``records`` are sorted, the newest first. Raises ``RefusedError`` if no publication matches.
    """
    for record in records:
        if name == str(record.sequence) or is_named(record.revision, name):
            return record
    raise RefusedError(f"the history has no publication of {name}; 'zkdeployment history' lists all publications")


def acts_during(records: Sequence[PublicationRecord], record: PublicationRecord, acts: Iterable[Act]) -> list[Act]:
    """Return the acts of operators between a publication and the next publication."""
    later = [other.time for other in records if other.sequence > record.sequence]
    return [act for act in acts if record.time <= act.time and (not later or act.time < min(later))]


def hosts_text(publication: PublicationRecord | PublicationSummary) -> str:
    """Return the number of done hosts as text, or that nothing changed for hosts."""
    if not publication.is_repetition:
        return f"{publication.done:,} of {counted(publication.expected, 'host', ',')} done"
    late = f"; {counted(publication.done, 'host', ',')} done since" if publication.done else ""
    return f"nothing changed for hosts{late}"


def by_importance(results: Iterable[HostResult]) -> list[HostResult]:
    """Return the results sorted: failures first, then repaired hosts, then by the time of the end."""

    def order(result: HostResult) -> tuple[bool, bool, float, str]:
        return result.error is None, not result.is_repaired, result.time, result.host_name

    return sorted(results, key=order)


def reboots_during(record: PublicationRecord, reboots: Iterable[RebootRecord]) -> list[RebootRecord]:
    """Return the reboots for a publication from which hosts are expected back, sorted by the names of hosts."""
    awaited = (reboot for reboot in reboots if reboot.sequence == record.sequence and not reboot.expired)
    return sorted(awaited, key=lambda reboot: (reboot.host_name, reboot.host_id))


def publication_body(
    record: PublicationRecord,
    records: Sequence[PublicationRecord],
    acts: Iterable[Act],
    rollouts: Iterable[RolloutState],
    reboots: Iterable[RebootRecord] = (),
    *,
    now: float,
) -> dict[str, Any]:
    """Return the details of a publication as ``-o json`` prints them.

    ``records`` include the next publication, if there is one; ``reboots`` are all recorded ones; ``now`` is in
    seconds since the epoch.
    """
    return {
        **record.summary(),
        "left_out": record.left_out,
        "results": [result.to_json() for result in by_importance(record.results.values())],
        "reboots": [reboot.to_json() for reboot in reboots_during(record, reboots)],
        "acts": [act.to_json() for act in acts_during(records, record, acts)],
        "rollouts": [rollout_status(attempt, led=True, now=now).to_json() for attempt in rollouts],
    }


#: The time over which figures are computed, in days.
FIGURE_DAYS = 28

_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class DeliveryFigures:
    """The four figures of software delivery over the last ``FIGURE_DAYS`` days; ``None``: nothing to measure.

    ``publications`` is the number of deliveries, such as publications that concerned hosts, ``per_week`` their
    frequency.
    ``lead_time`` is the median number of seconds from a commit to its last host, ``failure_rate`` the share of the
    publications that failed on a host, and ``restore_time`` the median number of seconds from the first failed
    host until all hosts had that publication after a repair, or the next publication without a failure.
    """

    publications: int
    per_week: float
    lead_time: float | None
    failure_rate: float | None
    restore_time: float | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery for the figures, such as a publication; times are in seconds since the epoch.

    ``begun`` is its begin, ``committed`` the time of its commit, if that is known. ``ended`` is the end of a
    delivery that succeeded everywhere, possibly after a repair. One that ``failed`` did so first at ``failed_at``.
    """

    begun: float
    committed: float | None = None
    ended: float | None = None
    failed: bool = False
    failed_at: float | None = None


def publication_deliveries(summaries: Iterable[PublicationSummary]) -> list[Delivery]:
    """Return the publications that concerned hosts as deliveries, in the same order."""
    return [
        Delivery(
            each.time,
            None if each.origin is None else each.origin.time,
            each.ended if each.done and each.outcome(newest=False).is_complete else None,
            each.first_failure is not None,
            each.first_failure,
        )
        for each in summaries
        if not each.is_repetition
    ]


def delivery_figures(deliveries: Sequence[Delivery], now: float) -> DeliveryFigures:
    """Return the figures at ``now``, in seconds since the epoch; ``deliveries`` are sorted, the newest first."""
    begin = now - FIGURE_DAYS * _DAY
    measured = [each for each in deliveries if each.begun >= begin][::-1]
    leads = [
        each.ended - each.committed
        for each in measured
        if each.ended is not None and each.committed is not None and not each.failed
    ]
    failed = sum(each.failed for each in measured)
    return DeliveryFigures(
        len(measured),
        len(measured) * 7 / FIGURE_DAYS,
        median(leads) if leads else None,
        failed / len(measured) if measured else None,
        median(restored) if (restored := list(_restore_times(measured))) else None,
    )


def weekly_figures(deliveries: Sequence[Delivery], now: float, weeks: int) -> list[DeliveryFigures]:
    """Return the figures at the ends of the last weeks, the oldest first; the last week ends at ``now``.

    A delivery that ended later had not ended yet.
    """
    found = []
    for week in range(weeks - 1, -1, -1):
        moment = now - week * 7 * _DAY
        known = [each for each in deliveries if each.begun <= moment]
        open_ones = (replace(each, ended=None) if (each.ended or 0) > moment else each for each in known)
        found.append(delivery_figures([*open_ones], moment))
    return found


def _restore_times(oldest_first: Sequence[Delivery]) -> Iterator[float]:
    """Yield the seconds from each first failure to the end of the delivery that mended it."""
    failed: float | None = None
    for each in oldest_first:
        if failed is None:
            failed = each.failed_at
        if failed is not None and each.ended is not None:
            yield max(0.0, each.ended - failed)
            failed = None


@dataclass(frozen=True, slots=True)
class AuditRecords:
    """Acts of operators and failed logins, the newest first."""

    acts: tuple[Act, ...]
    failed_logins: tuple[FailedLogin, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the records as the schema ``audit`` describes them."""
        return {
            "acts": [act.to_json() for act in self.acts],
            "failed_logins": [failed.to_json() for failed in self.failed_logins],
        }


@dataclass(frozen=True, slots=True)
class Period:
    """A time span in seconds since the epoch: from ``since`` on, and before ``until``."""

    since: float | None = None
    until: float | None = None

    def __contains__(self, time: float) -> bool:
        return (self.since is None or time >= self.since) and (self.until is None or time < self.until)


ALWAYS = Period()


def audit_records(
    acts: Sequence[Act],
    failed_logins: Sequence[FailedLogin],
    *,
    who: str = "",
    period: Period = ALWAYS,
    limit: int,
) -> AuditRecords:
    """Return the newest ``limit`` records of each kind in a period, by all users or by one user or address.

    ``who`` is a user, an address, or empty for all. The author of an act by a verb is ``USER@HOST``; ``who`` may
    be the user alone. Both sequences are oldest first.
    """
    by = (act for act in reversed(acts) if who in {"", act.by, act.by.partition("@")[0]})
    logins = (login for login in reversed(failed_logins) if who in {"", login.user, login.address})
    return AuditRecords(
        tuple(act for act in by if act.time in period)[:limit],
        tuple(login for login in logins if login.time in period)[:limit],
    )


def refused_pushes(refusals: Sequence[Refusal], *, period: Period = ALWAYS, limit: int) -> tuple[Refusal, ...]:
    """Return the newest ``limit`` refusals of pushes in a period, newest first; ``refusals`` are oldest first."""
    return tuple(each for each in reversed(refusals) if each.time in period)[:limit]


#: The number of refused pushes that are shown without another number.
REFUSED = 20


#: The number of publications whose pace predicts that of the next one.
PACE = 10


def time_at_pace(hosts: int, seconds_per_host: float, *, governed: bool) -> str:
    """Return the time that hosts take at a pace, as text; empty without hosts, and if a strategy governs them.

    Under a strategy, no time is predicted: groups, bake times and decisions of operators determine when the hosts
    begin.
    """
    return age(hosts * seconds_per_host) if hosts and not governed else ""


def duration_sentence(
    hosts: int, records: Iterable[PublicationRecord | PublicationSummary], *, governed: bool
) -> str:
    """Return the time that hosts take at the pace of the last publications; empty if it cannot be predicted.

    ``records`` are newest first. The pace is the median of their times from the publication to its last host, per
    host. ``governed`` as for ``time_at_pace``.
    """
    paces = [
        (record.ended - record.time) / record.done
        for record in records
        if record.done and record.ended is not None and record.ended > record.time
    ]
    time = time_at_pace(hosts, median(paces), governed=governed) if paces else ""
    verb = "takes" if hosts == 1 else "take"
    return (
        f"{counted(hosts, 'host', ',')} {verb} about {time} at the pace of the last publications." if time else ""
    )
