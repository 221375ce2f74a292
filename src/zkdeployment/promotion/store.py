"""The records of promotions in the home ensemble: what the promoter writes, and what operators read and order.

Every write of a promoter is a transaction of the leader. The state of the newest promotion is encoded like
that of a rollout. Each promotion has an entry in the history, which keeps the last hundred.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from zkdeployment.base.act import Act
from zkdeployment.base.errors import RefusedError, ZkdeploymentError
from zkdeployment.base.log import get_logger
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.store.audit import recording
from zkdeployment.promotion.records import (
    Choice,
    FleetOrders,
    FleetStanding,
    MainCommits,
    Pin,
    PromoterReport,
    PromotionEntry,
    PromotionRecords,
)
from zkdeployment.promotion.rules import choice_hazards, pinned_revision
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
PINS = f"{paths.PROMOTION}/pins"
REPORT = f"{paths.PROMOTION}/report"
COMMITS = f"{paths.PROMOTION}/commits"
CHOICE = f"{paths.PROMOTION}/choice"

#: The entries of the history that are kept.
HISTORY_LIMIT = 100

#: The nodes of the orders of operators. Each order gives its node a new version.
_ORDERS = (WITHHELD, PINS, CHOICE)

_NODES = (paths.PROMOTION, paths.PROMOTIONS, HISTORY, *_ORDERS)


@dataclass(frozen=True, slots=True)
class PromotionSnapshot(PromotionRecords):
    """The records of promotions as a promoter needs them.

    ``version`` is that of the node of the newest promotion; ``acts`` are the acts that its state does not contain
    yet, ``guard`` fails a transaction if there are more acts or orders. ``last_sequence`` is the highest sequence
    of any promotion.
    """

    version: int = 0
    acts: tuple[RolloutAct, ...] = ()
    guard: tuple[Check, ...] = ()
    last_sequence: int = 0


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
    # The versions are read before the orders: an order that arrives in between makes the guard fail.
    above = zip(_ORDERS, session.get_many(_ORDERS), strict=True)
    orders = tuple(Check(path, each.version) for path, each in above if each is not None)
    acts, guard = NewActs() if state is None else read_new_acts(session, state, watch_orders)
    history = read_history(session, watch)
    return PromotionSnapshot(
        state=state,
        version=0 if node is None else node.version,
        acts=acts,
        guard=(*guard, *orders),
        # An entry of the history may remain where the promotion is lost.
        last_sequence=max(
            map(_sequence, [*(session.children(paths.PROMOTIONS) or ()), *(entry.id for entry in history)]),
            default=0,
        ),
        standings=read_standings(session, watch),
        orders=read_orders(session, watch_orders),
        history=history,
        report=record_of(session.get(REPORT, watch), PromoterReport),
        choice=choice_of(session.get(CHOICE, watch_orders)),
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


def read_orders(session: Session, watch: Callable[[object], None] | None = None) -> FleetOrders:
    """Return the orders of operators about fleets."""
    return FleetOrders(
        {branch: Act.from_json(properties) for branch, properties in _ordered(session, WITHHELD, watch)},
        {branch: Pin.from_json(properties) for branch, properties in _ordered(session, PINS, watch)},
    )


def _ordered(session: Session, place: str, watch: Callable[[object], None] | None) -> Iterator[tuple[str, Any]]:
    """Yield the branches below a node, each with its properties."""
    names = sorted(session.children(place, watch) or ())
    nodes = session.get_many(f"{place}/{name}" for name in names)
    return ((unquote(name), node.properties) for name, node in zip(names, nodes, strict=True) if node is not None)


def choice_of(node: Node | None) -> Choice | None:
    """Return the commit that an operator chose; ``None`` if promotions run from the tip of the main branch."""
    return Choice.from_json(node.properties) if node is not None and node.data else None


def read_commits(session: Session) -> MainCommits:
    """Return the last commits of the main branch, as the promoter read them."""
    return record_of(session.get(COMMITS), MainCommits) or MainCommits()


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
        branch = known_standing(known, fleet).branch if known else ""
        earlier = read_orders(session).withholding(fleet, branch)
        if earlier is not None:
            raise RefusedError(f"the fleet {fleet} is withheld already: {earlier}")
        path = _order_path(WITHHELD, branch or fleet)
        return Create(path, encode(act.to_json())), Set(WITHHELD, b""), recording(session, act)

    commit_afresh(session, operations, f"withhold {fleet}")


def release(session: Session, fleet: str, act: Act) -> None:
    """Let a fleet take part in promotions again; raises ``RefusedError`` if it is not withheld.

    A branch that no fleet follows any more is released by its own name.
    """

    def operations() -> Iterable[Operation]:
        known = read_standings(session)
        names = {fleet, known[fleet].branch if fleet in known else ""}
        held = sorted(names.intersection(read_orders(session).withheld))
        if not held:
            raise RefusedError(f"the fleet {fleet} is not withheld")
        return *(Delete(_order_path(WITHHELD, name)) for name in held), recording(session, act)

    commit_afresh(session, operations, f"release {fleet}")


def pin(session: Session, fleet: str, act: Act, *, revision: str = "", until: float | None = None) -> Pin:
    """Promote nothing to a fleet beyond a revision, and return the pin, which replaces the present one.

    Without a ``revision``, that is the tip of the fleet's branch. Raises ``RefusedError`` if the fleet is unknown,
    and what ``pinned_revision`` raises.
    """
    _ensure(session)
    made: list[Pin] = []

    def operations() -> Iterable[Operation]:
        standing = known_standing(read_standings(session), fleet)
        made[:] = [Pin(act, pinned_revision(standing, read_commits(session), revision), until)]
        path = _order_path(PINS, standing.branch or fleet)
        return _replacing(session, path, encode(made[0].to_json())), Set(PINS, b""), recording(session, act)

    commit_afresh(session, operations, f"pin {fleet}")
    return made[0]


def choose(session: Session, revision: str, act: Act, *, confirmed: bool = False) -> Choice:
    """Let promotions run from a commit of the main branch until ``follow``, and return the choice.

    Raises ``RefusedError`` if the main branch does not contain the commit, if it is chosen already, and for
    hazards unless they are ``confirmed``.
    """
    _ensure(session)
    made: list[Choice] = []

    def operations() -> Iterable[Operation]:
        commits, before = read_commits(session), session.get(CHOICE)
        found, present = commits.find(revision), choice_of(before)
        if present is not None and present.revision == found:
            raise RefusedError(f"{present} already")
        hazards = choice_hazards(found, commits, read_standings(session).values(), read_history(session))
        if hazards and not confirmed:
            raise RefusedError(
                f"{'; '.join(hazards)}; to promote the commit nevertheless, confirm that: --confirm"
            )
        made[:] = [Choice(act, found, commits.commits[0].commit.id)]
        version = 0 if before is None else before.version
        return Set(CHOICE, encode(made[0].to_json()), version), recording(session, act)

    commit_afresh(session, operations, f"run promotions from {revision}")
    return made[0]


def follow(session: Session, act: Act) -> None:
    """Let promotions run from the tip of the main branch; raises ``RefusedError`` if they do already."""

    def operations() -> Iterable[Operation]:
        before = session.get(CHOICE)
        if before is None or choice_of(before) is None:
            raise RefusedError("promotions run from the tip of the main branch already: no other commit is chosen")
        return Set(CHOICE, b"", before.version), recording(session, act)

    commit_afresh(session, operations, "follow the main branch")


def unpin(session: Session, fleet: str, act: Act) -> None:
    """End the pin of a fleet; raises ``RefusedError`` if the fleet is not pinned."""

    def operations() -> Iterable[Operation]:
        known = read_standings(session)
        names = {fleet, known[fleet].branch if fleet in known else ""}
        pins = read_orders(session).pins
        pinned = [name for name in sorted(names.intersection(pins)) if pins[name].is_in_force(act.time)]
        if not pinned:
            raise RefusedError(f"the fleet {fleet} is not pinned")
        return *(Delete(_order_path(PINS, name)) for name in pinned), recording(session, act)

    commit_afresh(session, operations, f"unpin {fleet}")


def known_standing(standings: Mapping[str, FleetStanding], fleet: str) -> FleetStanding:
    """Return the standing of a fleet; raises ``RefusedError`` if there is no such fleet."""
    if fleet not in standings:
        names = ", ".join(sorted(standings)) or "none, because the promoter has not read the fleets yet"
        raise RefusedError(f"there is no fleet {fleet}; expected one of: {names}")
    return standings[fleet]


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

    def confirm(self) -> None:
        """Raise ``LockLostError`` if this promoter does not lead any more.

        Raises ``ConflictError`` if there is an act or an order about a fleet that ``snapshot`` did not read.
        """
        self.lead.commit("lead", *self._guard)

    def end_pins(self, now: float) -> None:
        """Remove the pins that have ended by themselves, so that all who follow the records see that."""
        for name in self._session.children(PINS) or ():
            node = self._session.get(f"{PINS}/{name}")
            if node is not None and not Pin.from_json(node.properties).is_in_force(now):
                self.lead.commit("pins", Delete(f"{PINS}/{name}", node.version))
                get_logger().info("pin-ended", branch=unquote(name))

    def begin(self, state: RolloutState, entry: PromotionEntry, *, ends_choice: bool = False) -> None:
        """Make a promotion the newest one, with its entry in the history; it may end the choice of another commit.

        Raises ``ConflictError`` if there is an act or an order that ``snapshot`` did not read.
        """
        path, directory = self._paths(state)
        above = self._session.get(paths.PROMOTIONS)
        self.lead.commit(
            "begin",
            Create(path, encode_state(state)),
            Create(directory),
            Create(_history_path(state.id), pack(entry.to_json())),
            Set(paths.PROMOTIONS, encode({"current": state.id}), 0 if above is None else above.version),
            *self._guard,
            *((Set(CHOICE, b""),) if ends_choice else ()),
        )

    def record(self, state: RolloutState, entry: PromotionEntry) -> None:
        """Replace the state of the newest promotion, and its entry in the history.

        Raises ``ConflictError`` if the state changed since ``snapshot`` read it, or if there are further acts.
        """
        path, _ = self._paths(state)
        history = _replacing(self._session, _history_path(entry.id), pack(entry.to_json()))
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

    def write_commits(self, commits: MainCommits) -> None:
        """Replace the last commits of the main branch, unless nothing changed."""
        self._write("commits", COMMITS, pack(commits.to_json()))

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
        self.lead.commit(place, _replacing(self._session, path, data))
        self._written[path] = data

    def _paths(self, state: RolloutState) -> tuple[str, str]:
        return paths.rollout_path(state.id, paths.PROMOTIONS), paths.acts_path(state.id, paths.PROMOTIONS)

    def _wake(self, _event: object) -> None:
        self._changed()


def _replacing(session: Session, path: str, data: bytes) -> Operation:
    node = session.get(path)
    return Create(path, data) if node is None else Set(path, data, node.version)


def _order_path(place: str, branch: str) -> str:
    return f"{place}/{quote(branch, safe='')}"


def _history_path(promotion: str) -> str:
    return f"{HISTORY}/{promotion}"


def _order(promotion: str) -> tuple[int, int]:
    """Return the sequence and the attempt in the id of a promotion."""
    sequence, _, attempt = promotion.partition("-")
    return (int(sequence), int(attempt)) if sequence.isdecimal() and attempt.isdecimal() else (0, 0)


def _sequence(promotion: str) -> int:
    return _order(promotion)[0]
