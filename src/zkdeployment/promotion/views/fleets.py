"""Promotions as operators see them: the fleets, the worst first, and why a fleet lacks the newest commit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from zkdeployment.base.cluster import short
from zkdeployment.base.durations import ago
from zkdeployment.base.records import Key, Record
from zkdeployment.base.text import counted, listing
from zkdeployment.base.values import dataclass
from zkdeployment.promotion.records import (
    Choice,
    FleetOrders,
    FleetStanding,
    FleetState,
    PromoterReport,
    PromotionRecords,
)
from zkdeployment.strategies.progress import takes_late_joiners
from zkdeployment.strategies.strategy import MemberKind
from zkdeployment.strategies.views import describe_rollout, rollout_status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zkdeployment.strategies.state import RolloutState

_ORDER = [*FleetState]

#: The fleets that a sentence names.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class FleetsStatus(Record):
    """The fleets under promotion, the worst first.

    ``promoter`` is the leading promoter, ``main`` the tip of the main branch as it last read it, ``problem`` what
    keeps it from its work, ``waiting`` why the next promotion does not begin yet. ``sentence`` sums up the
    newest promotion. ``choice`` is the commit from which promotions run in place of the tip, ``coming`` the one
    that fleets get next.
    """

    fleets: tuple[FleetStanding, ...]
    promoter: str | None = None
    main: str | None = None
    problem: str = ""
    waiting: str = ""
    sentence: Annotated[str, Key("promotion")] = ""
    choice: Choice | None = None
    coming: str | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences on what keeps newer commits from the fleets."""
        waiting = f"the next promotion waits: {self.waiting}" if self.waiting else ""
        chosen = f"{self.choice}; newer commits wait until 'zkdeployment promote follow'" if self.choice else ""
        return tuple(filter(None, (self.problem, chosen, waiting)))

    @property
    def converged(self) -> bool:
        """Whether each fleet has the tip of the main branch on all of its hosts."""
        return bool(self.fleets) and all(
            fleet.state is FleetState.CONVERGED and fleet.tip is not None and not fleet.behind
            for fleet in self.fleets
        )


def fleets_status(found: PromotionRecords, promoter: str | None, now: float) -> FleetsStatus:
    """Return the fleets at ``now``, in seconds since the epoch, the worst first."""
    state, report = found.state, found.report
    return FleetsStatus(
        tuple(worst_first(with_orders(found.standings.values(), found.orders, now))),
        promoter,
        None if report is None else report.main,
        _problem(report, promoter),
        "" if report is None else report.waiting,
        "" if state is None else promotion_sentence(state, led=promoter is not None),
        found.choice,
        coming_revision(found),
    )


def coming_revision(found: PromotionRecords) -> str | None:
    """Return the commit that fleets get next; ``None`` before the promoter has read the main branch.

    The commit of the promotion under way comes first, then the one from which promotions run.
    """
    if found.state is not None and found.state.ended is None:
        return str(found.state.revision)
    main = None if found.report is None else found.report.main
    return main if found.choice is None else found.choice.revision


def _problem(report: PromoterReport | None, promoter: str | None) -> str:
    if promoter is None:
        return "no promoter runs, so nothing is promoted; start zkdeployment-promoter"
    return "" if report is None else report.problem


def promotion_sentence(state: RolloutState, *, led: bool) -> str:
    """Return one sentence on a promotion."""
    return f"promotion {state.id} of {short(state.revision)}: {describe_rollout(state, led=led)}"


def with_orders(standings: Iterable[FleetStanding], orders: FleetOrders, now: float) -> Iterator[FleetStanding]:
    """Yield the standings with the present orders of operators, which the promoter may not have seen yet."""
    for each in standings:
        yield replace(
            each,
            withheld=orders.withholding(each.name, each.branch),
            pin=orders.pin(each.name, each.branch, now),
        )


def ordered(fleet: FleetStanding) -> str:
    """Return the orders of operators about a fleet in one sentence; empty without an order."""
    withheld = "" if fleet.withheld is None else f"withheld: {fleet.withheld}"
    return "; ".join(filter(None, (withheld, "" if fleet.pin is None else str(fleet.pin))))


def worst_first(standings: Iterable[FleetStanding]) -> list[FleetStanding]:
    """Return the standings, the worst state first; in the same state, those that lack most commits come first."""

    def badness(each: FleetStanding) -> tuple[int, bool, int, str]:
        return -_ORDER.index(each.state), each.tip is not None, -each.behind, each.name

    return sorted(standings, key=badness)


def explain_fleet(
    standing: FleetStanding, status: FleetsStatus, state: RolloutState | None, now: float
) -> list[str]:
    """Return lines on why a fleet is in its state, and what it waits for; ``now`` is in epoch seconds."""
    return list(_explanation(standing, status, state, now))


def _explanation(
    standing: FleetStanding, status: FleetsStatus, state: RolloutState | None, now: float
) -> Iterator[str]:
    by = f" by {standing.by}" if standing.by else ""
    since = "" if standing.since is None else f", {ago(standing.since, now)}"
    yield f"{standing.name} is {standing.state.value}{by}{since}"
    tip = "does not exist yet" if standing.tip is None else f"is at {short(standing.tip)}"
    behind = f", {counted(standing.behind, 'commit')} behind the main branch" if standing.behind else ""
    yield f"branch {standing.branch} {tip}{behind}"
    if standing.revision is not None:
        hosts = f"{standing.converged} of {counted(standing.hosts, 'host')} converged"
        seen = "" if standing.seen is None else f" (its service answered {ago(standing.seen, now)})"
        yield f"the fleet published {short(standing.revision)}: {hosts}{seen}"
    if standing.problem:
        yield f"problem: {standing.problem}"
    if standing.withheld is not None:
        yield f"withheld: {standing.withheld}; 'zkdeployment promote release {standing.name}' ends that"
    if standing.pin is not None:
        yield f"{standing.pin}; 'zkdeployment promote unpin {standing.name}' ends that"
    if state is not None:
        yield from _in_promotion(standing, state, now, led=status.promoter is not None)
    yield from status.remarks


def describe_stopped(fleets: Iterable[FleetStanding]) -> str:
    """Return a sentence on the stopped fleets, which a resumed promotion does not resume; else empty."""
    stopped = (fleet for fleet in fleets if fleet.state is FleetState.STOPPED and fleet.withheld is None)
    names = sorted(f"{fleet.name}{f' (by {fleet.by})' if fleet.by else ''}" for fleet in stopped)
    if not names:
        return ""
    return (
        f"stopped, so that hosts there start nothing: {listing(names, _NAMED)}; 'zkdeployment resume --latest' in"
        " the fleet, or 'zkdeployment fleets resume --latest', ends that"
    )


def waiting_for_reset(fleets: Iterable[FleetStanding], state: RolloutState | None) -> str:
    """Return a sentence on the fleets that the promotion of a rollback omits; empty without such fleets."""
    names = sorted(fleet.name for fleet in fleets if state is not None and _awaits_reset(fleet, state))
    reset = "'zkdeployment promote reset FLEET' lets a fleet that diverged join the promotion"
    return f"{reset}: {listing(names, _NAMED)}" if names else ""


def _awaits_reset(fleet: FleetStanding, state: RolloutState) -> bool:
    """Whether a promotion lacks a fleet because its branch diverged: only rollbacks omit such fleets."""
    left_out = fleet.name not in state.rollout.hosts and not ordered(fleet)
    return left_out and fleet.state is FleetState.DIVERGED and takes_late_joiners(state)


def _in_promotion(fleet: FleetStanding, state: RolloutState, now: float, *, led: bool) -> Iterator[str]:
    """Yield what the newest promotion does with a fleet."""
    name, found = fleet.name, rollout_status(state, led=led, now=now)
    whole = f"{MemberKind.FLEET.whole} {state.id} of {short(state.revision)}"
    groups = [group for group in found.groups if name in group.hosts]
    if _awaits_reset(fleet, state):
        yield f"{whole} continues without the fleet, which joins after 'zkdeployment promote reset {name}'"
    elif not groups:
        yield f"{whole} does not concern the fleet"
    for group in groups:
        description = f" ({group.description})" if group.description else ""
        yield f"{whole}: {group.hosts[name]}; its group {group.name} is {group.state.value}{description}"
    if name in found.errors:
        yield f"failed: {found.errors[name]}"
    if groups:
        yield f"the {MemberKind.FLEET.whole}: {found.description}"
