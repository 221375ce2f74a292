"""The promotions in the readings of the service, and their events."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from zkdeployment.base.act import Act
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.events.event import EventKind, FleetEvent
from zkdeployment.fleet.feed.fleet_assembly import FeedPart
from zkdeployment.promotion.records import (
    FleetOrders,
    FleetStanding,
    MainCommits,
    Pin,
    PromoterReport,
    PromotionEntry,
    PromotionRecords,
)
from zkdeployment.promotion.store import (
    CHOICE,
    COMMITS,
    FLEETS,
    HISTORY,
    PINS,
    REPORT,
    WITHHELD,
    choice_of,
    newest_first,
    record_of,
    standings_of,
    state_of,
)
from zkdeployment.strategies.store.agent_records import current_id
from zkdeployment.strategies.views import describe_rollout, rollout_state
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import contender, queued
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.shared_nodes import DecodedNodes, FollowedNodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zkdeployment.strategies.state import RolloutState
    from zkdeployment.zookeeper.nodes import Node

#: The most characters of a sentence in an event.
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class PromotionReading(PromotionRecords):
    """The promotions in one reading, with the leading promoter and the last commits of the main branch."""

    promoter: str | None = None
    commits: MainCommits = MainCommits()

    def withholding(self, fleet: str) -> Act | None:
        """Return the act by which a fleet is withheld; ``None`` if it is not."""
        return self.orders.withholding(fleet, self._branch(fleet))

    def pin(self, fleet: str, now: float) -> Pin | None:
        """Return the pin of a fleet at ``now``, in seconds since the epoch; ``None`` without a pin."""
        return self.orders.pin(fleet, self._branch(fleet), now)

    def _branch(self, fleet: str) -> str:
        return self.standings[fleet].branch if fleet in self.standings else ""


class _PromotionAssembly:
    """The promotions in followed nodes."""

    def __init__(self, nodes: FollowedNodes) -> None:
        self._nodes = nodes
        self._decoded = DecodedNodes(nodes)
        self._reading = PromotionReading()
        self._parts: tuple[object, ...] = ()

    def wanted(self) -> Iterator[Read]:
        """Yield the nodes of promotions, as far as the nodes read so far show them."""
        yield from map(Read, (paths.PROMOTIONS, FLEETS, REPORT, COMMITS, CHOICE))
        if (current := self._current) is not None:
            yield Read(current)
        for directory in (HISTORY, WITHHELD, PINS, paths.PROMOTERS):
            yield Read(directory, children=True)
        for directory in (HISTORY, WITHHELD, PINS):
            yield from (Read(f"{directory}/{name}") for name in self._nodes.children(directory))
        yield from map(Read, self._promoters)

    def reading(self) -> PromotionReading:
        """Return the reading: the same object if nothing in it has changed."""
        orders = FleetOrders(self._orders(WITHHELD, _act), self._orders(PINS, _pin))
        history = tuple(
            entry
            for name in newest_first(self._nodes.children(HISTORY))
            if (entry := self._value(f"{HISTORY}/{name}", _entry)) is not None
        )
        state = None if self._current is None else self._value(self._current, _state)
        standings = self._value(FLEETS, standings_of) or {}
        report = self._value(REPORT, _report)
        commits = self._value(COMMITS, _commits) or MainCommits()
        choice = self._value(CHOICE, choice_of)
        leading = (self._nodes.node(path) for path in self._promoters)
        node = next((node for node in leading if node is not None), None)
        promoter = None if node is None else contender("", node).identity
        parts = (state, promoter, standings, orders, *history, report, commits, choice)
        if parts != self._parts:
            self._parts = parts
            self._reading = PromotionReading(state, standings, orders, history, report, choice, promoter, commits)
        self._decoded.forget()
        return self._reading

    @property
    def _current(self) -> str | None:
        current = current_id(self._nodes.node(paths.PROMOTIONS))
        return None if current is None else paths.rollout_path(current, paths.PROMOTIONS)

    @property
    def _promoters(self) -> list[str]:
        return [f"{paths.PROMOTERS}/{name}" for name in queued(self._nodes.children(paths.PROMOTERS))[:1]]

    def _orders(self, place: str, decode: Callable[[Node], Any]) -> dict[str, Any]:
        """Return the orders below a node, by branch."""
        found = ((name, self._value(f"{place}/{name}", decode)) for name in self._nodes.children(place))
        return {unquote(name): order for name, order in found if order is not None}

    def _value(self, path: str, decode: Callable[[Node], Any]) -> Any:
        return self._decoded.value(path, path, lambda _path, node: decode(node))


def _act(node: Node) -> Act:
    return Act.from_json(node.properties)


def _pin(node: Node) -> Pin:
    return Pin.from_json(node.properties)


def _entry(node: Node) -> PromotionEntry | None:
    found: PromotionEntry | None = record_of(node, PromotionEntry)
    return found


def _report(node: Node) -> PromoterReport | None:
    found: PromoterReport | None = record_of(node, PromoterReport)
    return found


def _commits(node: Node) -> MainCommits | None:
    found: MainCommits | None = record_of(node, MainCommits)
    return found


def _state(node: Node) -> RolloutState | None:
    return state_of(node.data)


def _events(before: PromotionReading, after: PromotionReading) -> Iterator[FleetEvent]:
    """Yield an event for the newest promotion and for each fleet that changed."""
    if before is after:
        return
    if _compared(before) != _compared(after):
        yield _promotion_event(after)
    for name in sorted(before.standings.keys() | after.standings.keys()):
        old, new = before.standings.get(name), after.standings.get(name)
        was_ordered, is_ordered = (
            (each.withholding(name) is not None, each.pin(name, 0.0)) for each in (before, after)
        )
        if _without_times(old) != _without_times(new) or was_ordered != is_ordered:
            is_withheld, pin = is_ordered
            yield FleetEvent(
                EventKind.FLEET,
                name,
                {
                    "state": None if new is None else new.state.value,
                    "former": None if old is None else old.state.value,
                    "tip": None if new is None else new.tip,
                    "revision": None if new is None else new.revision,
                    "behind": None if new is None else new.behind,
                    "withheld": is_withheld,
                    "pinned": None if pin is None else pin.revision,
                    "words": None if new is None else new.problem[:_LONGEST],
                },
            )


def _promotion_event(after: PromotionReading) -> FleetEvent:
    state, report = after.state, after.report
    open_ones = () if report is None else (report.problem or report.waiting,)
    problem = "; ".join(filter(None, (*open_ones, "" if after.choice is None else str(after.choice))))
    if state is None:
        return FleetEvent(
            EventKind.PROMOTION, "none", {"state": None, "revision": None, "words": problem[:_LONGEST]}
        )
    words = describe_rollout(state, led=after.promoter is not None)
    return FleetEvent(
        EventKind.PROMOTION,
        state.id,
        {
            "state": rollout_state(state).value,
            "revision": state.revision,
            "words": (f"{words}; {problem}" if problem else words)[:_LONGEST],
        },
    )


def _compared(reading: PromotionReading) -> object:
    report = None if reading.report is None else replace(reading.report, time=0.0)
    return reading.state, reading.promoter is None, reading.history, report, reading.choice


def _without_times(standing: FleetStanding | None) -> FleetStanding | None:
    """Return a standing without the time at which the service last answered, which changes all the time."""
    return None if standing is None else replace(standing, seen=None)


#: What the promoter recorded.
PROMOTION_PART: FeedPart[PromotionReading] = FeedPart("promotion", PromotionReading(), _PromotionAssembly, _events)

FEED_PARTS = (PROMOTION_PART,)
