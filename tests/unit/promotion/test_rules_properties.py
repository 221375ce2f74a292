"""The invariants of every promotion, whatever fleets, people, operators and killed promoters do."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from support.fleets.promoted import SimulatedFleets, commit, number_of
from support.strategies import NAMES, any_strategies, paces
from zkdeployment.promotion.documents import Promotion
from zkdeployment.promotion.records import FleetState
from zkdeployment.promotion.rules import (
    MainBranch,
    next_promotion,
    rollback_strategy,
    wanted_dry_runs,
    wanted_moves,
)
from zkdeployment.strategies.progress import supersede
from zkdeployment.strategies.state import Directive, state_from_json, state_to_json
from zkdeployment.strategies.state_machine import GroupVerdict
from zkdeployment.strategies.strategy import MemberKind

fleet_names = st.sampled_from(NAMES)
events = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from([1, 20, 50, 400])),
    st.tuples(st.just("state"), st.tuples(fleet_names, st.sampled_from([None, *FleetState]))),
    st.tuples(st.just("publish"), fleet_names),
    st.tuples(st.just("refuse"), st.tuples(fleet_names, st.sampled_from(["", "lint"]))),
    st.tuples(st.just("own commit"), fleet_names),
    st.tuples(st.just("reset"), st.tuples(fleet_names, st.integers(0, 4))),
    st.tuples(st.just("push refused"), fleet_names),
    st.tuples(st.just("withhold"), fleet_names),
    st.tuples(st.just("release"), fleet_names),
    st.tuples(st.just("halt"), st.sampled_from(["", "frozen"])),
    st.tuples(st.just("act"), st.tuples(st.sampled_from(Directive), st.sampled_from(["g0", "g1"]))),
    st.tuples(st.just("commit"), st.booleans()),
    st.tuples(st.just("kill"), st.just(None)),
)


class World:
    """All fleets, the main branch, and the recorded promotion; ``rollback`` is the last commit that is one."""

    def __init__(self, strategy) -> None:
        self.fleets = SimulatedFleets.of(*NAMES)
        self.governing = Promotion(replace(strategy, member_kind=MemberKind.FLEET))
        self.tip = 1
        self.rollback = None
        self.state = self.fleets.start(self.governing)

    @property
    def main(self):
        promoted = number_of(str(self.state.revision))
        newer = self.rollback is not None and self.rollback > promoted
        return MainBranch(commit(self.tip), rollback=commit(self.rollback) if newer else None)

    def cycle(self, *, killed):
        """Run a cycle of a promoter, which is perhaps killed between its record and its push."""
        fleets, state = self.fleets, self.state
        following = next_promotion(state, self.main, fleets.acts)
        if following is not None:
            revision = number_of(following.revision)
            if state.ended is None:
                self.state = supersede(state, fleets.now)
            bad = {name for name, fleet in fleets.fleets.items() if fleet.tip == revision - 1 and not fleet.own}
            is_rollback = revision == self.rollback
            strategy = rollback_strategy(self.governing.strategy, bad if is_rollback else ())
            fleets.acts.clear()
            fleets.refused.clear()
            fresh = fleets.start(self.governing, revision, strategy=strategy, sequence=following.sequence)
            self.state = replace(fresh, attempt=following.attempt)
            return
        after = fleets.decide(state, self.governing)
        self.check(state, after)
        self.state = after
        if not killed:
            self.push()

    def push(self):
        """Move the branches that the recorded state demands, and check that they may move."""
        fleets, state = self.fleets, self.state
        revision = number_of(str(state.revision))
        moves = wanted_moves(state, fleets.facts(revision))
        groups = {group.name: group for group in state.rollout.strategy.groups}
        for name, move in moves.items():
            fleet = fleets.fleets[name]
            assert move.old == (None if fleet.tip is None else commit(fleet.tip))
            assert fleet.tip is None or fleet.tip < number_of(move.new)
            assert not fleet.own
            assert name not in fleets.refused
            own = [group for group in groups if name in state.rollout.members[group]]
            assert own
            for before in {parent for group in self.entered(name) for parent in groups[group].depends_on}:
                assert state.rollout.progress[before].verdict is GroupVerdict.SUCCESS
        fleets.move(state)

    def entered(self, name):
        """Return the groups with which a fleet may move its branch now."""
        state = self.state
        if state.active_phase is not None and name in state.active_phase.granted:
            return [state.active_phase.task.group]
        return [group for group, members in state.rollout.members.items() if name in members]

    def check(self, before, after):
        """Check what must hold of each decision."""
        fleets = self.fleets
        revision = number_of(str(after.revision))
        kept = state_from_json(json.loads(json.dumps(state_to_json(after))))
        assert kept == after
        facts = fleets.facts(revision)
        assert wanted_moves(kept, facts) == wanted_moves(after, facts)
        assert (
            wanted_dry_runs(kept, facts)
            .keys()
            .isdisjoint(name for name, each in facts.readings.items() if each.has)
        )
        if fleets.halt or after.paused is not None:
            assert not wanted_moves(after, facts)  # also branches that were to move before
        assert fleets.withheld.keys().isdisjoint(wanted_moves(after, facts))
        failed = {name for name, each in after.rollout.progress.items() if each.verdict is GroupVerdict.FAILED}
        active = after.active_phase
        if active is not None:
            parents = after.rollout.strategy.group(active.task.group).depends_on
            assert failed.isdisjoint(parents) or not active.granted.keys() - (
                set() if before.active_phase is None else before.active_phase.granted.keys()
            )


def happen(world, event):
    """Let something happen outside of the promoter."""
    fleets, (what, value) = world.fleets, event
    match what:
        case "wait":
            fleets.now += value
        case "halt":
            fleets.halt = value
        case "act":
            fleets.act(*value)
        case "commit":
            world.tip += 1
            if value:
                world.rollback = world.tip
                fleets.rollbacks.add(world.tip)
        case "withhold":
            fleets.withhold(value)
        case "release":
            fleets.withheld.pop(value, None)
        case "push refused":
            fleets.refused[value] = "no"
        case _:
            happen_to_fleet(world, what, value)


def happen_to_fleet(world, what, value):
    """Let something happen to one fleet."""
    name, argument = value if isinstance(value, tuple) else (value, None)
    fleet = None if name is None else world.fleets.fleets[name]
    match what:
        case "state":
            fleet.state = argument
        case "publish":
            fleet.published = fleet.tip
        case "refuse":
            fleet.refusal = argument
        case "own commit":
            fleet.own = True
        case "reset":
            fleet.own, fleet.tip = False, min(argument, world.tip)


@given(any_strategies(pace=paces, requires=True), st.lists(events, max_size=40))
def test_any_promotion_keeps_the_rules_at_any_moment(strategy, happening):
    world = World(strategy)
    for event in happening:
        world.cycle(killed=event[0] == "kill")
        happen(world, event)
    world.cycle(killed=False)


@given(any_strategies(), st.lists(st.booleans(), max_size=30))
def test_promoters_that_are_killed_before_their_pushes_reach_the_same_result(strategy, kills):
    governing = Promotion(replace(strategy, member_kind=MemberKind.FLEET))
    undisturbed, disturbed = SimulatedFleets.of(*NAMES), SimulatedFleets.of(*NAMES)
    expected = undisturbed.run(undisturbed.start(governing))
    state = disturbed.start(governing)
    for killed in kills:
        state = disturbed.decide(state)
        if not killed:
            disturbed.move(state)
    state = disturbed.run(state)
    assert state.rollout == expected.rollout
    assert sorted(disturbed.moved) == sorted(undisturbed.moved)
    assert len(disturbed.moved) == len(set(disturbed.moved))
