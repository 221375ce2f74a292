from dataclasses import replace

import pytest

from support.strategies import (
    BEGUN,
    active_rollout,
    advanced_rollout,
    begun_rollout,
    ended_rollout,
    group,
    plain_hosts,
    strategy,
)
from zkdeployment.base.act import Act
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.progress import apply_acts
from zkdeployment.strategies.state import Directive, Ending, RolloutAct
from zkdeployment.strategies.state_machine import HostProgress, next_task, record
from zkdeployment.strategies.strategy import Pace, Window
from zkdeployment.strategies.views import (
    GroupState,
    RolloutProgressState,
    aborted_rollout,
    decisions,
    directive_objection,
    final_report,
    rollout_changes,
    rollout_status,
)

NOW = BEGUN + 60
PAUSED = Act("ann@ops", "rollout pause", "latency is up", BEGUN + 55)


def show(rollout, *, led=True):
    return rollout_status(rollout, led=led, now=NOW)


NIGHTS = Window(frozenset({0, 4}), 22 * 60, 5 * 60 + 30, "Europe/Berlin")


def groups(rollout):
    return {group.name: (group.state, group.description) for group in show(rollout).groups}


def paced(**pace):
    state = replace(group("a", hosts="x"), pace=Pace(**pace))
    return begun_rollout(strategy(state, group("b", hosts="y")), plain_hosts("xy"))


def short():
    required = replace(group("a", hosts="xy"), require_hosts=2)
    return replace(begun_rollout(strategy(required), plain_hosts("xy")), absent={"y": 0.0})


def test_at_first_every_group_waits_for_the_groups_it_depends_on():
    assert groups(begun_rollout()) == {
        "ntp-node": (GroupState.WAITING, "after monitoring-nodes, which begins first"),
        "control-nodes": (GroupState.WAITING, "after ntp-node"),
        "compute-nodes-1": (GroupState.WAITING, "after control-nodes"),
        "compute-nodes-2": (GroupState.WAITING, "after control-nodes"),
        "monitoring-nodes": (GroupState.WAITING, ""),
    }


def test_a_group_is_listed_below_the_groups_that_it_depends_on():
    assert [
        (group.name, group.depth) for group in show(begun_rollout()).groups if group.name != "monitoring-nodes"
    ] == [
        ("ntp-node", 0),
        ("control-nodes", 1),
        ("compute-nodes-1", 2),
        ("compute-nodes-2", 2),
    ]


def test_the_active_group_shows_how_many_hosts_finished_and_the_state_of_each():
    state = active_rollout(
        advanced_rollout(begun_rollout(), until="control-nodes"), granted=["ctl1"], done=["ctl2"], failed=["ctl3"]
    )
    status = show(state)
    control = next(group for group in status.groups if group.name == "control-nodes")
    assert control.state is GroupState.PREPARING
    assert control.description == "2 of 3 hosts finished prepare"
    assert control.hosts == {"ctl1": "preparing", "ctl2": "prepared", "ctl3": "failure"}
    assert status.description == "control-nodes is preparing; 2 of 5 groups succeeded"
    assert groups(state)["compute-nodes-1"] == (GroupState.WAITING, "after control-nodes")


def test_a_baking_group_shows_the_remaining_bake_time():
    state = active_rollout(paced(bake_time=600), done=["x"], baking=BEGUN + 50)
    assert groups(state)["a"] == (GroupState.BAKING, "all hosts are done; bake time ends in 9 min")


def test_a_group_whose_bake_time_is_over_waits_for_its_checks():
    state = active_rollout(paced(bake_time=5, healthy_checks=True), done=["x"], baking=BEGUN)
    expected = "all hosts are done; their checks have no results since the deployment yet"
    assert groups(state)["a"] == (GroupState.BAKING, expected)


def test_a_manual_group_waits_until_it_is_promoted():
    state = paced(manual=True)
    assert groups(state)["a"][1] == "the group is manual and waits to be promoted"
    assert groups(replace(state, promoted=frozenset("a")))["a"][1] == ""


def test_a_group_with_windows_shows_when_it_may_start():
    always = Window(frozenset(range(7)), 0, 60, "UTC")
    detail = groups(paced(windows=(NIGHTS, always)))["a"][1]
    assert detail == "starts only mon fri 22:00-05:30 Europe/Berlin or 00:00-01:00 UTC"


@pytest.mark.parametrize(
    ("rollout", "state", "message"),
    [
        pytest.param(
            ended_rollout(advanced_rollout(begun_rollout())),
            RolloutProgressState.SUCCESS,
            "success: 5 of 5 groups succeeded",
            id="all",
        ),
        pytest.param(
            ended_rollout(advanced_rollout(begun_rollout(), "two1")),
            RolloutProgressState.PARTIAL,
            "success with failures: 4 of 5 groups succeeded, 1 failed",
            id="a group that is not critical",
        ),
        pytest.param(
            ended_rollout(advanced_rollout(begun_rollout(), "ntp01")),
            RolloutProgressState.FAILED,
            "failed: 1 of 5 groups succeeded, 4 failed",
            id="a critical group",
        ),
        pytest.param(
            ended_rollout(advanced_rollout(begun_rollout(), until="control-nodes"), Ending.ABORTED),
            RolloutProgressState.ABORTED,
            "aborted: 2 of 5 groups succeeded",
            id="aborted",
        ),
        pytest.param(
            ended_rollout(begun_rollout(), Ending.SUPERSEDED),
            RolloutProgressState.SUPERSEDED,
            "superseded: 0 of 5 groups succeeded",
            id="superseded",
        ),
        pytest.param(
            replace(begun_rollout(), paused=PAUSED),
            RolloutProgressState.PAUSED,
            "rollout pause by ann@ops: latency is up; 0 of 5 groups succeeded",
            id="paused",
        ),
        pytest.param(
            replace(begun_rollout(), waiting="no group may start"),
            RolloutProgressState.UNDER_WAY,
            "no group may start; 0 of 5 groups succeeded",
            id="waiting",
        ),
    ],
)
def test_a_rollout_is_described_in_a_sentence(rollout, state, message):
    status = show(rollout)
    assert (status.state, status.description) == (state, message)
    assert status.is_over == (rollout.ended is not None)


def test_without_a_coordinator_the_rollout_does_not_continue():
    description = show(begun_rollout(), led=False).description
    assert description == "no coordinator runs, so the rollout does not continue; 0 of 5 groups succeeded"


def test_the_report_names_failed_groups_with_the_reason_and_unsuccessful_hosts():
    assert final_report(ended_rollout(advanced_rollout(begun_rollout(), "ntp01"))) == (
        "rollout 7-1 of r2: failed; 8 hosts: 1 succeeded, 1 failed, 6 not started"
        "; critical group control-nodes failed (not attempted: ntp-node failed)"
        "; group compute-nodes-1 failed (not attempted: ntp-node failed)"
        "; group compute-nodes-2 failed (not attempted: ntp-node failed)"
        "; critical group ntp-node failed (prepare: 0 of 1 hosts successful, expected at least 1)"
        "; failed: ntp01; not started: ctl1, ctl2, ctl3, one1, one2 and 1 more"
    )


def test_the_report_names_hosts_that_were_prepared_and_not_deployed():
    begun = begun_rollout(strategy(group("a", hosts="xyz"), group("b", hosts="v")), plain_hosts("vwxyz"))
    prepared = record(begun.rollout, next_task(begun.rollout), ["x", "y"])
    assert final_report(ended_rollout(replace(begun, rollout=prepared))) == (
        "rollout 7-1 of r2: success with failures; 5 hosts: 1 failed, 2 prepared only, 2 not started"
        "; failed: z; prepared only: x, y; not started: v, w"
    )


def test_programs_get_the_counts_of_hosts():
    assert show(ended_rollout(advanced_rollout(begun_rollout(), "ntp01"))).to_json()["counts"] == {
        "success": 1,
        "failure": 1,
        "not started": 6,
    }


def test_a_failure_that_the_phase_under_way_reported_counts_before_its_verdict():
    state = active_rollout(advanced_rollout(begun_rollout(), until="control-nodes"), failed=["ctl2"])
    body = show(state).to_json()
    assert body["errors"] == {"ctl2": "boom"}
    assert body["counts"]["failure"] == 1


def test_the_report_stays_short_after_many_failures():
    hosts = plain_hosts(f"h{number:04}" for number in range(1000))
    groups = [replace(group(f"g{number}", percent_successful=100)) for number in range(500)]
    text = final_report(ended_rollout(advanced_rollout(begun_rollout(strategy(*groups), hosts), *hosts)))
    assert "1000 hosts: 1000 failed; group g0 failed" in text
    assert text.endswith("; 480 more groups failed; failed: h0000, h0001, h0002, h0003, h0004 and 995 more")
    assert len(text) < 4000


def test_a_late_joiner_is_shown_with_its_phase():
    late = ended_rollout(replace(begun_rollout(), late_joiners={"one1": Phase.DEPLOY}))
    host_names = next(group.hosts for group in show(late).groups if group.name == "compute-nodes-1")
    assert host_names == {"one1": "deploying", "one2": "not started"}


def test_the_last_movement_is_an_act_of_an_operator_or_a_report_of_a_host():
    acts = (RolloutAct(Directive.PAUSE, PAUSED),)
    assert show(begun_rollout()).moved == BEGUN
    assert show(active_rollout(begun_rollout())).moved == BEGUN + 50
    assert show(replace(active_rollout(begun_rollout()), acts=acts)).moved == BEGUN + 55
    assert show(ended_rollout(begun_rollout())).moved == BEGUN + 100


def test_programs_get_groups_hosts_errors_and_acts():
    state = replace(active_rollout(begun_rollout(), failed=["mon1"]), errors={"mon1": "boom"})
    state = replace(state, acts=(RolloutAct(Directive.PAUSE, PAUSED),))
    value = show(state).to_json()
    assert {name: value[name] for name in ("id", "revision", "strategy", "state", "coordinator", "ended")} == {
        "id": "7-1",
        "revision": "r2",
        "strategy": "deployment-strategy",
        "state": "under way",
        "coordinator": True,
        "ended": None,
    }
    assert value["groups"][0] == {
        "name": "monitoring-nodes",
        "critical": False,
        "state": "preparing",
        "depends_on": [],
        "successful": 0,
        "failed": 1,
        "total": 1,
        "words": "1 of 1 hosts finished prepare",
        "hosts": {"mon1": "failure"},
    }
    assert value["groups"][1]["words"] == "after monitoring-nodes, which is under way"
    assert value["errors"] == {"mon1": "boom"}
    assert value["acts"] == ["rollout pause by ann@ops: latency is up"]


@pytest.mark.parametrize(
    ("rollout", "directive", "name", "message"),
    [
        (ended_rollout(begun_rollout()), Directive.ABORT, None, "is over"),
        (begun_rollout(), Directive.PROMOTE, "ntp", "there is no group ntp"),
        (begun_rollout(), Directive.PROMOTE, "ntp-node", "is not manual"),
        (replace(paced(manual=True), promoted=frozenset("a")), Directive.PROMOTE, "a", "was promoted already"),
        (replace(begun_rollout(), paused=PAUSED), Directive.PAUSE, None, "is paused already"),
        (begun_rollout(), Directive.RESUME, None, "is not paused"),
        (replace(short(), forced=frozenset("a")), Directive.PROMOTE, "a", "was promoted already"),
        (ended_rollout(short()), Directive.PROMOTE, "a", "is over"),
        (ended_rollout(short(), Ending.ABORTED), Directive.PAUSE, None, "is over"),
    ],
)
def test_a_directive_without_effect_is_objected_to(rollout, directive, name, message):
    assert message in (directive_objection(rollout, directive, name) or "")


def test_a_manual_group_that_can_no_longer_begin_is_not_promoted():
    manual = replace(group("b", "a", hosts="y"), pace=Pace(manual=True))
    state = begun_rollout(strategy(group("a", hosts="x", minimum_successful=1), manual), plain_hosts("xy"))
    state = advanced_rollout(state, "x")
    message = directive_objection(state, Directive.PROMOTE, "b")
    assert message == "the group b failed: not attempted: a failed"


def rest_after_canary(*parents):
    """Return a rollout at its begin: the canary goes first, and the rest waits to be promoted."""
    rest = replace(group("rest", *parents, hosts="yz"), pace=Pace(manual=True))
    return begun_rollout(strategy(group("canary", hosts="x"), rest), plain_hosts("xyz"))


@pytest.mark.parametrize("parents", [("canary",), ()])
@pytest.mark.parametrize(("fields", "doing"), [({}, "preparing"), ({"baking": 5.0}, "baking")])
def test_a_group_is_not_promoted_while_an_earlier_group_is_under_way(parents, fields, doing):
    state = active_rollout(rest_after_canary(*parents), **fields)
    assert directive_objection(state, Directive.PROMOTE, "rest") == (
        f"the group rest does not wait for a promotion: canary is still {doing}; promote it when it waits"
    )
    under_way = "" if parents else ", which is under way"
    assert groups(state)["rest"][1] == f"after canary{under_way}; then the group waits to be promoted"


@pytest.mark.parametrize(
    ("pace", "is_first"), [(Pace(), True), (Pace(manual=True), False), (Pace(windows=(NIGHTS,)), False)]
)
def test_a_group_is_not_promoted_in_a_pause_after_which_another_group_begins_first(pace, is_first):
    rest = replace(group("rest", hosts="yz"), pace=Pace(manual=True))
    first = replace(group("canary", hosts="x"), pace=pace)
    state = replace(begun_rollout(strategy(first, rest), plain_hosts("xyz")), paused=PAUSED)
    expected = "the group rest does not wait for a promotion: canary is still waiting; promote it when it waits"
    assert directive_objection(state, Directive.PROMOTE, "rest") == (expected if is_first else None)
    before = "after canary, which begins first; then the group waits to be promoted"
    alone = "the group is manual and waits to be promoted"
    assert groups(state)["rest"][1] == (before if is_first else alone)
    halted = replace(state, paused=None, halted_since=NOW, waiting="the fleet is stopped")
    assert ("rest" in {each.group for each in decisions(halted)}) is not is_first


def test_a_group_is_not_promoted_before_the_group_on_which_it_depends_begins():
    message = directive_objection(rest_after_canary("canary"), Directive.PROMOTE, "rest") or ""
    assert "canary is still waiting;" in message


def test_a_group_is_not_promoted_while_an_earlier_group_waits_for_its_hosts_between_two_phases():
    state = rest_after_canary()
    state = replace(state, rollout=record(state.rollout, next_task(state.rollout), ["x"]))
    assert "canary is still waiting;" in (directive_objection(state, Directive.PROMOTE, "rest") or "")


def test_a_group_without_its_hosts_is_not_promoted_while_an_earlier_group_is_under_way():
    required = replace(group("rest", hosts="yz"), require_hosts=3)
    state = begun_rollout(strategy(group("canary", hosts="x"), required), plain_hosts("xyz"))
    for each in (state, active_rollout(state)):
        assert "canary is still" in (directive_objection(each, Directive.PROMOTE, "rest") or "")


@pytest.mark.parametrize(
    ("failing", "description", "report"),
    [
        ((), "x runs r2 of the aborted rollout", "3 hosts: 1 succeeded, 2 not started"),
        (("x",), "no host reported r2 of the aborted rollout", "3 hosts: 1 failed, 2 not started; failed: x"),
    ],
)
def test_an_abort_during_the_bake_time_keeps_what_runs_where(failing, description, report):
    state = rest_after_canary("canary")
    state = replace(state, rollout=record(state.rollout, next_task(state.rollout), ["x"]))
    done = {"x"}.difference(failing)
    state = active_rollout(state, done=done, failed=failing, baking=BEGUN + 50)
    abort = Act("ann@ops", "rollout abort", "web 1.3 loses sessions", BEGUN + 60)
    over = apply_acts(state, [RolloutAct(Directive.ABORT, abort, None, 0)], NOW)
    assert groups(over)["canary"][1] == description
    assert groups(over)["rest"] == (GroupState.UNFINISHED, "never begun")
    assert groups(over)["canary"][0] is GroupState.UNFINISHED
    assert show(over).groups[0].count(HostProgress.SUCCESS) == len(done)
    assert over.errors == dict.fromkeys(failing, "boom")
    assert f"aborted ({abort}); {report}" in final_report(over)
    where = "; x runs its revision" if done else ""
    assert aborted_rollout(over) == (
        f"the rollout 7-1 of r2 was aborted ({abort}){where}; it begins again at the first group"
    )
    assert aborted_rollout(state) == ""


def test_a_group_that_waits_is_promoted_after_the_earlier_groups():
    state = advanced_rollout(rest_after_canary("canary"), until="rest")
    assert directive_objection(state, Directive.PROMOTE, "rest") is None
    assert groups(state)["rest"][1] == "the group is manual and waits to be promoted"


@pytest.mark.parametrize("directive", [Directive.PAUSE, Directive.ABORT])
def test_a_rollout_under_way_may_be_paused_and_aborted(directive):
    assert directive_objection(begun_rollout(), directive) is None


def test_a_paused_rollout_may_be_resumed_and_a_manual_group_promoted():
    assert directive_objection(replace(begun_rollout(), paused=PAUSED), Directive.RESUME) is None
    assert directive_objection(paced(manual=True), Directive.PROMOTE, "a") is None


def test_a_group_that_lacks_hosts_shows_that_and_may_be_promoted():
    message = "requires 2 registered hosts, found 1; the group waits for these hosts, or to be promoted"
    assert groups(short())["a"] == (GroupState.WAITING, message)
    assert directive_objection(short(), Directive.PROMOTE, "a") is None


def test_late_hosts_may_be_paused_and_aborted_after_the_end():
    late = replace(ended_rollout(advanced_rollout(begun_rollout())), late_joiners={"one1": Phase.DEPLOY})
    assert directive_objection(late, Directive.ABORT) is None
    assert directive_objection(late, Directive.PAUSE) is None
    paused = replace(late, paused=PAUSED)
    assert directive_objection(paused, Directive.RESUME) is None
    assert show(paused).description == (
        "success: 5 of 5 groups succeeded; rollout pause by ann@ops: latency is up"
    )


def test_a_watch_prints_the_whole_rollout_first_and_then_the_changes():
    first = show(begun_rollout(strategy(group("a", hosts="xy")), plain_hosts("xy")))
    begun = active_rollout(begun_rollout(strategy(group("a", hosts="xy")), plain_hosts("xy")), granted=["x"])
    second = show(begun)
    third = show(replace(begun, errors={"x": "boom"}))
    assert list(rollout_changes(None, first)) == ["a: waiting", "rollout 7-1: 0 of 1 groups succeeded"]
    assert list(rollout_changes(first, second)) == [
        "a: preparing (0 of 2 hosts finished prepare)",
        "a: x: preparing",
        "rollout 7-1: a is preparing; 0 of 1 groups succeeded",
    ]
    assert list(rollout_changes(second, third)) == ["x: failed: boom"]
    assert list(rollout_changes(third, third)) == []


def test_a_selector_that_matches_no_known_host_is_reported_once():
    state = begun_rollout(strategy(group("a", hosts="x"), group("b", hosts="y")), plain_hosts("x"))
    before = rollout_status(state, led=True, now=BEGUN, known=plain_hosts("xy"))
    after = rollout_status(state, led=True, now=BEGUN, known=plain_hosts("x"))
    assert before.warnings == ()
    (warning,) = after.to_json()["warnings"]
    assert warning.startswith("selector 1 of group b matches no known host (node_names y)")
    assert list(rollout_changes(before, after)) == [f"warning: {warning}"]
    assert list(rollout_changes(after, after)) == []
