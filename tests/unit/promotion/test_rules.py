"""The decisions of a promoter, on literal facts."""

import json
from dataclasses import replace

import pytest

from support.fleets.promoted import NOON, SimulatedFleet, SimulatedFleets, commit, promotion
from zkdeployment.base.act import Act
from zkdeployment.promotion.documents import Fleet, Freeze
from zkdeployment.promotion.records import (
    BranchMove,
    BranchTip,
    DryRun,
    FleetReport,
    FleetStanding,
    FleetState,
    PromotionEntry,
)
from zkdeployment.promotion.rules import (
    FleetFacts,
    MainBranch,
    NextPromotion,
    PromotionFacts,
    halt_reason,
    history_entry,
    next_promotion,
    pause_reason,
    rollback_group_name,
    rollback_strategy,
    standing,
    wanted_moves,
)
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.progress import end, supersede
from zkdeployment.strategies.state import Directive, Ending, RolloutAct, state_from_json, state_to_json
from zkdeployment.strategies.state_machine import GroupVerdict, HostProgress
from zkdeployment.strategies.strategy import Criteria, Group, Pace, ParallelLimit, Selector, Window
from zkdeployment.strategies.views import RolloutProgressState, directive_objection, rollout_state

ALL = Criteria(percent_successful=100)
CANARY = Group("canary", critical=True, selectors=(Selector(tags=frozenset({"canary"})),), criteria=ALL)
REST_FIRST = Group("first", critical=True, selectors=(Selector(names=frozenset({"us", "asia"})),), criteria=ALL)
CANARY_LAST = replace(CANARY, name="last", depends_on=("first",))
REST = Group("rest", critical=True, depends_on=("canary",), criteria=ALL)
TWO = promotion(CANARY, REST)


def fleets():
    return SimulatedFleets.of("us", "asia", eu="canary")


def ended(state, ending=Ending.COMPLETED):
    return end(state, ending, NOON)


def act(directive=Directive.RESUME, number=0):
    return RolloutAct(directive, Act("op", directive.value, "why", NOON), None, number)


class TestWhatIsPromotedNext:
    def test_the_first_promotion_takes_the_tip_of_main(self):
        assert next_promotion(None, MainBranch(commit(4))) == NextPromotion(commit(4), 1, 1)

    def test_a_lost_state_does_not_reuse_a_sequence(self):
        assert next_promotion(None, MainBranch(commit(4)), last_sequence=7) == NextPromotion(commit(4), 8, 1)

    def test_newer_commits_wait_while_a_promotion_is_under_way(self):
        state = fleets().start(TWO)
        assert next_promotion(state, MainBranch(commit(9))) is None

    @pytest.mark.parametrize("ending", Ending)
    def test_a_newer_commit_begins_a_new_promotion_after_any_end(self, ending):
        state = ended(fleets().start(TWO), ending)
        assert next_promotion(state, MainBranch(commit(9))) == NextPromotion(commit(9), 2, 1)

    def test_nothing_begins_twice_for_one_revision(self):
        state = fleets().run(fleets().start(TWO))
        assert next_promotion(ended(state), MainBranch(commit(1)), [act()]) is None

    def test_a_rollback_supersedes_the_promotion_under_way(self):
        state = fleets().start(TWO)
        main = MainBranch(commit(9), rollback=commit(8))
        assert next_promotion(state, main) == NextPromotion(commit(8), 2, 1)

    def test_a_rollback_does_not_supersede_itself(self):
        state = fleets().start(TWO, 8)
        assert next_promotion(state, MainBranch(commit(9), rollback=commit(8))) is None

    def test_a_main_branch_that_lost_the_revision_supersedes_the_promotion(self):
        state = fleets().start(TWO)
        assert next_promotion(state, MainBranch(commit(9), has_promoted=False)) == NextPromotion(commit(9), 2, 1)

    def test_a_failed_promotion_is_tried_again_only_after_its_resumption(self):
        state = ended(fleets().start(TWO), Ending.ABORTED)
        main = MainBranch(commit(1))
        assert next_promotion(state, main) is None
        assert next_promotion(state, main, [act()]) == NextPromotion(commit(1), 1, 2)
        assert next_promotion(state, main, [act(Directive.PAUSE)]) is None
        assert next_promotion(replace(state, last_act_number=0), main, [act()]) is None

    @pytest.mark.parametrize("moment", ["before its end", "after its end"])
    def test_a_pause_outlasts_the_end_of_its_promotion_until_an_operator_resumes_it(self, moment):
        simulated = fleets()
        state, main = simulated.start(TWO), MainBranch(commit(9))
        if moment == "before its end":
            for name in simulated.fleets:  # the branches have moved, so that the promotion ends during the pause
                simulated.fleets[name] = SimulatedFleet(1, 1)
            state = ended(replace(state, paused=Act("op", "promotion pause", "latency is up", NOON)))
        else:
            state = simulated.run(state)
            simulated.act(Directive.PAUSE)
        state = simulated.run(state)
        assert next_promotion(state, main, simulated.acts) is None
        assert pause_reason(state, main) == (
            f"promotions are paused by op: {state.paused.reason}; 'zkdeployment promote resume' ends that"
        )
        assert pause_reason(state, MainBranch(commit(1))) == ""
        rollback = MainBranch(commit(9), rollback=commit(8))
        assert next_promotion(state, rollback) == NextPromotion(commit(8), 2, 1)
        assert next_promotion(state, replace(main, has_promoted=False)) == NextPromotion(commit(9), 2, 1)
        assert directive_objection(state, Directive.RESUME) is None
        simulated.acts.append(act(number=len(simulated.acts)))
        state = simulated.run(state)
        assert (pause_reason(state, main), next_promotion(state, main)) == ("", NextPromotion(commit(9), 2, 1))

    def test_a_pause_that_the_state_does_not_contain_yet_holds_the_next_promotion(self):
        simulated, main = fleets(), MainBranch(commit(9))
        state = simulated.run(simulated.start(TWO))
        pause, resume = act(Directive.PAUSE), act(number=1)
        assert next_promotion(state, main, [pause]) is None
        assert next_promotion(state, main, [pause, resume]) == NextPromotion(commit(9), 2, 1)

    @pytest.mark.parametrize("ending", [Ending.ABORTED, Ending.SUPERSEDED])
    def test_the_pause_of_a_promotion_that_was_broken_off_ends_with_it(self, ending):
        paused = replace(fleets().start(TWO), paused=Act("op", "promotion pause", "why", NOON))
        state, main = ended(paused, ending), MainBranch(commit(9))
        assert (pause_reason(state, main), next_promotion(state, main)) == ("", NextPromotion(commit(9), 2, 1))

    def test_a_revision_that_returns_to_main_is_promoted_again(self):
        state = supersede(fleets().start(TWO), NOON)
        assert next_promotion(state, MainBranch(commit(1))) == NextPromotion(commit(1), 1, 2)

    def test_the_resumption_of_a_failed_promotion_is_no_mistake(self):
        state = ended(fleets().start(TWO), Ending.ABORTED)
        assert directive_objection(state, Directive.RESUME) is None
        assert directive_objection(state, Directive.PAUSE) == "the promotion 1-1 is over: aborted"
        assert directive_objection(fleets().start(TWO), Directive.RESUME) == "the promotion 1-1 is not paused"


class TestTheOrderOfGroups:
    def test_the_canary_has_the_revision_before_any_other_branch_moves(self):
        simulated = fleets()
        state = simulated.run(simulated.start(TWO))
        assert simulated.moved == [("eu", 1), ("asia", 1), ("us", 1)]
        assert rollout_state(state) is RolloutProgressState.SUCCESS

    def test_a_fleet_is_asked_before_its_branch_moves(self):
        simulated = fleets()
        simulated.fleets["eu"].refusal = "lint: unknown property"
        state = simulated.run(simulated.start(TWO))
        assert simulated.moved == []
        assert state.errors == {"eu": f"its syncer would refuse {'0' * 12}: lint: unknown property"}
        assert rollout_state(state) is RolloutProgressState.FAILED

    def test_a_dry_run_without_an_answer_is_waited_for(self):
        simulated = fleets()
        simulated.fleets["eu"].dry_run_problem = "the service is away"
        state = simulated.run(simulated.start(TWO))
        assert (simulated.moved, state.ended) == ([], None)
        simulated.fleets["eu"].dry_run_problem = ""
        assert simulated.run(state).ended is not None

    def test_max_parallel_limits_the_branches_that_move_at_once(self):
        simulated = SimulatedFleets.of("a", "b", "c")
        one = promotion(Group("all", critical=True, pace=Pace(max_parallel=ParallelLimit(1))))
        state = simulated.start(one)
        for _ in range(5):
            state = simulated.decide(state)
        simulated.move(state)
        assert simulated.moved == [("a", 1)]
        state = simulated.run(state)
        assert simulated.moved == [("a", 1), ("b", 1), ("c", 1)]

    def test_a_manual_group_waits_for_the_verb_of_promotions(self):
        simulated = fleets()
        manual = promotion(CANARY, replace(REST, pace=Pace(manual=True)))
        state = simulated.run(simulated.start(manual))
        assert state.waiting == "rest waits for 'zkdeployment promote promote rest'"
        simulated.act(Directive.PROMOTE, "rest")
        assert simulated.run(state).ended is not None

    def test_a_fleet_that_fails_in_its_bake_time_fails_the_group(self):
        simulated = fleets()
        baking = promotion(replace(CANARY, pace=Pace(bake_time=600.0)), REST)
        state = simulated.run(simulated.start(baking))
        simulated.fleets["eu"].state = FleetState.STOPPED
        state = simulated.wait(state, 601)
        assert state.errors == {"eu": "the fleet showed an error or lost the revision after its deployment"}
        assert simulated.moved == [("eu", 1)]

    def test_messages_speak_of_fleets(self):
        simulated = SimulatedFleets.of("a", "b")
        for fleet in simulated.fleets.values():
            fleet.refusal = "no"
        state = simulated.run(simulated.start(promotion(Group("all", critical=True, criteria=ALL))))
        assert state.rollout.progress["all"].reason == (
            "prepare: 0 of 2 fleets successful (0 %), expected at least 100 %"
        )


class TestWhatServicesAndBranchesMean:
    def test_a_service_that_lies_about_its_revision_is_no_success(self):
        simulated = fleets()
        state = simulated.start(TWO)
        simulated.fleets["eu"].published = 1  # its branch is at 0
        simulated.fleets["eu"].state = FleetState.CONVERGED
        for _ in range(5):
            state = simulated.decide(state)
        assert state.rollout.hosts["eu"] is HostProgress.PREPARED
        assert wanted_moves(state, simulated.facts(1)) == {
            "eu": BranchMove("fleets/eu", commit(0), commit(1)),
        }

    def test_a_fleet_that_has_the_revision_needs_no_push(self):
        simulated = fleets()
        simulated.fleets["us"] = SimulatedFleet(tip=2, published=2)
        state = simulated.run(simulated.start(TWO))
        assert simulated.moved == [("eu", 1), ("asia", 1)]
        assert state.rollout.hosts["us"] is HostProgress.SUCCESS

    @pytest.mark.parametrize("halted", ["paused", "frozen"])
    def test_no_branch_moves_during_a_halt_also_if_its_move_was_recorded_before(self, halted):
        simulated = fleets()
        state = simulated.start(TWO)
        for _ in range(5):
            state = simulated.decide(state)
        assert wanted_moves(state, simulated.facts(1)).keys() == {"eu"}  # and the git server did not answer
        if halted == "paused":
            simulated.act(Directive.PAUSE)
        else:
            simulated.halt = "promotions are frozen"
        state = simulated.wait(state, 600)
        assert simulated.moved == []
        simulated.halt = ""
        simulated.act(Directive.RESUME)
        assert simulated.run(state).ended is not None
        assert simulated.moved[0] == ("eu", 1)

    def test_a_fleet_is_withheld_also_if_its_move_was_recorded_before(self):
        simulated = fleets()
        state = simulated.start(TWO)
        for _ in range(5):
            state = simulated.decide(state)
        simulated.withhold("eu")
        state = simulated.run(state)
        assert (simulated.moved, state.ended is not None) == ([("asia", 1), ("us", 1)], True)

    def test_a_branch_that_a_person_moved_still_has_to_converge(self):
        simulated = fleets()
        simulated.fleets["eu"] = SimulatedFleet(tip=1, published=0, state=FleetState.ROLLING_OUT)
        state = simulated.run(simulated.start(TWO))
        assert (simulated.moved, simulated.asked, state.ended) == ([], set(), None)

    def test_a_missing_branch_is_created(self):
        simulated = fleets()
        simulated.fleets["eu"] = SimulatedFleet(tip=None, published=None)
        state = simulated.start(TWO)
        for _ in range(3):
            state = simulated.decide(state)
        assert wanted_moves(state, simulated.facts(1)) == {"eu": BranchMove("fleets/eu", None, commit(1))}

    @pytest.mark.parametrize(
        ("fleet", "error"),
        [
            (
                SimulatedFleet(1, 1, FleetState.STOPPED, by="host1", problem="no package hello 9.9"),
                "the fleet was stopped by host1: no package hello 9.9",
            ),
            (SimulatedFleet(1, 1, FleetState.STOPPED), "the fleet was stopped"),
            (
                SimulatedFleet(1, 0, FleetState.REFUSED, refused=1, problem="not signed"),
                "its syncer refuses the revision: not signed",
            ),
            (
                SimulatedFleet(1, 1, own=True),
                (
                    f"its branch has diverged from the main branch at {commit(1)[:12]}; bring the change into the"
                    " main branch, then run 'zkdeployment promote reset eu'"
                ),
            ),
        ],
    )
    def test_fleets_that_cannot_reach_the_revision_fail(self, fleet, error):
        simulated = fleets()
        simulated.fleets["eu"].state = FleetState.ROLLING_OUT
        state = simulated.run(simulated.start(TWO))
        simulated.fleets["eu"] = fleet
        state = simulated.run(state)
        assert state.errors == {"eu": error}
        assert rollout_state(state) is RolloutProgressState.FAILED
        assert simulated.moved == [("eu", 1)]

    @pytest.mark.parametrize(
        "fleet",
        [
            SimulatedFleet(1, 0, FleetState.STOPPED),
            SimulatedFleet(1, 0, FleetState.HELD),
            SimulatedFleet(1, 1, FleetState.HELD),
            SimulatedFleet(1, 0, FleetState.REFUSED, refused=0),
            SimulatedFleet(1, 1, FleetState.ROLLING_OUT),
            SimulatedFleet(1, 0, FleetState.CONVERGED),
        ],
    )
    def test_fleets_that_may_still_reach_the_revision_are_waited_for(self, fleet):
        simulated = fleets()
        simulated.fleets["eu"].state = FleetState.ROLLING_OUT
        state = simulated.run(simulated.start(TWO))
        simulated.fleets["eu"] = fleet
        state = simulated.run(state)
        assert (state.errors, state.ended) == ({}, None)

    def test_a_stop_from_before_a_second_attempt_is_waited_for(self):
        simulated = fleets()
        fleet = simulated.fleets["eu"] = SimulatedFleet(1, 1, FleetState.STOPPED, since=NOON - 1)
        state = simulated.run(replace(simulated.start(TWO), attempt=2))
        assert (state.errors, state.ended, simulated.moved) == ({}, None, [])
        fleet.since = NOON  # the fleet was resumed, and stopped again
        assert rollout_state(simulated.run(state)) is RolloutProgressState.FAILED

    @pytest.mark.parametrize(
        ("attempt", "fleet"),
        [
            (1, SimulatedFleet(1, 1, FleetState.STOPPED, since=NOON - 1)),  # the clock of a host is slow
            (2, SimulatedFleet(1, 1, FleetState.STOPPED)),  # hosts failed within their criteria
            (2, SimulatedFleet(1, 0, FleetState.REFUSED, refused=1, since=NOON - 1)),
        ],
    )
    def test_other_stops_and_refusals_fail_the_fleet(self, attempt, fleet):
        simulated = fleets()
        simulated.fleets["eu"] = fleet
        state = simulated.run(replace(simulated.start(TWO), attempt=attempt))
        assert rollout_state(state) is RolloutProgressState.FAILED

    def test_a_fleet_that_is_resumed_after_the_second_attempt_began_succeeds(self):
        simulated = fleets()
        simulated.fleets["eu"] = SimulatedFleet(1, 1, FleetState.STOPPED, since=NOON - 1)
        state = simulated.run(replace(simulated.start(TWO), attempt=2))
        simulated.fleets["eu"] = SimulatedFleet(1, 1)
        assert rollout_state(simulated.run(state)) is RolloutProgressState.SUCCESS

    def test_a_push_that_the_server_refuses_fails_the_fleet_with_its_words(self):
        simulated = fleets()
        state = simulated.start(TWO)
        for _ in range(3):
            state = simulated.decide(state)
        simulated.refused["eu"] = "hook: not today"
        state = simulated.run(state)
        assert state.errors == {"eu": "the git server refused the push to fleets/eu: hook: not today"}
        assert simulated.moved == []

    def test_a_diverged_branch_is_never_moved(self):
        simulated = fleets()
        simulated.fleets["eu"].own = True
        state = simulated.run(simulated.start(TWO))
        assert simulated.moved == []
        assert rollout_state(state) is RolloutProgressState.FAILED

    def test_a_branch_that_was_set_back_is_promoted_again(self):
        simulated = SimulatedFleets.of(eu="canary", us="rest")
        others = (Selector(tags=frozenset({"rest"})),)
        baking = promotion(CANARY, replace(REST, selectors=others, pace=Pace(bake_time=600.0)))
        state = simulated.run(simulated.start(baking))
        simulated.fleets["eu"] = SimulatedFleet(tip=0, published=0)
        state = simulated.run(state)
        assert simulated.moved == [("eu", 1), ("us", 1), ("eu", 1)]

    def test_a_late_revert_after_the_verdict_leaves_the_promotion_as_it_is(self):
        simulated = fleets()
        baking = promotion(CANARY, replace(REST, pace=Pace(bake_time=600.0)))
        state = simulated.run(simulated.start(baking))
        simulated.fleets["eu"].own = True
        assert simulated.run(state).rollout.hosts["eu"] is HostProgress.SUCCESS


class TestUnreachableAndWithheldFleets:
    def test_an_unreachable_fleet_is_waited_for_until_absent_after(self):
        simulated = fleets()
        simulated.fleets["us"].state = FleetState.UNREACHABLE
        state = simulated.run(simulated.start(TWO))
        state = simulated.wait(state, 299)
        assert state.ended is None
        state = simulated.wait(state, 2)
        assert state.rollout.progress["rest"].verdict is GroupVerdict.FAILED
        assert simulated.moved == [("eu", 1)]

    def test_a_fleet_that_was_away_before_the_promotion_counts_from_then_on(self):
        simulated = SimulatedFleets.of("a", "b")
        simulated.fleets["b"].state = FleetState.UNREACHABLE
        simulated.note_standings(1)
        simulated.now += 400
        state = simulated.run(simulated.start(promotion(Group("all", critical=True))))
        assert state.ended is not None
        assert simulated.moved == [("a", 1)]
        simulated.fleets["b"].state = None
        state = simulated.run(state)
        assert simulated.moved == [("a", 1), ("b", 1)]
        assert state.rollout.hosts["b"] is HostProgress.SUCCESS

    def test_a_granted_fleet_that_vanishes_fails(self):
        simulated = fleets()
        simulated.fleets["eu"].state = FleetState.ROLLING_OUT
        state = simulated.run(simulated.start(TWO))
        simulated.fleets["eu"].state = FleetState.UNREACHABLE
        state = simulated.wait(state, 321)
        assert state.errors == {"eu": "its service has been unreachable for 300 s"}

    def test_a_fleet_has_a_day_to_converge(self):
        simulated = fleets()
        simulated.fleets["eu"].state = FleetState.ROLLING_OUT
        state = simulated.run(simulated.start(TWO))
        state = simulated.wait(state, 86_399)
        assert state.ended is None
        state = simulated.wait(state, 1)
        assert state.errors == {"eu": "deploy: 1 of 1 fleets did not end; no progress for 86400 s"}

    def test_a_withheld_fleet_is_no_member(self):
        simulated = fleets()
        simulated.withhold("us")
        state = simulated.run(simulated.start(TWO))
        assert simulated.moved == [("eu", 1), ("asia", 1)]
        assert state.rollout.hosts.keys() == {"eu", "asia"}

    def test_a_fleet_that_is_withheld_before_its_branch_moves_leaves_the_promotion(self):
        simulated = fleets()
        state = simulated.decide(simulated.start(TWO))
        simulated.withhold("us", "eu")
        state = simulated.run(state)
        assert simulated.moved == [("asia", 1)]
        assert rollout_state(state) is RolloutProgressState.SUCCESS

    def test_a_fleet_that_is_withheld_after_its_branch_moved_stays(self):
        simulated = fleets()
        simulated.fleets["eu"].state = FleetState.ROLLING_OUT
        state = simulated.run(simulated.start(TWO))
        simulated.withhold("eu")
        simulated.fleets["eu"].state = None
        state = simulated.run(state)
        assert state.rollout.hosts["eu"] is HostProgress.SUCCESS

    def test_a_released_fleet_joins_late(self):
        simulated = fleets()
        simulated.withhold("us")
        state = simulated.run(simulated.start(TWO))
        simulated.withheld = {}
        state = simulated.run(state)
        assert simulated.moved == [("eu", 1), ("asia", 1), ("us", 1)]

    def test_a_withheld_fleet_that_was_set_back_stays_there(self):
        simulated = fleets()
        baking = promotion(CANARY, replace(REST, pace=Pace(bake_time=600.0)))
        state = simulated.run(simulated.start(baking))
        simulated.withhold("eu")
        simulated.fleets["eu"] = SimulatedFleet(tip=0, published=0)
        simulated.run(state)
        assert simulated.moved[-1] != ("eu", 1)


class TestRollbacks:
    def test_the_bad_fleets_come_first_and_wait_for_nothing(self):
        slow = Pace(bake_time=3600.0, manual=True, windows=(Window(frozenset({0}), 0, 1, "UTC"),))
        strategy = promotion(replace(CANARY, pace=slow), REST).strategy
        found = rollback_strategy(strategy, {"us", "eu"})
        assert found.groups == (
            Group("rollback", critical=False, selectors=(Selector(names=frozenset({"eu", "us"})),)),
            replace(CANARY, pace=slow, depends_on=("rollback",)),
            REST,
        )

    def test_without_bad_fleets_the_usual_groups_take_the_rollback(self):
        assert rollback_strategy(TWO.strategy, ()) == TWO.strategy

    def test_the_name_of_the_first_group_is_its_own(self):
        strategy = promotion(replace(CANARY, name="rollback"), replace(REST, depends_on=("rollback",))).strategy
        assert rollback_group_name(strategy) == "rollback-first"

    def test_a_rollback_reaches_the_bad_fleets_during_a_freeze_and_then_waits(self):
        simulated = fleets()
        frozen = replace(TWO, freezes=(Freeze(NOON - 10, NOON + 1000, "holidays"),))
        state = simulated.start(frozen, strategy=rollback_strategy(frozen.strategy, {"us"}))
        state = simulated.run(state, frozen)
        assert simulated.moved == [("us", 1)]
        assert state.waiting == "promotions are frozen until 2027-01-15 08:16 UTC: holidays"
        simulated.now += 1000
        simulated.run(state, frozen)
        assert simulated.moved == [("us", 1), ("eu", 1), ("asia", 1)]

    def test_a_bad_fleet_without_a_verdict_delays_neither_the_others_nor_itself(self):
        simulated = fleets()
        for name in ("us", "asia"):
            simulated.fleets[name] = SimulatedFleet(1, 1)
        simulated.fleets["us"].dry_run_problem = "the service is away"
        state = simulated.run(simulated.roll_back(TWO, 2, bad=1))
        assert simulated.moved == [("asia", 2), ("us", 2), ("eu", 2)]
        assert rollout_state(state) is RolloutProgressState.SUCCESS

    def test_a_fleet_of_a_usual_group_of_a_rollback_waits_for_its_verdict(self):
        simulated = fleets()
        simulated.fleets["us"] = SimulatedFleet(1, 1)
        simulated.fleets["eu"].dry_run_problem = "the service is away"
        state = simulated.run(simulated.roll_back(TWO, 2, bad=1))
        assert (simulated.moved, state.ended) == ([("us", 2)], None)

    def test_a_refusal_of_a_rollback_counts_also_for_a_bad_fleet(self):
        simulated = fleets()
        simulated.fleets["us"] = SimulatedFleet(1, 1, refusal="lint: unknown property")
        state = simulated.run(simulated.roll_back(TWO, 2, bad=1))
        assert state.errors == {"us": f"its syncer would refuse {'0' * 12}: lint: unknown property"}
        assert ("us", 2) not in simulated.moved


class TestDivergedFleetsInTheRollbackOfAPromotion:
    """The canary ``eu`` rolled back by itself, so its branch has diverged from the main branch."""

    def diverged(self, governing=TWO, *, us=0):
        """Return the fleets and the promotion of the rollback 2 from the bad revision 1."""
        simulated = fleets()
        simulated.fleets["eu"] = SimulatedFleet(1, 1, own=True)
        simulated.fleets["us"] = SimulatedFleet(us, us)
        return simulated, simulated.roll_back(governing, 2, bad=1)

    def reset(self, simulated, to=2):
        simulated.fleets["eu"] = SimulatedFleet(to, to)

    def test_the_others_get_the_rollback_and_the_diverged_fleet_neither_fails_nor_succeeds(self):
        simulated, state = self.diverged(us=1)
        state = simulated.run(state)
        assert simulated.moved == [("us", 2), ("asia", 2)]
        assert (state.rollout.hosts.keys(), state.errors) == ({"us", "asia"}, {})
        assert rollout_state(state) is RolloutProgressState.SUCCESS

    def test_the_bad_fleets_wait_for_no_bake_time_of_the_group_of_the_diverged_one(self):
        simulated, state = self.diverged(promotion(replace(CANARY, pace=Pace(bake_time=3600.0)), REST), us=1)
        state = simulated.run(state)
        assert state.rollout.order[0] == "rollback"
        assert simulated.moved[0] == ("us", 2)

    @pytest.mark.parametrize("to", [0, 2])
    def test_the_fleet_joins_after_the_reset_of_its_branch(self, to):
        simulated, state = self.diverged()
        state = simulated.run(state)
        self.reset(simulated, to)
        state = simulated.run(state)
        assert (simulated.fleets["eu"].tip, state.rollout.hosts["eu"]) == (2, HostProgress.SUCCESS)
        assert rollout_state(state) is RolloutProgressState.SUCCESS

    def test_the_fleet_joins_its_group_if_the_reset_comes_before_the_turn_of_the_group(self):
        simulated, state = self.diverged(promotion(REST_FIRST, CANARY_LAST))
        simulated.fleets["us"].state = FleetState.HELD
        state = simulated.run(state)
        self.reset(simulated, 0)
        state = simulated.run(state)
        assert state.rollout.members["last"] == {"eu"}
        assert ("eu", 2) not in simulated.moved
        simulated.fleets["us"] = SimulatedFleet(2, 2)
        state = simulated.run(state)
        assert simulated.moved[-1] == ("eu", 2)

    @pytest.mark.parametrize(
        "canary",
        [
            replace(CANARY, criteria=Criteria(minimum_successful=1)),
            replace(CANARY, require_hosts=1),
            replace(CANARY, criteria=Criteria(maximum_failed=0, percent_successful=100)),
        ],
    )
    def test_a_group_of_diverged_fleets_only_blocks_no_group_after_it(self, canary):
        simulated, state = self.diverged(promotion(canary, REST))
        state = simulated.run(state)
        assert simulated.moved == [("asia", 2), ("us", 2)]
        assert state.rollout.progress["canary"].verdict is GroupVerdict.SUCCESS

    def test_a_group_requires_the_same_of_its_other_fleets(self):
        everywhere = replace(REST, depends_on=(), criteria=Criteria(minimum_successful=3), require_hosts=3)
        simulated, state = self.diverged(promotion(everywhere))
        (group,) = state.rollout.strategy.groups
        assert (group.criteria, group.require_hosts) == (Criteria(minimum_successful=2), 2)
        simulated.fleets["us"].refusal = "lint: unknown property"
        state = simulated.run(state)
        assert rollout_state(state) is RolloutProgressState.FAILED

    def test_a_fleet_that_rolls_back_when_its_branch_is_about_to_move_waits_for_its_reset(self):
        simulated = fleets()
        simulated.fleets["eu"] = SimulatedFleet(1, 1)
        state = simulated.roll_back(TWO, 2, bad=1)
        for _ in range(3):
            state = simulated.decide(state)
        assert wanted_moves(state, simulated.facts(2)).keys() == {"eu"}
        simulated.fleets["eu"].own = True
        state = simulated.run(state)
        assert simulated.moved == [("asia", 2), ("us", 2)]
        assert (state.errors, rollout_state(state)) == ({}, RolloutProgressState.SUCCESS)

    def test_a_push_that_was_refused_because_the_fleet_rolled_back_is_no_failure(self):
        simulated = fleets()
        simulated.fleets["eu"] = SimulatedFleet(1, 1)
        state = simulated.roll_back(TWO, 2, bad=1)
        for _ in range(3):
            state = simulated.decide(state)
        simulated.refused["eu"], simulated.fleets["eu"].own = "non-fast-forward", True
        assert rollout_state(simulated.run(state)) is RolloutProgressState.SUCCESS

    def test_a_fleet_that_rolled_back_the_rollback_has_failed(self):
        simulated = fleets()
        simulated.fleets["eu"] = SimulatedFleet(1, 1)
        state = simulated.roll_back(TWO, 2, bad=1)
        simulated.fleets["eu"].state = FleetState.ROLLING_OUT
        state = simulated.run(state)
        simulated.fleets["eu"] = SimulatedFleet(2, 2, own=True)
        state = simulated.run(state)
        assert state.errors["eu"].startswith("its branch has diverged from the main branch")
        assert rollout_state(state) is RolloutProgressState.FAILED

    def test_in_a_usual_promotion_a_diverged_fleet_fails(self):
        simulated = fleets()
        simulated.fleets["eu"].own = True
        state = simulated.run(simulated.start(TWO))
        assert (simulated.moved, rollout_state(state)) == ([], RolloutProgressState.FAILED)
        assert state.errors["eu"].endswith("then run 'zkdeployment promote reset eu'")

    @pytest.mark.parametrize("killed", range(12))
    def test_a_promoter_that_is_killed_in_any_cycle_leaves_the_same_result_to_its_successor(self, killed):
        """A killed promoter has recorded its decision, and has not moved branches."""
        simulated, state = self.diverged(us=1)
        for cycle in range(12):
            state = simulated.decide(state)
            if cycle == 6:
                self.reset(simulated, 0)
            if cycle != killed:
                simulated.move(state)
        state = simulated.run(state_from_json(json.loads(json.dumps(state_to_json(state)))))
        assert [fleet.tip for fleet in simulated.fleets.values()] == [2, 2, 2]
        assert sorted(simulated.moved) == [("asia", 2), ("eu", 2), ("us", 2)]
        assert simulated.moved[0] == ("us", 2)
        assert rollout_state(state) is RolloutProgressState.SUCCESS


class TestFreezesAndWindows:
    def test_a_freeze_halts_with_its_reason(self):
        frozen = replace(TWO, freezes=(Freeze(NOON, NOON + 60, "audit"),))
        assert halt_reason(frozen, NOON - 1) == ""
        assert halt_reason(frozen, NOON) == "promotions are frozen until 2027-01-15 08:01 UTC: audit"
        assert halt_reason(frozen, NOON + 60) == ""
        assert halt_reason(frozen, NOON, rolls_back=True) == ""

    def test_a_closed_window_halts_until_it_opens(self):
        closed = replace(TWO, windows=(Window(frozenset(range(7)), 9 * 60, 17 * 60, "UTC"),))
        assert halt_reason(closed, NOON) == "the window of the promotion opens at 2027-01-15 09:00 UTC"
        assert halt_reason(closed, NOON + 3600) == ""

    def test_nothing_new_is_pushed_during_a_halt(self):
        simulated = fleets()
        state = simulated.run(simulated.start(TWO), replace(TWO, freezes=(Freeze(NOON, NOON + 60, "audit"),)))
        assert simulated.moved == []
        assert simulated.run(state, TWO).ended is not None


#: The addresses in the standing of the fleet ``eu``.
ADDRESSES = {"branch": "fleets/eu", "service": "https://eu"}


class TestTheStandingOfAFleet:
    FLEET = Fleet("eu", "fleets/eu", "https://eu")

    def standing(self, tip, report, before=None, *, withheld=None, dry_run=None, follows=True, rolls_back=False):
        reading = FleetFacts(tip, report, follows=follows)
        facts = PromotionFacts(
            SimulatedFleets.of("eu").document,
            {"eu": reading},
            withheld={} if withheld is None else {"eu": withheld},
            rolls_back=rolls_back,
            dry_runs={} if dry_run is None else {"eu": dry_run},
        )
        return standing(self.FLEET, facts, before, NOON)

    def test_a_converged_fleet(self):
        report = FleetReport(FleetState.CONVERGED, commit(1), 3, 3, since=5.0, read_at=9.0)
        assert self.standing(BranchTip(commit(1), in_main=True, behind=2), report) == FleetStanding(
            "eu",
            FleetState.CONVERGED,
            commit(1),
            commit(1),
            3,
            3,
            since=5.0,
            behind=2,
            seen=9.0,
            **ADDRESSES,
        )

    def test_a_fleet_that_has_not_published_its_tip_rolls_out(self):
        report = FleetReport(FleetState.CONVERGED, commit(0), 3, 3, since=5.0, read_at=9.0)
        found = self.standing(BranchTip(commit(1), in_main=True), report)
        assert (found.state, found.since) == (FleetState.ROLLING_OUT, NOON)

    def test_the_time_of_a_state_is_kept(self):
        report = FleetReport(FleetState.CONVERGED, commit(0), 3, 3, read_at=9.0)
        before = FleetStanding("eu", FleetState.ROLLING_OUT, since=77.0)
        assert self.standing(BranchTip(commit(1), in_main=True), report, before).since == 77.0

    def test_a_service_that_reports_a_foreign_revision(self):
        report = FleetReport(FleetState.CONVERGED, commit(9), 3, 3, read_at=9.0)
        found = self.standing(BranchTip(commit(1), in_main=True), report, follows=False)
        assert found.state is FleetState.ROLLING_OUT
        assert found.problem == (
            f"the service reports {commit(9)[:12]}, which branch fleets/eu does not contain; does the fleet's"
            " syncer follow this branch, and is this the service of the fleet?"
        )

    def test_a_diverged_branch_names_the_way_back(self):
        report = FleetReport(FleetState.CONVERGED, commit(1), 3, 3, since=1.0, read_at=9.0)
        found = self.standing(BranchTip(commit(1)), report)
        assert (found.state, found.since) == (FleetState.DIVERGED, NOON)
        assert "zkdeployment promote rollback" in found.problem
        assert found.problem.endswith("then run 'zkdeployment promote reset eu'")

    def test_a_diverged_branch_waits_for_its_reset_while_a_rollback_is_promoted(self):
        report = FleetReport(FleetState.CONVERGED, commit(1), 3, 3, since=1.0, read_at=9.0)
        assert self.standing(BranchTip(commit(1)), report, rolls_back=True).problem == (
            f"branch fleets/eu has {commit(1)[:12]}, which the main branch does not contain; nothing is promoted"
            " to this fleet: the rollback is in the main branch; run 'zkdeployment promote reset eu'"
        )

    def test_another_answer_a_moment_later_changes_nothing(self):
        simulated = fleets()
        before = simulated.note_standings(0)["us"]
        simulated.now += 29
        assert simulated.note_standings(0)["us"] is before
        simulated.now += 1
        assert simulated.note_standings(0)["us"] == replace(before, seen=simulated.now)
        simulated.now += 1
        simulated.fleets["us"].state = FleetState.HELD
        assert simulated.note_standings(0)["us"].seen == simulated.now

    def test_an_unreachable_fleet_keeps_what_was_seen(self):
        before = FleetStanding(
            "eu", FleetState.CONVERGED, commit(1), commit(1), 3, 3, since=1.0, seen=9.0, **ADDRESSES
        )
        report = FleetReport(FleetState.UNREACHABLE, problem="no answer")
        assert self.standing(BranchTip(commit(1), in_main=True), report, before) == replace(
            before, state=FleetState.UNREACHABLE, since=NOON, problem="no answer"
        )

    def test_a_missing_branch_and_a_silent_dry_run_are_problems(self):
        report = FleetReport(FleetState.HELD, None, by="op", read_at=9.0)
        found = self.standing(BranchTip(), report)
        assert found.by == "op"
        assert found.problem.startswith("there is no branch fleets/eu: the first promotion creates it")
        answer = DryRun(problem="too slow")
        tip = BranchTip(commit(1), in_main=True)
        assert self.standing(tip, report, dry_run=answer).problem == "the dry run has no answer: too slow"

    def test_a_fleet_that_has_not_answered_yet_keeps_its_standing(self):
        before = FleetStanding("eu", FleetState.CONVERGED, commit(0), commit(0), 3, 3, seen=9.0, **ADDRESSES)
        tip, withheld = BranchTip(commit(1), in_main=True, behind=4), Act("op", "withhold")
        assert self.standing(tip, None, before, withheld=withheld) == replace(
            before, tip=commit(1), behind=4, withheld=withheld
        )
        assert self.standing(tip, None).problem == "the service has not answered yet"


def test_the_history_keeps_the_first_time_at_which_a_fleet_reached_the_revision():
    simulated = fleets()
    state = simulated.start(TWO)
    entry = PromotionEntry("1-1", commit(1), "subject", "me", 3.0, begun=NOON)
    simulated.fleets["eu"] = SimulatedFleet(1, 1)
    entry = history_entry(entry, state, simulated.facts(1).readings, NOON)
    simulated.fleets["us"] = SimulatedFleet(1, 1)
    entry = history_entry(entry, ended(state), simulated.facts(1).readings, NOON + 5)
    assert entry.reached == {"eu": NOON, "us": NOON + 5}
    assert (entry.ended, entry.result, entry.subject) == (NOON, "success", "subject")


def test_the_phase_deploy_is_what_moves_branches():
    simulated = fleets()
    state = simulated.decide(simulated.start(TWO))
    assert state.active_phase.task.phase is Phase.PREPARE
    assert wanted_moves(state, simulated.facts(1)) == {}
