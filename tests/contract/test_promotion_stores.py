"""The contract of the records of promotions, for ZooKeeper and for the home ensemble of the simulation."""

from contextlib import ExitStack
from dataclasses import replace

import pytest

from simulation.promotion_servers import HomeEnsemble, MemoryLead, MemoryStore
from support.fleets.promoted import NOON, SimulatedFleets, commit, promotion
from support.waiting import UNLIMITED
from zkdeployment.base.act import Act
from zkdeployment.base.errors import ConflictError, LockLostError
from zkdeployment.promotion import store
from zkdeployment.promotion.records import (
    Choice,
    FleetOrders,
    FleetStanding,
    FleetState,
    MainCommit,
    MainCommits,
    Pin,
    PromoterReport,
    PromotionEntry,
)
from zkdeployment.promotion.store import PromoterStore
from zkdeployment.publishing.records import CommitSummary
from zkdeployment.strategies.progress import apply_acts, supersede
from zkdeployment.strategies.state import Directive
from zkdeployment.strategies.store.records import FencedLead
from zkdeployment.strategies.strategy import Group, MemberKind
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import contenders
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Delete

ACT = Act("op", "pause", "why", NOON)


class RealArena:
    """Promoters with sessions of their own at a real ZooKeeper."""

    def __init__(self, zookeeper, stack) -> None:
        self._zookeeper = zookeeper
        self._stack = stack
        self._people = stack.enter_context(Session(zookeeper))

    def promoter(self, reach=lambda _place: None):
        session = self._stack.enter_context(Session(self._zookeeper))
        return PromoterStore(session, FencedLead(session, MemberKind.FLEET, reach), lambda: None)

    def expire(self, promoter):
        (own,) = [each for each in contenders(self._people, paths.PROMOTERS) if each.node == promoter.lead.node]
        self._people.commit(Delete(own.node))

    def direct(self, directive):
        store.direct(self._people, directive, ACT)

    def withhold(self, fleet, act):
        store.withhold(self._people, fleet, act)

    def pin(self, fleet, pin):
        store.pin(self._people, fleet, pin.act, until=pin.until)

    def choose(self, choice):
        store.choose(self._people, choice.revision, choice.act)


class SimulatedArena:
    """The home ensemble of the simulation."""

    def __init__(self) -> None:
        self._home = HomeEnsemble()

    def promoter(self, reach=lambda _place: None):
        return MemoryStore(self._home, MemoryLead(self._home, reach))

    def expire(self, promoter):
        assert self._home.leader is promoter.lead
        self._home.leader = None

    def direct(self, directive):
        self._home.direct(directive, ACT)

    def withhold(self, fleet, act):
        self._home.withhold(fleet, act)

    def pin(self, fleet, pin):
        self._home.pin(fleet, pin)

    def choose(self, choice):
        self._home.choose(choice)


@pytest.fixture(params=["real", "simulated"])
def arena(request):
    if request.param == "simulated":
        yield SimulatedArena()
    else:
        with ExitStack() as stack:
            yield RealArena(request.getfixturevalue("zookeeper"), stack)


def leading(arena, reach=lambda _place: None):
    """Return a promoter that leads and has read the records."""
    found = arena.promoter(reach)
    assert found.lead.acquire(UNLIMITED)
    found.snapshot()
    return found


def begun(number=1):
    """Return the state of a promotion and its entry in the history."""
    state = SimulatedFleets.of("a", "b").start(promotion(Group("all", critical=True)), number, sequence=number)
    return state, PromotionEntry(state.id, commit(number), f"change {number}", "dev", NOON, begun=state.begun)


def test_one_promoter_leads_until_it_resigns_or_its_session_expires(arena):
    first, second = arena.promoter(), arena.promoter()
    assert first.lead.node is None
    assert first.lead.acquire(UNLIMITED)
    assert first.lead.acquire(UNLIMITED)
    assert not second.lead.acquire(0.1)
    assert first.lead.node is not None
    assert second.lead.node is None
    first.lead.release()
    assert second.lead.acquire(UNLIMITED)
    assert first.lead.node is None
    arena.expire(second)
    assert first.lead.acquire(UNLIMITED)


def test_without_the_lead_nothing_is_written(arena):
    first, (state, entry) = leading(arena), begun()
    first.begin(state, entry)
    first.snapshot()
    arena.expire(first)
    second = leading(arena)
    writes = (
        first.lead.confirm,
        lambda: first.begin(*begun(2)),
        lambda: first.record(supersede(state, NOON), entry),
        lambda: first.write_entry(entry),
        lambda: first.write_standings([FleetStanding("a")]),
        lambda: first.write_report(PromoterReport(NOON)),
    )
    for write in writes:
        with pytest.raises(LockLostError):
            write()
    found = second.snapshot()
    assert (found.state, found.history, found.standings, found.report) == (state, (entry,), {}, None)


def test_a_promoter_that_loses_the_lead_at_a_write_does_not_write(arena):
    def lose(place):
        if place == "before:begin":
            arena.expire(first)

    first = leading(arena, lose)
    with pytest.raises(LockLostError):
        first.begin(*begun())
    assert leading(arena).snapshot().state is None


def test_a_promotion_begins_with_its_entry_and_is_replaced_by_the_next_one(arena):
    promoter, (state, entry) = leading(arena), begun()
    assert (promoter.snapshot().state, promoter.snapshot().last_sequence) == (None, 0)
    promoter.begin(state, entry)
    found = promoter.snapshot()
    assert (found.state, found.acts, found.last_sequence, found.history) == (state, (), 1, (entry,))
    newer, newer_entry = begun(2)
    promoter.begin(newer, newer_entry)
    found = promoter.snapshot()
    assert (found.state, found.last_sequence, found.history) == (newer, 2, (newer_entry, entry))


def test_a_promotion_is_recorded_as_often_as_it_changes(arena):
    promoter, (state, entry) = leading(arena), begun()
    promoter.begin(state, entry)
    promoter.snapshot()
    promoter.record(replace(state, waiting="a freeze"), entry)
    promoter.record(supersede(state, NOON), replace(entry, ended=NOON, result="superseded"))
    found = promoter.snapshot()
    assert found.state == supersede(state, NOON)
    assert found.history == (replace(entry, ended=NOON, result="superseded"),)


def test_an_act_comes_before_the_next_record(arena):
    promoter, (state, entry) = leading(arena), begun()
    promoter.begin(state, entry)
    promoter.snapshot()
    arena.direct(Directive.PAUSE)
    with pytest.raises(ConflictError):
        promoter.record(supersede(state, NOON), entry)
    found = promoter.snapshot()
    assert [(act.directive, act.act, act.number) for act in found.acts] == [(Directive.PAUSE, ACT, 0)]
    paused = apply_acts(state, found.acts, NOON)
    promoter.record(paused, entry)
    assert (promoter.snapshot().state, promoter.snapshot().acts) == (paused, ())
    arena.direct(Directive.RESUME)
    assert [act.number for act in promoter.snapshot().acts] == [1]


def test_an_act_comes_before_the_next_promotion_and_ends_with_its_own(arena):
    promoter = leading(arena)
    promoter.begin(*begun())
    promoter.snapshot()
    arena.direct(Directive.PAUSE)
    with pytest.raises(ConflictError):
        promoter.begin(*begun(2))
    promoter.snapshot()
    promoter.begin(*begun(2))
    assert promoter.snapshot().acts == ()


def test_a_record_that_another_leader_replaced_is_not_overwritten(arena):
    first, (state, entry) = leading(arena), begun()
    first.begin(state, entry)
    first.snapshot()
    arena.expire(first)
    second = leading(arena)
    second.record(replace(state, waiting="a freeze"), entry)
    second.lead.release()
    assert first.lead.acquire(UNLIMITED)
    with pytest.raises(ConflictError):
        first.record(supersede(state, NOON), entry)
    assert first.snapshot().state == replace(state, waiting="a freeze")


def test_other_records_are_replaced_as_a_whole(arena):
    promoter, (state, entry) = leading(arena), begun()
    promoter.begin(state, entry)
    reached = replace(entry, reached={"a": NOON})
    promoter.write_entry(reached)
    standings = [FleetStanding("b", FleetState.CONVERGED, commit(1)), FleetStanding("a")]
    promoter.write_standings([FleetStanding("c")])
    promoter.write_standings(standings)
    promoter.write_report(PromoterReport(NOON, commit(1), "no documents"))
    arena.withhold("b", ACT)
    found = promoter.snapshot()
    assert (found.history, found.report) == ((reached,), PromoterReport(NOON, commit(1), "no documents"))
    assert [*found.standings.values()] == standings
    assert found.orders == FleetOrders({"b": ACT})


def test_an_order_comes_before_the_next_record_and_the_next_push(arena):
    promoter, (state, entry) = leading(arena), begun()
    promoter.begin(state, entry)
    promoter.write_standings([FleetStanding("a", tip=commit(1)), FleetStanding("b", tip=commit(1))])
    promoter.snapshot()
    pin = Pin(ACT, commit(1), NOON)
    for order in (lambda: arena.withhold("a", ACT), lambda: arena.pin("b", pin), lambda: arena.pin("b", pin)):
        promoter.confirm()
        order()
        for write in (promoter.confirm, lambda: promoter.record(supersede(state, NOON), entry)):
            with pytest.raises(ConflictError):
                write()
        promoter.snapshot()
    assert promoter.snapshot().orders == FleetOrders({"a": ACT}, {"b": pin})


def test_a_choice_comes_before_the_next_promotion_which_may_end_it(arena):
    promoter = leading(arena)
    promoter.write_commits(MainCommits((MainCommit(CommitSummary(commit(1), "dev", "change", NOON)),)))
    arena.choose(Choice(ACT, commit(1), commit(1)))
    with pytest.raises(ConflictError):
        promoter.begin(*begun())
    assert promoter.snapshot().choice == Choice(ACT, commit(1), commit(1))
    promoter.begin(*begun())
    assert promoter.snapshot().choice is not None
    promoter.begin(*begun(2), ends_choice=True)
    assert promoter.snapshot().choice is None


def test_a_pin_is_removed_after_its_end(arena):
    places = []
    promoter = leading(arena, places.append)
    promoter.write_standings([FleetStanding("a", tip=commit(1)), FleetStanding("b", tip=commit(1))])
    arena.pin("a", Pin(ACT, commit(1), NOON))
    arena.pin("b", Pin(ACT, commit(1)))
    promoter.end_pins(NOON - 1)
    assert promoter.snapshot().orders.pins.keys() == {"a", "b"}
    promoter.end_pins(NOON)
    assert promoter.snapshot().orders.pins == {"b": Pin(ACT, commit(1))}
    assert places[-2:] == ["before:pins", "after:pins"]


def test_each_write_is_announced_unless_it_would_change_nothing(arena):
    places = []
    promoter, (state, entry) = leading(arena, places.append), begun()
    promoter.begin(state, entry)
    promoter.snapshot()
    promoter.lead.confirm()
    promoter.record(supersede(state, NOON), entry)
    for _ in range(2):
        promoter.write_standings([FleetStanding("a")])
        promoter.write_report(PromoterReport(NOON))
        promoter.write_commits(MainCommits())
    promoter.write_entry(replace(entry, ended=NOON))
    expected = ("begin", "lead", "record", "fleets", "report", "commits", "history")
    assert places == [f"{when}:{place}" for place in expected for when in ("before", "after")]


def test_old_promotions_are_removed_and_the_history_is_bounded(arena, monkeypatch):
    monkeypatch.setattr(store, "HISTORY_LIMIT", 2)
    promoter = leading(arena)
    for number in range(1, 4):
        state, entry = begun(number)
        promoter.begin(state, entry)
    promoter.tidy(state.id)
    found = promoter.snapshot()
    assert (found.state, found.last_sequence) == (state, 3)
    assert [entry.id for entry in found.history] == ["3-1", "2-1"]
