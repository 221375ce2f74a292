"""Fleets and promotions as people see them, and the ways back, from literals."""

from dataclasses import replace

import pytest

from support.fleets.promoted import NOON, SimulatedFleets, commit, promotion
from zkdeployment.base.act import Act
from zkdeployment.base.errors import RefusedError
from zkdeployment.fleet.events.event import EventKind
from zkdeployment.fleet.views.history import delivery_figures
from zkdeployment.promotion.acts import WayBack, way_back
from zkdeployment.promotion.feed import PROMOTION_PART, PromotionReading
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
from zkdeployment.promotion.rules import choice_hazards, rollback_strategy
from zkdeployment.promotion.user_acts import (
    AbortPromotion,
    FailFleets,
    FollowMain,
    PausePromotion,
    PinFleet,
    PromoteFleets,
    ReleaseFleet,
    ResumePromotion,
    RunFrom,
    UnpinFleet,
    WithholdFleet,
    commit_acts,
    fleet_acts,
    group_acts,
    promotion_acts,
)
from zkdeployment.promotion.views.fleets import (
    explain_fleet,
    fleets_status,
    ordered,
    waiting_for_reset,
    worst_first,
)
from zkdeployment.promotion.views.page import (
    PageActs,
    fleets_view,
    promotion_deliveries,
    revision_view,
    revision_ways,
)
from zkdeployment.publishing.records import CommitSummary
from zkdeployment.service.views.fleet import HostLink
from zkdeployment.strategies.progress import supersede
from zkdeployment.strategies.strategy import Group, Pace, Selector
from zkdeployment.strategies.views import rollout_status

HOUR = 3600.0
WITHHELD = Act("ann", "withhold", "it moves", NOON)
PIN = Pin(Act("ann", "pin fleet us", "an audit", NOON), "4f2a91c", NOON + HOUR)
CANARY = Group("canary", critical=True, selectors=(Selector(tags=frozenset({"eu"})),))
REST = Group("rest", critical=True, depends_on=("canary",), selectors=(Selector(),), pace=Pace(manual=True))


def standing(name, state=FleetState.CONVERGED, **fields):
    fields.setdefault("tip", commit(1))
    return FleetStanding(name, state, **{"branch": f"fleets/{name}", "service": f"https://{name}", **fields})


def entry(number, result="success", **fields):
    fields.setdefault("id", f"{number}-1")
    return PromotionEntry(revision=commit(number), result=result, **fields)


def reading(*standings, **fields):
    fields.setdefault("promoter", "adm1")
    return PromotionReading(standings={each.name: each for each in standings}, **fields)


def line(number):
    """Return the commits of a main branch that is a line."""
    return MainCommits(
        tuple(
            MainCommit(CommitSummary(commit(each), "dev", f"change {each}", NOON), (commit(each - 1),))
            for each in range(number, 0, -1)
        )
    )


def status(found):
    return fleets_status(found, found.promoter, NOON)


@pytest.fixture
def under_way():
    """Return the reading of a promotion whose canary is through, and whose second group is manual."""
    governing = promotion(CANARY, REST)
    fleets = SimulatedFleets.of("us", eu="eu")
    state = fleets.run(fleets.start(governing), governing)
    return reading(*fleets.note_standings(1).values(), state=state)


class TestTheOrderOfFleets:
    def test_the_worst_state_comes_first_then_those_without_a_branch_then_those_that_lack_most(self):
        listed = [
            standing("a"),
            standing("b", behind=7),
            standing("c", tip=None),
            standing("d", FleetState.STOPPED),
            standing("e", FleetState.DIVERGED),
        ]
        assert [each.name for each in worst_first(listed)] == ["e", "d", "c", "b", "a"]

    @pytest.mark.parametrize(("fields", "converged"), [({}, True), ({"behind": 1}, False), ({"tip": None}, False)])
    def test_fleets_have_converged_at_the_tip_of_main_only(self, fields, converged):
        assert status(reading(standing("a"), standing("b", **fields))).converged is converged

    def test_no_fleets_have_not_converged(self):
        assert not status(reading()).converged


class TestTheExplanationOfAFleet:
    def test_a_fleet_that_a_rollback_leaves_out(self):
        fleets = SimulatedFleets.of("us", eu="eu")
        fleets.fleets["eu"].own = True
        state = fleets.run(fleets.roll_back(promotion(CANARY, replace(REST, pace=Pace())), 1, bad=0))
        found = reading(*fleets.note_standings(1).values(), state=state)
        shown = status(found)
        remark = "'zkdeployment promote reset FLEET' lets a fleet that diverged join the promotion: eu"
        assert waiting_for_reset(shown.fleets, state) == remark
        assert fleets_view(found, NOON, PageActs()).remarks == (f"{remark}.",)
        lines = explain_fleet(shown.fleets[0], shown, state, NOON)
        assert (
            f"promotion 2-1 of {commit(1)[:12]} continues without the fleet, which joins after 'zkdeployment"
            " promote reset eu'"
        ) in lines
        assert waiting_for_reset((replace(each, pin=PIN) for each in shown.fleets), state) == ""
        assert waiting_for_reset(shown.fleets, supersede(state, NOON)) == ""
        assert waiting_for_reset(shown.fleets, None) == ""

    def test_a_stopped_fleet(self):
        found = reading(
            standing("eu", FleetState.STOPPED, by="bob", since=NOON - 60, behind=2, problem="disk full"),
            orders=FleetOrders({"eu": WITHHELD}),
            promoter=None,
            report=PromoterReport(waiting="a freeze"),
        )
        shown = status(found)
        assert explain_fleet(shown.fleets[0], shown, None, NOON) == [
            "eu is stopped by bob, 1 min ago",
            f"branch fleets/eu is at {commit(1)[:12]}, 2 commits behind the main branch",
            "problem: disk full",
            f"withheld: {WITHHELD}; 'zkdeployment promote release eu' ends that",
            "no promoter runs, so nothing is promoted; start zkdeployment-promoter",
            "the next promotion waits: a freeze",
        ]

    def test_a_fleet_that_waits_for_its_group(self, under_way):
        shown = status(under_way)
        lines = explain_fleet(under_way.standings["us"], shown, under_way.state, NOON)
        waits = "its group rest is waiting (the group is manual and waits to be promoted)"
        assert any(waits in line for line in lines)

    def test_a_fleet_that_no_group_has(self, under_way):
        lines = explain_fleet(standing("asia"), status(under_way), under_way.state, NOON)
        assert lines[-1] == f"promotion 1-1 of {commit(1)[:12]} does not concern the fleet"


class TestThePage:
    def test_without_fleets(self):
        view = fleets_view(reading(), NOON, PageActs())
        assert (view.headline, view.cards, view.picture) == ("No fleets are under promotion", (), None)

    def test_all_fleets_have_the_newest_commit(self):
        view = fleets_view(reading(standing("a"), standing("b")), NOON, PageActs())
        assert (view.tone.value, view.headline) == ("good", "All 2 fleets have the newest commit")

    def test_fleets_that_are_behind_without_a_promotion(self):
        view = fleets_view(reading(standing("a", behind=1)), NOON, PageActs())
        assert (view.tone.value, view.headline) == ("halted", "Fleets are behind the main branch")

    def test_a_fleet_that_cannot_follow_is_worse_than_anything_else(self):
        view = fleets_view(reading(standing("a", FleetState.REFUSED), promoter=None), NOON, PageActs())
        assert (view.tone.value, view.headline) == ("bad", "1 fleet of 1 cannot follow")

    def test_without_a_promoter_nothing_is_promoted(self):
        view = fleets_view(reading(standing("a"), promoter=None), NOON, PageActs())
        assert view.headline == "Nothing is promoted"

    def test_a_promotion_under_way_has_a_picture_its_groups_and_the_group_of_each_fleet(self, under_way):
        view = fleets_view(under_way, NOON, PageActs(group=lambda group: group_acts(under_way.state, group)))
        assert (view.headline, view.done, view.total) == ("The promotion waits for a decision", 1, 2)
        assert [link.label for link in view.acts] == ["Promote rest"]
        assert [box.name for box in view.picture.boxes] == ["canary", "rest"]
        assert [(card.name, card.group) for card in view.cards] == [("eu", "canary"), ("us", "rest")]
        assert [[link.label for link in group.acts] for group in view.groups] == [[], ["Promote"]]

    def test_only_addresses_of_the_web_become_links(self):
        view = fleets_view(reading(standing("a", service="javascript:alert(1)")), NOON, PageActs())
        assert view.cards[0].href == ""

    def test_a_wall_is_bounded(self):
        view = fleets_view(reading(*(standing(f"f{number:03}") for number in range(203))), NOON, PageActs())
        assert (len(view.cards) + len(view.tiles), view.more_cards) == (200, 3)

    def test_the_history_of_a_revision_has_the_fleets_in_the_order_in_which_it_reached_them(self):
        found = entry(1, committed=NOON - HOUR, reached={"b": NOON, "a": NOON - 60})
        view = revision_view(reading(standing("a"), standing("c")), found, NOON, PageActs())
        assert [(fleet.name, fleet.href, fleet.took) for fleet in view.reached] == [
            ("a", "https://a", "59 min"),
            ("b", "", "1 h"),
        ]
        assert view.missing == ("c",)


class TestTheWall:
    def test_of_many_fleets_those_that_need_no_attention_are_small(self):
        calm = [standing(f"f{number:02}") for number in range(12)]
        others = [
            standing("held", FleetState.HELD),
            standing("odd", problem="what is this?"),
            standing("withheld"),
        ]
        view = fleets_view(reading(*calm, *others, orders=FleetOrders({"withheld": WITHHELD})), NOON, PageActs())
        assert [card.name for card in view.cards] == ["held", "odd", "withheld"]
        assert [card.name for card in view.tiles] == [each.name for each in calm]

    def test_a_few_fleets_are_all_large(self):
        view = fleets_view(reading(*(standing(f"f{number}") for number in range(12))), NOON, PageActs())
        assert (len(view.cards), view.tiles) == (12, ())


class TestTheWaysOfRevisions:
    def ways(self, found, status=None):
        return revision_ways(found, status, lambda id_: f"/p/{id_}", lambda name: HostLink(name, f"#{name}"))

    def cells(self, row):
        return {
            cell.group: (cell.number, cell.total, [segment.kind for segment in cell.segments])
            for cell in row.cells
            if cell.number
        }

    def test_without_fleets_there_are_none(self):
        assert self.ways(reading()).rows == ()

    def test_each_revision_has_a_row_with_its_fleets_by_group(self, under_way):
        found = replace(under_way, history=(entry(1, "", subject="Web 1.3", author="Jo <jo@x>"),))
        ways = fleets_view(found, NOON, PageActs()).ways
        assert [(column.name, column.after) for column in ways.columns] == [("canary", ""), ("rest", "canary")]
        assert [(row.revision, row.subject, row.author, row.state) for row in ways.rows] == [
            (commit(1)[:12], "Web 1.3", "Jo", "under way"),
            (commit(0)[:12], "", "", "not in the history"),
        ]
        assert [self.cells(row) for row in ways.rows] == [
            {"canary": (1, 1, ["converged"])},
            {"rest": (1, 1, ["excluded"])},
        ]

    def test_a_revision_that_was_rolled_back_says_so_and_shows_who_still_has_it(self):
        found = reading(
            standing("a", revision=commit(3)),
            standing("b", FleetState.DIVERGED, revision=commit(2)),
            standing("c", FleetState.ROLLING_OUT, revision=commit(2)),
            standing("d", revision=commit(1)),
            history=(entry(3, "", rolls_back=commit(2)), entry(2, "success"), entry(1)),
        )
        ways = self.ways(found)
        assert [(row.state, row.href, row.tone.value) for row in ways.rows] == [
            ("replaced", "/p/3-1", "unknown"),
            ("rolled back", "/p/2-1", "bad"),
            ("success", "/p/1-1", "good"),
        ]
        (cell,) = ways.rows[1].cells
        assert (cell.group, cell.number, cell.total) == ("no group", 2, 4)
        assert [(segment.kind, segment.x, segment.width) for segment in cell.segments] == [
            ("deploying", 0.0, 25.0),
            ("failed", 25.0, 25.0),
        ]
        assert [(each.state, [fleet.name for fleet in each.fleets]) for each in cell.states] == [
            ("diverged", ["b"]),
            ("rolling out", ["c"]),
        ]

    def test_all_revisions_from_the_bad_one_to_its_rollback_count_as_rolled_back(self):
        numbers = (1, 2, 3, 4)
        found = reading(
            *(standing(f"f{number}", revision=commit(number)) for number in numbers),
            history=(entry(4, rolls_back=commit(2)), entry(3, "failed"), entry(2), entry(1)),
        )
        assert [row.state for row in self.ways(found).rows] == ["success", "rolled back", "rolled back", "success"]

    def test_the_groups_of_a_rollback_are_those_of_the_promotion(self):
        governing, fleets = promotion(CANARY, REST), SimulatedFleets.of("us", eu="eu")
        strategy = rollback_strategy(governing.strategy, ["eu"])
        state = fleets.run(fleets.start(governing, 3, strategy=strategy), governing)
        found = reading(
            *fleets.note_standings(3).values(), state=state, history=(entry(3, rolls_back=commit(2), id=state.id),)
        )
        view = fleets_view(found, NOON, PageActs())
        assert [column.name for column in view.ways.columns] == ["canary", "rest"]
        assert {card.name: card.group for card in view.cards} == {"eu": "canary", "us": "rest"}

    def test_a_fleet_of_no_group_has_a_column_of_its_own(self, under_way):
        found = replace(under_way, standings={**under_way.standings, "ap": standing("ap", revision=None)})
        ways = fleets_view(found, NOON, PageActs()).ways
        assert [column.name for column in ways.columns] == ["canary", "rest", ""]
        assert (ways.rows[-1].revision, ways.rows[-1].state) == ("", "nothing is published yet")

    def test_own_commits_of_a_fleet_are_not_in_the_main_branch(self):
        row = self.ways(reading(standing("a", FleetState.DIVERGED, revision=commit(7)))).rows[0]
        assert (row.state, row.href) == ("not in the main branch", "")

    def test_many_old_revisions_are_counted(self):
        found = reading(*(standing(f"f{number}", revision=commit(number)) for number in range(10)))
        ways = self.ways(found)
        assert (len(ways.rows), ways.rest) == (8, "2 fleets at 2 older revisions")

    def test_many_fleets_in_one_state_are_counted(self):
        (row,) = self.ways(
            reading(*(standing(f"f{number}", FleetState.HELD, revision=commit(1)) for number in range(3)))
        ).rows
        assert [(each.number, each.fleets) for each in row.cells[0].states] == [(3, ())]


class TestTheCourseOfAPromotion:
    def test_the_fleets_that_were_reached_are_drawn_over_time(self):
        times = {name: NOON + 100.0 * number for number, name in enumerate("abcd", 1)}
        view = revision_view(reading(standing("e")), entry(1, begun=NOON, reached=times), NOON, PageActs())
        assert view.course == "M0 100H100.0V80.0H200.0V60.0H300.0V40.0H400.0V20.0V100Z"
        words = "4 of 5 fleets: the first after 1 min, half of them after 3 min, the last after 6 min"
        assert view.course_words == words

    def test_two_fleets_need_no_plot(self):
        view = revision_view(
            reading(), entry(1, begun=NOON, reached={"a": NOON + 1, "b": NOON + 2}), NOON, PageActs()
        )
        assert (view.course, view.course_words) == ("", "")


class TestTheFigures:
    def test_a_promotion_that_was_rolled_back_has_failed_and_the_rollback_restores(self):
        newest_first = [
            entry(3, begun=NOON - HOUR, committed=NOON - HOUR, reached={"a": NOON}, rolls_back=commit(2)),
            entry(2, begun=NOON - 3 * HOUR, ended=NOON - 2 * HOUR, reached={"a": NOON - 2 * HOUR}),
            entry(1, begun=NOON - 9 * HOUR, committed=NOON - 10 * HOUR, reached={"a": NOON - 9 * HOUR}),
        ]
        newest_first = [replace(each, begun=NOON - number * HOUR) for number, each in enumerate(newest_first, 1)]
        found = delivery_figures(promotion_deliveries(newest_first), NOON)
        assert found.publications == 3
        assert found.failure_rate == pytest.approx(1 / 3)
        assert found.lead_time == HOUR
        assert found.restore_time == 2 * HOUR

    def test_a_rollback_of_several_promotions_makes_all_of_them_failed_and_none_of_its_own_attempts(self):
        rollback = entry(4, "success", rolls_back=commit(2))
        history = [rollback, replace(rollback, id="4-0", result="superseded"), entry(3), entry(2), entry(1)]
        found = promotion_deliveries(history)
        assert [delivery.failed for delivery in found] == [False, False, True, True, False]

    @pytest.mark.parametrize("result", ["failed", "aborted", "success with failures"])
    def test_failed_promotions(self, result):
        (found,) = promotion_deliveries([entry(1, result, ended=NOON)])
        assert (found.failed, found.ended, found.failed_at) == (True, None, NOON)

    def test_a_promotion_under_way_has_neither_failed_nor_ended(self):
        (found,) = promotion_deliveries([entry(1, "")])
        assert (found.failed, found.ended) == (False, None)


class TestTheWayBack:
    def in_main(self, _revision):
        return True

    def back(self, history, named=None, in_main=None):
        return way_back(history, in_main or self.in_main, lambda new, old: new >= old, named)

    def test_the_last_success_before_the_newest_is_wanted_and_the_first_revision_after_it_is_bad(self):
        history = [entry(4, "failed"), entry(3, "aborted"), entry(2, "success"), entry(1, "success")]
        assert self.back(history) == WayBack(commit(2), commit(3))

    def test_a_newest_promotion_that_succeeded_can_be_rolled_back(self):
        assert self.back([entry(2), entry(1)]) == WayBack(commit(1), commit(2))

    def test_a_second_attempt_is_not_an_earlier_revision(self):
        history = [entry(2, "failed"), entry(2, "success"), entry(1, "success")]
        assert self.back(history) == WayBack(commit(1), commit(2))

    @pytest.mark.parametrize("result", ["", "success", "failed", "superseded"])
    def test_a_second_rollback_does_not_lead_back_to_the_revision_that_the_first_one_undid(self, result):
        history = [entry(3, result, rolls_back=commit(2)), entry(2), entry(1)]
        assert self.back(history) == WayBack(commit(1), commit(2))

    def test_a_revision_that_contains_an_undone_one_is_undone_too_in_any_order_of_the_promotions(self):
        history = [entry(4, rolls_back=commit(2)), entry(2), entry(3), entry(1)]
        assert self.back(history) == WayBack(commit(1), commit(2))

    def test_the_rollback_itself_can_be_the_revision_that_is_wanted_again(self):
        history = [entry(4, "failed"), entry(3, rolls_back=commit(2)), entry(2), entry(1)]
        assert self.back(history) == WayBack(commit(3), commit(4))

    def test_without_a_revision_that_was_not_rolled_back_the_operator_is_asked_for_one(self):
        history = [entry(3, rolls_back=commit(2)), entry(2)]
        with pytest.raises(RefusedError, match="was not rolled back, found none in the history; name"):
            self.back(history)
        assert self.back(history, commit(2)) == WayBack(commit(2), commit(3))

    def test_the_bad_revision_is_the_first_in_the_main_branch_also_if_a_later_one_was_promoted_before(self):
        history = [entry(2, "failed"), entry(3, "failed"), entry(1)]
        assert self.back(history) == WayBack(commit(1), commit(2))

    def test_a_later_revision_that_was_promoted_before_the_newest_is_not_the_way_back(self):
        assert self.back([entry(2, "failed"), entry(3), entry(1)]) == WayBack(commit(1), commit(2))

    def test_a_named_revision_that_was_never_promoted_makes_all_promotions_bad(self):
        assert self.back([entry(3), entry(2)], commit(1)) == WayBack(commit(1), commit(2))

    def test_a_revision_between_two_promotions_leads_only_away_from_the_later_one(self):
        assert self.back([entry(4), entry(2)], commit(3)) == WayBack(commit(3), commit(4))

    def test_revisions_that_main_lost_do_not_count(self):
        history = [entry(3, "failed"), entry(2), entry(1)]
        assert self.back(history, in_main=lambda revision: revision != commit(2)) == WayBack(commit(1), commit(3))

    @pytest.mark.parametrize(
        ("history", "named"),
        [((), None), ((entry(1, "failed"),), None), ((entry(2), entry(1)), commit(2)), ((entry(2),), commit(3))],
    )
    def test_without_an_earlier_revision_a_rollback_is_refused(self, history, named):
        with pytest.raises(RefusedError):
            self.back(history, named)


class TestTheActs:
    def test_acts_on_a_promotion_that_does_not_exist_are_refused(self):
        acts = (PausePromotion(), ResumePromotion(), AbortPromotion())
        for act in (*acts, PromoteFleets(group="x"), FailFleets(group="x")):
            assert act.objection(None) == "There is no promotion at present."

    def test_a_promotion_under_way_can_be_paused_and_aborted(self, under_way):
        assert [link.label for link in promotion_acts(under_way)] == [
            "Pause the promotion",
            "Abort the promotion",
        ]
        assert PausePromotion().objection(under_way.state) == ""
        assert ResumePromotion().objection(under_way.state) == "the promotion 1-1 is not paused"
        assert ResumePromotion().consequences(under_way.state) == ("The promotion continues where it was paused.",)

    def test_a_group_that_waits_can_be_promoted(self, under_way):
        groups = {group.name: group for group in rollout_status(under_way.state, led=True, now=NOON).groups}
        assert group_acts(under_way.state, groups["canary"]) == ()
        act = PromoteFleets(group="rest")
        assert (act.objection(under_way.state), act.title(under_way.state)) == ("", "Promote group rest")
        assert act.consequences(under_way.state) == ("The group begins as soon as fleets may start: 2 fleets.",)
        paused = replace(under_way.state, paused=Act("ann@ops", "promotion pause", "latency", 1.0))
        assert act.consequences(paused) == ("The group begins after an operator resumes the promotion: 2 fleets.",)
        assert "does not wait for its metrics" in FailFleets(group="rest").objection(under_way.state)

    def test_a_fleet_is_withheld_once_and_released_once(self):
        found = reading(standing("eu"), standing("us"), orders=FleetOrders({"us": WITHHELD}))
        assert WithholdFleet(fleet="eu").objection(found) == ""
        assert WithholdFleet(fleet="asia").objection(found) == "There is no fleet asia."
        assert WithholdFleet(fleet="us").objection(found).startswith("The fleet is withheld already: ")
        assert ReleaseFleet(fleet="us").objection(found) == ""
        assert ReleaseFleet(fleet="eu").objection(found) == "The fleet eu is not withheld."
        branches = reading(standing("eu"), standing("us"), orders=FleetOrders({"fleets/us": WITHHELD}))
        assert [act(fleet="us").objection(branches) for act in (WithholdFleet, ReleaseFleet)] == [
            f"The fleet is withheld already: {WITHHELD}.",
            "",
        ]
        assert [each.withheld for each in status(branches).fleets] == [None, WITHHELD]
        labels = [[link.label for link in fleet_acts(each)] for each in status(branches).fleets]
        assert labels == [["Withhold", "Pin"], ["Release", "Pin"]]

    @pytest.mark.parametrize(
        ("named", "objection"),
        [
            ("", ""),
            (commit(2), ""),
            (commit(3), ""),
            (
                commit(1),
                "000000000000 is older than 000000000000, to which the branch of eu points, and a pin moves",
            ),
            ("abcd", "the main branch does not contain abcd, as far as the promoter"),
            ("0000", "3 commits begin with 0000: expected more characters."),
        ],
    )
    def test_a_fleet_is_pinned_to_its_tip_or_to_a_later_commit(self, named, objection):
        found = reading(standing("eu", tip=commit(2)), commits=line(3))
        said = PinFleet(fleet="eu", revision=named).objection(found)
        assert (said.startswith(objection), bool(said)) == (True, bool(objection))

    @pytest.mark.parametrize(
        ("number", "hazard"),
        [
            (
                1,
                "a step back: eu, us have a newer commit and keep it, because a promotion moves no branch",
            ),
            (2, "promotion 2-1 of 000000000000 ended before: failed"),
            (3, "us refuses 000000000000: no package hello"),
            (4, ""),
        ],
    )
    def test_a_person_is_told_why_a_chosen_commit_may_be_in_vain(self, number, hazard):
        us = standing("us", FleetState.REFUSED, tip=commit(3), problem="no package hello")
        found = reading(
            standing("eu", tip=commit(2)), us, commits=line(4), history=(entry(3, ""), entry(2, "failed"))
        )
        hazards = choice_hazards(commit(number), found.commits, found.standings.values(), found.history)
        assert any(each.startswith(hazard) for each in hazards) is bool(hazard)
        shown = RunFrom(revision=commit(number)).consequences(found)
        assert [f"{each[:1].upper()}{each[1:]}." for each in hazards] == [*shown[3:]]

    def test_a_commit_is_chosen_once_and_the_choice_ends_once(self):
        choice = Choice(Act("ann", "run promotions from 3", "an audit", NOON), commit(3), commit(4))
        found = reading(standing("eu"), commits=line(4), choice=choice)
        words = "promotions run from 000000000000, chosen by ann: an audit"
        assert str(choice) == words
        assert RunFrom(revision=commit(3)).objection(found) == f"{words} already."
        assert RunFrom(revision="ffff").objection(found).startswith("the main branch does not contain ffff")
        assert [commit_acts(found, commit(number)) == () for number in (2, 3, 9)] == [False, True, True]
        assert FollowMain().objection(found) == ""
        assert FollowMain().objection(reading()) == "Promotions follow the main branch already."
        assert [link.label for link in promotion_acts(found)] == ["Follow the main branch"]

    def test_all_presentations_say_the_same_about_a_choice(self):
        choice = Choice(Act("ann", "run promotions from 3", "an audit", NOON), commit(3), commit(4))
        found = reading(standing("us"), choice=choice)
        words = f"{choice}; newer commits wait until 'zkdeployment promote follow'"
        shown = status(found)
        assert words in shown.remarks
        assert words in explain_fleet(shown.fleets[0], shown, None, NOON)
        assert f"P{words[1:]}." in fleets_view(found, NOON, PageActs()).remarks
        (event,) = PROMOTION_PART.events(reading(standing("us")), found)
        assert str(choice) in event.to_json()["words"]

    def test_a_fleet_that_lacks_the_next_commit_links_to_its_plan(self, under_way):
        cards = {card.name: card.plan for card in fleets_view(under_way, NOON, PageActs()).cards}
        assert cards == {"us": f"https://us/plan?revision={commit(1)}", "eu": ""}
        assert status(reading(report=PromoterReport(main=commit(3)))).coming == commit(3)
        choice = Choice(Act("ann", "run"), commit(2), commit(3))
        assert status(reading(report=PromoterReport(main=commit(3)), choice=choice)).coming == commit(2)

    def test_a_pin_ends_at_its_time(self):
        pin = Pin(Act("ann", "pin", "an audit", NOON), commit(1), NOON + HOUR)
        found = reading(standing("eu"), standing("us"), orders=FleetOrders(pins={"fleets/us": pin}))
        assert [each.pin for each in status(found).fleets] == [None, pin]
        assert found.pin("us", NOON + HOUR) is None
        assert UnpinFleet(fleet="us").objection(found) == ""
        assert UnpinFleet(fleet="eu").objection(found) == "The fleet eu is not pinned."
        assert [link.label for link in fleet_acts(status(found).fleets[1])] == ["Withhold", "Unpin"]

    @pytest.mark.parametrize("orders", [FleetOrders({"us": WITHHELD}), FleetOrders(pins={"us": PIN})])
    def test_all_presentations_say_the_same_about_an_order(self, orders):
        found = reading(standing("us"), orders=orders)
        shown = status(found)
        words = ordered(shown.fleets[0])
        assert words in {f"withheld: {WITHHELD}", str(PIN)}
        assert fleets_view(found, NOON, PageActs()).cards[0].ordered == words
        lines = explain_fleet(shown.fleets[0], shown, None, NOON)
        assert any(line.startswith(f"{words}; 'zkdeployment promote ") for line in lines)


class TestTheEvents:
    def events(self, before, after):
        return [(event.kind, event.subject) for event in PROMOTION_PART.events(before, after)]

    def test_an_answer_without_news_is_no_event(self):
        before, after = (reading(standing("eu", seen=seen), report=PromoterReport(seen)) for seen in (1.0, 2.0))
        assert self.events(before, after) == []

    def test_fleets_that_change_appear_and_leave_are_events(self):
        before = reading(standing("a"), standing("b"), standing("c"))
        after = reading(standing("a", behind=1), standing("b"), standing("d"), orders=FleetOrders({"b": WITHHELD}))
        assert self.events(before, after) == [(EventKind.FLEET, name) for name in "abcd"]

    def test_a_promotion_its_promoter_and_its_problem_are_events(self, under_way):
        assert self.events(PROMOTION_PART.empty, reading()) == [(EventKind.PROMOTION, "none")]
        assert (EventKind.PROMOTION, "1-1") in self.events(reading(), under_way)
        assert self.events(under_way, replace(under_way, promoter=None)) == [(EventKind.PROMOTION, "1-1")]
        trouble = replace(under_way, report=PromoterReport(problem="the documents have errors"))
        (event,) = PROMOTION_PART.events(under_way, trouble)
        assert event.body["words"].endswith("; the documents have errors")
