"""The records of promotions in the home ensemble: what the promoter writes, and what operators read and order.

Every write of a promoter is a transaction of the leader. The state of the newest promotion is encoded like
that of a rollout. Each promotion has an entry in the history, which keeps the last hundred.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from zkdeployment.base.act import Act
from zkdeployment.base.errors import RefusedError, ZkdeploymentError
from zkdeployment.base.log import get_logger
from zkdeployment.fleet.store.audit import recording
from zkdeployment.promotion.records import FleetStanding, PromoterReport, PromotionEntry, withholding
from zkdeployment.strategies.state import Directive, RolloutAct, RolloutState
from zkdeployment.strategies.store.agent_records import current_id
from zkdeployment.strategies.store.records import (
    FencedLead,
    NewActs,
    decode_state,
    encode_state,
    read_new_acts,
    record_act,
)
from zkdeployment.strategies.strategy import MemberKind
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, encode, pack, unpack
from zkdeployment.zookeeper.transactions import Check, Create, Delete, Operation, Set, commit_afresh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from zkdeployment.zookeeper.session import Session

HISTORY = f"{paths.PROMOTION}/history"
FLEETS = f"{paths.PROMOTION}/fleets"
WITHHELD = f"{paths.PROMOTION}/withheld"
REPORT = f"{paths.PROMOTION}/report"

#: The entries of the history that are kept.
HISTORY_LIMIT = 100

_NODES = (paths.PROMOTION, paths.PROMOTIONS, HISTORY, WITHHELD)


@dataclass(frozen=True, slots=True)
class PromotionSnapshot:
    """The records of promotions at one moment.

    ``state`` is the newest promotion, ``version`` that of its node; ``acts`` are the acts that the state does not
    contain yet, ``guard`` fails a transaction if there are more. ``last_sequence`` is the highest sequence of any
    promotion. ``standings`` are keyed by fleet, ``withheld`` is as in ``withholding``. ``history`` has the newest
    one first.
    """

    state: RolloutState | None = None
    version: int = 0
    acts: tuple[RolloutAct, ...] = ()
    guard: tuple[Check, ...] = ()
    last_sequence: int = 0
    standings: Mapping[str, FleetStanding] = field(default_factory=dict)
    withheld: Mapping[str, Act] = field(default_factory=dict)
    history: tuple[PromotionEntry, ...] = ()
    report: PromoterReport | None = None


# Reading


def read_promotion(
    session: Session,
    watch: Callable[[object], None] | None = None,
    watch_orders: Callable[[object], None] | None = None,
) -> PromotionSnapshot:
    """Return all records.

    ``watch``, which must not block, is called once when the promoter writes one of them, ``watch_orders`` when an
    operator does.
    """
    current = current_id(session.get(paths.PROMOTIONS, watch))
    state, node = None, None
    if current is not None:
        node = session.get(paths.rollout_path(current, paths.PROMOTIONS), watch)
        state = None if node is None else state_of(node.data)
    acts, guard = NewActs() if state is None else read_new_acts(session, state, watch_orders)
    history = read_history(session, watch)
    return PromotionSnapshot(
        state=state,
        version=0 if node is None else node.version,
        acts=acts,
        guard=guard,
        # An entry of the history may remain where the promotion is lost.
        last_sequence=max(
            map(_sequence, [*(session.children(paths.PROMOTIONS) or ()), *(entry.id for entry in history)]),
            default=0,
        ),
        standings=read_standings(session, watch),
        withheld=read_withheld(session, watch_orders),
        history=history,
        report=record_of(session.get(REPORT, watch), PromoterReport),
    )


def read_standings(session: Session, watch: Callable[[object], None] | None = None) -> dict[str, FleetStanding]:
    """Return the standings of all fleets by name, in the order of their document."""
    node = session.get(FLEETS, watch)
    return {} if node is None else standings_of(node)


def standings_of(node: Node) -> dict[str, FleetStanding]:
    """Return the standings in a node; empty if they cannot be read."""
    with contextlib.suppress(ValueError):
        listed: Any = unpack(node.data)
        found = [FleetStanding.from_json(each) for each in listed if isinstance(each, dict)]
        return {standing.name: standing for standing in found}
    return {}


def read_withheld(session: Session, watch: Callable[[object], None] | None = None) -> dict[str, Act]:
    """Return the acts by which operators withhold fleets, as ``withholding`` takes them."""
    names = sorted(session.children(WITHHELD, watch) or ())
    nodes = session.get_many(_withheld_path(unquote(name)) for name in names)
    return {
        unquote(name): Act.from_json(node.properties)
        for name, node in zip(names, nodes, strict=True)
        if node is not None
    }


def read_history(session: Session, watch: Callable[[object], None] | None = None) -> tuple[PromotionEntry, ...]:
    """Return the entries of the history, the newest first.

    ``watch`` is called once when an entry is added, or when the newest one changes.
    """
    names = newest_first(session.children(HISTORY, watch) or ())
    newest = [session.get(_history_path(name), watch) for name in names[:1]]
    nodes = [*newest, *session.get_many(map(_history_path, names[1:]))]
    return tuple(entry for node in nodes if (entry := record_of(node, PromotionEntry)) is not None)


def newest_first(promotions: Iterable[str]) -> list[str]:
    """Return the ids of promotions, the newest first."""
    return sorted(promotions, key=_order, reverse=True)


def record_of(node: Node | None, kind: Any) -> Any:
    """Return the record in the packed data of a node; ``None`` if it cannot be read."""
    if node is None:
        return None
    with contextlib.suppress(ValueError):
        return kind.from_json(unpack(node.data))
    return None


def state_of(data: bytes) -> RolloutState | None:
    """Return the newest promotion; one that cannot be read counts as none, and the promoter begins another."""
    try:
        return decode_state(data, MemberKind.FLEET)
    except ZkdeploymentError as error:
        get_logger().warning("promotion-unreadable", reason=str(error))
        return None


# Orders of operators


def direct(session: Session, directive: Directive, act: Act, group: str | None = None) -> RolloutState:
    """Record an operator's act for the promoter and return the newest promotion, before the act.

    Raises ``RefusedError`` for an act that the promotion does not allow.
    """

    def current() -> tuple[str, tuple[Operation, ...]]:
        promotion = current_id(session.get(paths.PROMOTIONS))
        if promotion is None:
            raise RefusedError(
                "there is no promotion: the promoter has not begun any; 'zkdeployment promote show' shows why"
            )
        return promotion, (recording(session, act),)

    return record_act(session, MemberKind.FLEET, RolloutAct(directive, act, group), current)


def withhold(session: Session, fleet: str, act: Act) -> None:
    """Promote nothing to a fleet until ``release``; raises ``RefusedError`` if it is withheld or unknown."""
    _ensure(session)

    def operations() -> Iterable[Operation]:
        known = read_standings(session)
        if known and fleet not in known:
            raise RefusedError(f"there is no fleet {fleet}; expected one of: {', '.join(sorted(known))}")
        branch = known[fleet].branch if fleet in known else ""
        earlier = withholding(read_withheld(session), fleet, branch)
        if earlier is not None:
            raise RefusedError(f"the fleet {fleet} is withheld already: {earlier}")
        return Create(_withheld_path(branch or fleet), encode(act.to_json())), recording(session, act)

    commit_afresh(session, operations, f"withhold {fleet}")


def release(session: Session, fleet: str, act: Act) -> None:
    """Let a fleet take part in promotions again; raises ``RefusedError`` if it is not withheld.

    A branch that no fleet follows any more is released by its own name.
    """

    def operations() -> Iterable[Operation]:
        known = read_standings(session)
        names = {fleet, known[fleet].branch if fleet in known else ""}
        held = sorted(names.intersection(read_withheld(session)))
        if not held:
            raise RefusedError(f"the fleet {fleet} is not withheld")
        return *(Delete(_withheld_path(name)) for name in held), recording(session, act)

    commit_afresh(session, operations, f"release {fleet}")


def _ensure(session: Session) -> None:
    for path in _NODES:
        session.ensure(path)


# The promoter


class PromoterStore:
    """The records of promotions as a promoter reads and writes them, through one session.

    ``changed`` (which must not block) is called when something changed that the promoter read. Writes raise
    ``LockLostError`` unless this promoter leads.
    """

    def __init__(self, session: Session, lead: FencedLead, changed: Callable[[], None]) -> None:
        self._session = session
        self._changed = changed
        self.lead = lead
        self._version = 0
        self._guard: tuple[Check, ...] = ()
        self._written: dict[str, bytes] = {}

    def forget(self) -> None:
        """Write standings and reports again, also unchanged ones: another promoter may have led in between."""
        self._written = {}

    def snapshot(self) -> PromotionSnapshot:
        """Return all records; the next order of an operator wakes the promoter."""
        _ensure(self._session)
        found = read_promotion(self._session, watch_orders=self._wake)
        self._version, self._guard = found.version, found.guard
        return found

    def begin(self, state: RolloutState, entry: PromotionEntry) -> None:
        """Make a promotion the newest one, with its entry in the history."""
        path, directory = self._paths(state)
        above = self._session.get(paths.PROMOTIONS)
        self.lead.commit(
            "begin",
            Create(path, encode_state(state)),
            Create(directory),
            Create(_history_path(state.id), pack(entry.to_json())),
            Set(paths.PROMOTIONS, encode({"current": state.id}), 0 if above is None else above.version),
        )

    def record(self, state: RolloutState, entry: PromotionEntry) -> None:
        """Replace the state of the newest promotion, and its entry in the history.

        Raises ``ConflictError`` if the state changed since ``snapshot`` read it, or if there are further acts.
        """
        path, _ = self._paths(state)
        history = self._replacing(_history_path(entry.id), pack(entry.to_json()))
        self.lead.commit("record", Set(path, encode_state(state), self._version), history, *self._guard)
        self._version += 1

    def write_entry(self, entry: PromotionEntry) -> None:
        """Replace the entry of a promotion in the history, or add it."""
        self._write("history", _history_path(entry.id), pack(entry.to_json()))

    def write_standings(self, standings: Iterable[FleetStanding]) -> None:
        """Replace the standings of all fleets, unless nothing changed."""
        self._write("fleets", FLEETS, pack([standing.to_json() for standing in standings]))

    def write_report(self, report: PromoterReport) -> None:
        """Replace the report of the promoter."""
        self._write("report", REPORT, pack(report.to_json()))

    def tidy(self, current: str) -> None:
        """Remove the records of all promotions but the current one, and the oldest entries of the history."""
        for name in self._session.children(paths.PROMOTIONS) or ():
            if name != current:
                self.lead.commit_in_batches("tidy", self._removals(name))
        entries = sorted(self._session.children(HISTORY) or (), key=_order, reverse=True)
        self.lead.commit_in_batches("tidy", (Delete(_history_path(name)) for name in entries[HISTORY_LIMIT:]))

    def _removals(self, name: str) -> Iterator[Operation]:
        directory = paths.acts_path(name, paths.PROMOTIONS)
        acts = self._session.children(directory)
        if acts is not None:
            yield from (Delete(f"{directory}/{act}") for act in acts)
            yield Delete(directory)
        yield Delete(paths.rollout_path(name, paths.PROMOTIONS))

    def _write(self, place: str, path: str, data: bytes) -> None:
        """Replace or create a node, unless this promoter wrote the same data to it."""
        if self._written.get(path) == data:
            return
        self.lead.commit(place, self._replacing(path, data))
        self._written[path] = data

    def _replacing(self, path: str, data: bytes) -> Operation:
        node = self._session.get(path)
        return Create(path, data) if node is None else Set(path, data, node.version)

    def _paths(self, state: RolloutState) -> tuple[str, str]:
        return paths.rollout_path(state.id, paths.PROMOTIONS), paths.acts_path(state.id, paths.PROMOTIONS)

    def _wake(self, _event: object) -> None:
        self._changed()


def _withheld_path(branch: str) -> str:
    return f"{WITHHELD}/{quote(branch, safe='')}"


def _history_path(promotion: str) -> str:
    return f"{HISTORY}/{promotion}"


def _order(promotion: str) -> tuple[int, int]:
    """Return the sequence and the attempt in the id of a promotion."""
    sequence, _, attempt = promotion.partition("-")
    return (int(sequence), int(attempt)) if sequence.isdecimal() and attempt.isdecimal() else (0, 0)


def _sequence(promotion: str) -> int:
    return _order(promotion)[0]
