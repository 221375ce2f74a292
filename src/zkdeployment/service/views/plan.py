"""The page of the plan: the steps that hosts would take if a branch were published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.agent.rules.availability import PackageFindings
from zkdeployment.base.cluster import short
from zkdeployment.base.durations import age
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.forecast import Forecast, HostForecast, Outlook
from zkdeployment.fleet.views.history import PACE, duration_sentence
from zkdeployment.service.views.fleet import HostLink, Tone
from zkdeployment.service.views.frame import (
    Moment,
    author_name,
    host_page,
    moment,
    publication_page,
    with_query,
)
from zkdeployment.service.views.hosts import count_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zkdeployment.fleet.views.forecast import PlanAddition
    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.publishing.records import BranchSummary, CommitSummary, PublicationSummary
    from zkdeployment.strategies.order import Turn

#: The most hosts that a group names, and the most changed nodes of the tree that are listed.
_NAMED = 12
_MOST_NODES = 200

_HEADINGS = {
    Outlook.FAILS: "would fail",
    Outlook.CHANGES: "would change",
    Outlook.UNKNOWN: "would do what is not known",
    Outlook.REPEATS: "would repeat their deployments",
    Outlook.NOTHING: "would do nothing",
}


@dataclass(frozen=True, slots=True)
class PlanGroup:
    """Hosts that would take the same steps, each with its script and lock, or the reason for no steps."""

    title: str
    hosts: tuple[HostLink, ...]
    more: int
    reason: str
    steps: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PlannedHosts:
    """The hosts with one outlook on the map of a plan, as a dashed SVG path, with the name of a colour."""

    title: str
    tone: str
    outline: str


@dataclass(frozen=True, slots=True)
class PlanMap:
    """The hosts of a plan as squares, those with the same outlook together."""

    width: int
    height: int
    hosts: tuple[PlannedHosts, ...]


@dataclass(frozen=True, slots=True)
class PlanView:
    """The values of the page of the plan; ``duration`` is a sentence, ``map`` is ``None`` without hosts."""

    tone: Tone
    headline: str
    sentence: str
    problems: tuple[str, ...] = ()
    packages: str = ""
    warnings: tuple[str, ...] = ()
    groups: tuple[PlanGroup, ...] = ()
    strategy: tuple[str, ...] = ()
    order: tuple[tuple[str, str], ...] = ()
    nodes: tuple[str, ...] = ()
    additions: tuple[PlanAddition, ...] = ()
    duration: str = ""
    map: PlanMap | None = None


@dataclass(frozen=True, slots=True)
class PlanComparison:
    """A planned revision that was published: for each fact the expectation before, and what happened."""

    href: str
    rows: tuple[tuple[str, str, str], ...]


def compare_with_past(
    revision: str, recent: Sequence[PublicationSummary], *, governed: bool
) -> PlanComparison | None:
    """Return the comparison for a published revision, ``None`` for another one; ``recent`` are newest first.

    The expected duration is that at the pace of the publications before it. ``governed``: the revision has a
    strategy.
    """
    place = next((place for place, each in enumerate(recent) if str(each.revision) == revision), None)
    if place is None:
        return None
    found, before = recent[place], recent[place + 1 : place + 1 + PACE]
    hosts = count_text(found.expected, "host")
    rows = [
        ("Hosts", "nothing changes for hosts" if found.is_repetition else hosts, f"{found.done:,} done"),
        ("Failures", "none", count_text(found.failed, "host") if found.failed else "none"),
    ]
    if not found.is_repetition:
        why = "a strategy determines when hosts begin" if governed else "no earlier publication shows a pace"
        expected = duration_sentence(found.expected, before, governed=governed) or f"unknown: {why}"
        taken = "no host has finished yet" if found.ended is None else age(max(0.0, found.ended - found.time))
        rows.append(("Duration", expected, taken))
    return PlanComparison(publication_page(found.sequence), tuple(rows))


@dataclass(frozen=True, slots=True)
class PlanSuggestion:
    """A commit that waits for its publication, or a branch: its name, and its newest commit."""

    name: str
    href: str
    subject: str
    author: str
    committed: Moment | None


def plan_suggestions(
    waiting: Sequence[CommitSummary], branches: Sequence[BranchSummary], snapshot: FleetSnapshot, now: float
) -> tuple[PlanSuggestion, ...]:
    """Return the commits that wait, then the branches; each list begins with the newest.

    Branches are omitted if their newest commit waits or is published.
    """
    known = {str(snapshot.published), *(commit.id for commit in waiting)}
    named = [(short(commit.id), commit.id, commit) for commit in waiting]
    named += [(each.name, each.name, each.commit) for each in branches if each.commit.id not in known]
    return tuple(
        PlanSuggestion(
            name,
            with_query("/plan", {"revision": revision}),
            commit.subject,
            author_name(commit.author),
            moment(commit.time, now),
        )
        for name, revision, commit in named
    )


_TONES = {
    Outlook.FAILS: "failed",
    Outlook.CHANGES: "deploying",
    Outlook.UNKNOWN: "absent",
    Outlook.REPEATS: "behind",
    Outlook.NOTHING: "converged",
}
_COLUMNS = 60
_STEP = 12


def _map(prediction: Forecast) -> PlanMap | None:
    """Return the map of the hosts of a plan: rows from left to right, the most urgent outlook first."""
    total = len(prediction.hosts)
    if not total:
        return None
    hosts, place = [], 0
    for outlook, heading in _HEADINGS.items():
        number = len(prediction.with_outlook(outlook))
        if number:
            outline = "".join(_runs(place, place + number))
            hosts.append(PlannedHosts(f"{count_text(number, 'host')} {heading}", _TONES[outlook], outline))
            place += number
    return PlanMap(_COLUMNS * _STEP, -(-total // _COLUMNS) * _STEP, tuple(hosts))


def _runs(first: int, end: int) -> Iterator[str]:
    """Yield a line for each row with places from ``first`` up to ``end``; dashes of the line are the hosts."""
    while first < end:
        row, column = divmod(first, _COLUMNS)
        number = min(end - first, _COLUMNS - column)
        yield f"M{column * _STEP} {row * _STEP + 5}h{number * _STEP - 2}"
        first += number


def refused_plan(problems: str) -> PlanView:
    """Return the page of a tree that cannot be published because of its ``problems``."""
    sentence = "The tree has errors, which must be corrected first."
    return PlanView(Tone.BAD, "This would not be published", sentence, problems=(problems,))


def plan_view(
    prediction: Forecast,
    warnings: Iterable[str] = (),
    packages: PackageFindings | None = None,
    additions: Iterable[PlanAddition] = (),
    recent: Sequence[PublicationSummary] = (),
) -> PlanView:
    """Return the page of a plan; ``packages`` are the findings about packages, ``None`` if there was no check.

    ``additions`` are those of features. ``recent`` publications, newest first, show the pace, but not that of
    updates of operating systems.
    """
    findings = packages or PackageFindings()
    failing = len(prediction.with_outlook(Outlook.FAILS))
    changing = len(prediction.with_outlook(Outlook.CHANGES))
    updates = any(host.system is not None for host in prediction.hosts)
    tone, headline = Tone.GOOD, "No host would change"
    if failing:
        tone, headline = Tone.BAD, f"{count_text(failing, 'host')} would fail"
    elif changing:
        tone, headline = Tone.BUSY, f"{count_text(changing, 'host')} would change"
    if findings.errors:
        tone, headline = Tone.BAD, "This would not be published"
    name = "" if prediction.revision is None else f"Revision {short(prediction.revision)}. "
    summary = prediction.summary
    return PlanView(
        tone=tone,
        headline=headline,
        sentence=f"{name}{summary[:1].upper()}{summary[1:]}.",
        problems=tuple(map(str, findings.errors)),
        packages=_packages(packages),
        warnings=(*warnings, *map(str, findings.warnings)),
        groups=tuple(_group(outlook, hosts) for outlook in _HEADINGS for hosts in prediction.groups(outlook)),
        strategy=tuple(prediction.strategy.describe()) if prediction.strategy else (),
        order=tuple(_order(prediction)),
        nodes=tuple(_nodes(prediction)),
        additions=tuple(addition for addition in additions if addition.lines),
        duration="" if updates else duration_sentence(changing, recent[:PACE], governed=prediction.governed),
        map=_map(prediction),
    )


def _packages(findings: PackageFindings | None) -> str:
    if findings is None:
        return "The packages were not checked."
    if not findings.checked:
        return "No package had to be looked up."
    return f"{count_text(findings.checked, 'newly wanted package')} looked up in the repositories of hosts."


def _group(outlook: Outlook, hosts: Sequence[HostForecast]) -> PlanGroup:
    links = tuple(
        HostLink(str(host.identity), "" if host.outlook is Outlook.UNKNOWN else host_page(host.identity.id))
        for host in hosts[:_NAMED]
    )
    shows_steps = outlook is Outlook.CHANGES
    return PlanGroup(
        title=f"{count_text(len(hosts), 'host')} {_HEADINGS[outlook]}",
        hosts=links,
        more=len(hosts) - len(links),
        reason="; ".join(filter(None, (hosts[0].reason, hosts[0].unchanged))),
        steps=hosts[0].lines if shows_steps else (),
    )


def _order(prediction: Forecast) -> Iterator[tuple[str, str]]:
    if prediction.order is None:
        return
    names = {host.identity.id: host.identity.name for host in prediction.hosts}
    for turn in prediction.order.turns:
        hosts = listing([names.get(host_id, host_id) for host_id in turn.hosts], _NAMED) or "no hosts"
        fault = f"; fails: {turn.fault}" if turn.fault else ""
        decides = f"; metrics decide: {listing(turn.decides, _NAMED)}" if turn.decides else ""
        yield _turn(turn), f"{hosts}{fault}{decides}"
    if prediction.order.others:
        others = listing([names.get(host_id, host_id) for host_id in prediction.order.others], _NAMED)
        yield "In no group, so these hosts keep their revision", others


def _turn(turn: Turn) -> str:
    group = turn.group
    facts = ["critical"] if group.critical else []
    facts += ["manual"] if group.pace.manual else []
    facts += [f"after {', '.join(group.depends_on)}"] if group.depends_on else []
    return f"{group.name} ({', '.join(facts)})" if facts else group.name


def _nodes(prediction: Forecast) -> Iterator[str]:
    change = prediction.change
    marked = sorted(
        [(path, "+") for path in change.create]
        + [(path, "~") for path in change.update]
        + [(path, "-") for path in change.delete]
    )
    yield from (f"{mark} {path}" for path, mark in marked[:_MOST_NODES])
    if len(marked) > _MOST_NODES:
        yield f"and {len(marked) - _MOST_NODES} more"
