from dataclasses import replace

import pytest

from support.builders import make_host
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
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.host import Host, Identity
from zkdeployment.fleet.explanations.explanation import Cause
from zkdeployment.fleet.explanations.host import HostSnapshot, explain_host
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.strategy import Pace, ParallelLimit

NOW = BEGUN + 100
SHOW = "'zkdeployment rollout show' shows all groups"
LATER = "push a fix; or, when the rollout is over, 'zkdeployment resume --latest' begins another one"
RETRY = "push a fix; or begin a new rollout of the branch's tip with 'zkdeployment resume --latest'"


def explain(host_id, state, *, coordinator="ops1 (process 7)", version="r1", error=None, **fields):
    deploying = {"deploying": "r2", "step": "waits"} if error is None else {"error": error}
    host = make_host(host_id, version, **deploying)
    snapshot = FleetSnapshot(
        Cluster("r2"),
        "r2",
        BEGUN - 60,
        (host,),
        strategy="deployment-strategy",
        governed=True,
        rollout=state,
        coordinator=coordinator,
        **fields,
    )
    return explain_host(HostSnapshot(snapshot), host_id, now=NOW)


def test_without_a_coordinator_the_advice_is_to_start_one():
    explanation = explain("one1", begun_rollout(), coordinator=None)
    assert explanation.cause is Cause.ROLLOUT
    assert explanation.sentence == (
        "one1.example.com (one1) waits: the rollout of r2 by deployment-strategy does not continue."
    )
    assert explanation.facts == ("no coordinator runs",)
    assert explanation.advice == ("systemctl start zkdeployment-coordinator", SHOW)


@pytest.mark.parametrize("host", ["mon1", "z"])
def test_a_host_that_joins_after_the_end_waits_for_the_coordinator(host):
    state = ended_rollout(advanced_rollout(begun_rollout()))
    if host == "z":
        state = ended_rollout(advanced_rollout(begun_rollout(strategy(group("x")), plain_hosts("ab"))))
    explanation = explain(host, state, coordinator=None)
    assert explanation.sentence.endswith("waits: the rollout of r2 by deployment-strategy does not continue.")
    assert explanation.facts == ("no coordinator runs",)
    assert explain(host, state).sentence.endswith("succeeded; the coordinator starts the host next.")


def test_without_a_coordinator_a_host_with_a_grant_works_and_one_in_no_group_does_not_wait():
    state = active_rollout(advanced_rollout(begun_rollout(), until="control-nodes"), granted=["ctl1"])
    assert explain("ctl1", state, coordinator=None).cause is Cause.WORKING
    assert "is in no group of the strategy" in explain("other", state, coordinator=None).sentence


def test_a_rollout_that_has_not_begun_names_the_coordinator():
    explanation = explain("one1", None)
    assert explanation.sentence.endswith("the rollout of r2 by deployment-strategy has not begun.")
    assert explanation.facts == ("ops1 (process 7) is the coordinator",)


def test_a_host_waits_for_its_group_which_waits_for_another():
    explanation = explain(
        "one1", active_rollout(advanced_rollout(begun_rollout(), until="control-nodes"), done=["ctl1"])
    )
    assert explanation.sentence == (
        "one1.example.com (one1) waits for its group compute-nodes-1: after control-nodes."
    )
    assert explanation.facts == ("control-nodes: 1 of 3 hosts finished prepare",)


def test_a_host_waits_for_its_turn_within_its_group():
    explanation = explain(
        "ctl3",
        active_rollout(advanced_rollout(begun_rollout(), until="control-nodes"), granted=["ctl1"], done=["ctl2"]),
    )
    assert explanation.sentence == (
        "ctl3.example.com (ctl3) waits for its turn in group control-nodes, whose prepare is under way."
    )
    assert explanation.facts == ("1 of 3 hosts finished prepare",)


def test_the_explanation_of_a_waiting_host_names_the_condition_of_its_group():
    state = active_rollout(
        advanced_rollout(begun_rollout(), until="control-nodes"), granted=["ctl1"], done=["ctl2"]
    )
    explanation = explain("ctl3", replace(state, waiting="control-nodes waits for its time window"))
    assert explanation.facts == ("1 of 3 hosts finished prepare", "control-nodes waits for its time window")


def test_the_condition_of_a_rollout_without_an_active_phase_is_not_a_separate_fact():
    manual = replace(group("web", hosts="x"), pace=Pace(manual=True))
    state = replace(begun_rollout(strategy(manual), plain_hosts("x")), waiting="web waits to be promoted")
    explanation = explain("x", state)
    assert explanation.sentence.endswith("its group web: the group is manual and waits to be promoted.")
    assert "web waits to be promoted" not in explanation.facts


def test_a_host_with_a_grant_is_working():
    state = active_rollout(advanced_rollout(begun_rollout(), until="control-nodes"), granted=["ctl1"])
    assert explain("ctl1", state).cause is Cause.WORKING


def test_a_paused_rollout_is_explained_by_the_act_of_the_operator():
    paused = Act("ann@ops", "rollout pause", "latency is up", BEGUN + 40)
    explanation = explain("one1", replace(begun_rollout(), paused=paused))
    assert explanation.sentence == (
        "one1.example.com (one1) waits because the rollout is paused:"
        " rollout pause by ann@ops: latency is up (1 min ago)."
    )
    assert explanation.advice == ("'zkdeployment rollout resume' continues the rollout", SHOW)


def test_a_manual_group_comes_with_the_command_that_promotes_it():
    manual = replace(group("web", hosts="x"), pace=Pace(manual=True))
    explanation = explain("x", begun_rollout(strategy(manual), plain_hosts("x")))
    assert explanation.sentence.endswith("its group web: the group is manual and waits to be promoted.")
    assert explanation.advice == ("'zkdeployment rollout promote web --reason TEXT' lets the group begin", SHOW)


def test_a_manual_group_after_one_that_bakes_comes_without_the_command_that_promotes_it():
    manual = replace(group("web", "canary", hosts="x"), pace=Pace(manual=True))
    begun = begun_rollout(strategy(group("canary", hosts="y"), manual), plain_hosts("xy"))
    explanation = explain("x", active_rollout(begun, baking=5.0))
    assert explanation.sentence.endswith("its group web: after canary; then the group waits to be promoted.")
    assert explanation.advice == (SHOW,)


def test_a_host_in_no_group_keeps_its_version():
    explanation = explain("other", begun_rollout())
    assert explanation.sentence == (
        "other.example.com (other) is in no group of the strategy deployment-strategy, so the host keeps"
        " its present version."
    )


@pytest.mark.parametrize("error", [None, "deploy /shop 1: exit status 1"])
@pytest.mark.parametrize("ended", [False, True])
def test_a_failed_host_is_not_retried_and_a_resume_is_not_advised_while_nothing_is_stopped(ended, error):
    state = replace(advanced_rollout(begun_rollout(), "two1"), errors={"two1": "deploy /shop 1: exit status 1"})
    explanation = explain("two1", ended_rollout(state) if ended else state, error=error)
    assert explanation.cause is Cause.FAILED
    assert explanation.sentence == (
        "two1.example.com (two1) failed, and this rollout does not retry the host: deploy /shop 1: exit status 1"
    )
    assert ("the rollout is over: success with failures" in explanation.facts) == ended
    assert explanation.advice == (
        "on the host: the output is under /var/log/zkdeployment",
        RETRY if ended else LATER,
        SHOW,
    )


@pytest.mark.parametrize("error", [None, "boom"])
def test_a_failure_in_the_phase_under_way_is_one_that_the_rollout_tolerates(error):
    state = active_rollout(advanced_rollout(begun_rollout(), until="control-nodes"), failed=["ctl2"])
    explanation = explain("ctl2", state, error=error)
    assert explanation.sentence == "ctl2.example.com (ctl2) failed, and this rollout does not retry the host: boom"
    assert explanation.advice[1:] == (LATER, SHOW)


def test_a_failure_outside_of_the_rollout_is_explained_as_without_a_strategy():
    explanation = explain("two1", begun_rollout(), error="no foo 1.4")
    assert explanation.sentence == "two1.example.com (two1) failed: no foo 1.4"


@pytest.mark.parametrize("coordinator", [None, "ops1 (process 7)"])
def test_after_a_resume_every_host_waits_for_another_attempt(coordinator):
    state = replace(ended_rollout(advanced_rollout(begun_rollout(), "ctl1", "ctl2")), errors={"ctl1": "boom"})
    for host in ("ctl1", "one1"):
        explanation = explain(host, state, coordinator=coordinator)
        assert explanation.sentence.endswith("waits: the rollout of r2 by deployment-strategy has not begun.")
        assert ("systemctl start zkdeployment-coordinator" in explanation.advice) == (coordinator is None)


def test_a_host_of_a_group_that_failed_was_excluded():
    groups = strategy(group("x", hosts="a", percent_successful=100), group("y", "x", hosts="b"))
    explanation = explain("b", ended_rollout(advanced_rollout(begun_rollout(groups, plain_hosts("ab")), "a")))
    assert explanation.sentence == (
        "b.example.com (b) was left out of the rollout: its group y failed (not attempted: x failed)."
    )
    assert explanation.advice == (RETRY, SHOW)


def test_a_host_that_was_absent_when_its_group_succeeded_starts_later():
    state = ended_rollout(advanced_rollout(begun_rollout()))
    assert explain("mon1", state).sentence == (
        "mon1.example.com (mon1) was absent or without the revision when its group monitoring-nodes succeeded;"
        " the coordinator starts the host next."
    )
    assert explain("mon1", replace(state, late_joiners={"mon1": Phase.PREPARE})).cause is Cause.WORKING


def test_a_late_host_waits_for_others_of_its_group_or_for_the_end_of_a_pause():
    limited = replace(group("x"), pace=Pace(max_parallel=ParallelLimit(1)))
    state = replace(
        ended_rollout(advanced_rollout(begun_rollout(strategy(limited), plain_hosts("ab")))),
        late_joiners={"a": Phase.PREPARE},
    )
    late = "b.example.com (b) was absent or without the revision when its group x succeeded"
    assert explain("b", state).sentence == f"{late}; max_parallel of x lets the host begin after a."
    paused = replace(state, paused=Act("ann@ops", "rollout pause", "latency", BEGUN))
    assert explain("b", paused).sentence == (
        f"{late}; the host waits because the rollout is paused: rollout pause by ann@ops: latency."
    )


def test_a_group_without_its_required_hosts_comes_with_the_command_that_promotes_it():
    required = replace(group("x"), require_hosts=3)
    explanation = explain("a", begun_rollout(strategy(required), plain_hosts("ab"), absent={"b": 0.0}))
    assert explanation.sentence == (
        "a.example.com (a) waits for its group x: requires 3 registered hosts, found 1;"
        " the group waits for these hosts, or to be promoted."
    )
    assert explanation.advice[0] == "'zkdeployment rollout promote x --reason TEXT' lets the group begin"


def test_a_version_set_by_hand_is_deployed_without_the_strategy():
    host = Host(Identity("a", "a"), "r1", deploying="r9", step="packages", steps=(0, 2))
    snapshot = FleetSnapshot(Cluster("r9"), "r2", BEGUN, (host,), strategy="deployment-strategy")
    assert explain_host(HostSnapshot(snapshot), "a", now=NOW).cause is Cause.WORKING
