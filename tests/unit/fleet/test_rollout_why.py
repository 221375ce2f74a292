from dataclasses import replace

import pytest

from support.rollouts import BEGUN, at_work, over, running, through
from support.strategies import group, plain_hosts, strategy
from zkdeployment.fleet.explanation import Cause
from zkdeployment.fleet.snapshot import Snapshot
from zkdeployment.fleet.why import why
from zkdeployment.model.act import Act
from zkdeployment.model.cluster import Cluster
from zkdeployment.model.host import Host, Identity
from zkdeployment.model.strategy import Pace, ParallelLimit
from zkdeployment.rollout.state_machine import Phase

NOW = BEGUN + 100
SHOW = "'zkdeployment rollout show' shows all groups"
AGAIN = "push a fix; or 'zkdeployment resume --latest' publishes the branch's tip again, and a rollout begins anew"


def ask(host_id, found, *, coordinator="ops1 (process 7)", version="r1", error=None, **fields):
    deploying = {"deploying": "r2", "step": "waits"} if error is None else {"error": error}
    host = Host(Identity(host_id, f"{host_id}.example.com"), version, **deploying)
    snapshot = Snapshot(
        Cluster("r2"),
        "r2",
        BEGUN - 60,
        (host,),
        strategy="deployment-strategy",
        governed=True,
        rollout=found,
        coordinator=coordinator,
        **fields,
    )
    return why(snapshot, (), host_id, now=NOW)


def test_without_a_coordinator_the_answer_is_to_start_one():
    answer = ask("one1", running(), coordinator=None)
    assert answer.cause is Cause.ROLLOUT
    assert answer.sentence == (
        "one1.example.com (one1) waits: the rollout of r2 by deployment-strategy does not go on."
    )
    assert answer.facts == ("no coordinator runs",)
    assert answer.advice == ("systemctl start zkdeployment-coordinator", SHOW)


def test_a_rollout_that_nobody_has_begun_yet_names_the_coordinator():
    answer = ask("one1", None)
    assert answer.sentence.endswith("the rollout of r2 by deployment-strategy has not begun.")
    assert answer.facts == ("ops1 (process 7) coordinates",)


def test_a_host_waits_for_its_group_which_waits_for_another():
    answer = ask("one1", at_work(through(running(), until="control-nodes"), done=["ctl1"]))
    assert answer.sentence == (
        "one1.example.com (one1) waits for the turn of its group compute-nodes-1: after control-nodes."
    )
    assert answer.facts == ("control-nodes: 1 of 3 hosts are through with prepare",)


def test_a_host_waits_for_its_turn_within_its_group():
    answer = ask("ctl3", at_work(through(running(), until="control-nodes"), granted=["ctl1"], done=["ctl2"]))
    assert answer.sentence == (
        "ctl3.example.com (ctl3) waits for its turn in group control-nodes, whose prepare is under way."
    )
    assert answer.facts == ("1 of 3 hosts are through",)


def test_a_host_that_was_let_in_is_at_work_like_any_other():
    found = at_work(through(running(), until="control-nodes"), granted=["ctl1"])
    assert ask("ctl1", found).cause is Cause.WORKING


def test_a_paused_rollout_says_who_paused_it_and_why():
    paused = Act("ann@ops", "rollout pause", "latency is up", BEGUN + 40)
    answer = ask("one1", replace(running(), paused=paused))
    assert answer.sentence == (
        "one1.example.com (one1) waits because the rollout is paused:"
        " rollout pause by ann@ops: latency is up (1 min ago)."
    )
    assert answer.advice == ("'zkdeployment rollout resume' goes on", SHOW)


def test_a_manual_group_says_what_to_type():
    manual = replace(group("web", hosts="x"), pace=Pace(manual=True))
    answer = ask("x", running(strategy(manual), plain_hosts("x")))
    assert answer.sentence.endswith("its group web: it is manual and waits to be promoted.")
    assert answer.advice == ("'zkdeployment rollout promote web --reason TEXT' lets it begin", SHOW)


def test_a_host_that_no_group_selects_keeps_what_it_has():
    answer = ask("other", running())
    assert answer.sentence == (
        "other.example.com (other) is in no group of the strategy deployment-strategy, so it keeps what it has."
    )


@pytest.mark.parametrize("error", [None, "deploy /shop 1: exit status 1"])
@pytest.mark.parametrize("ended", [False, True])
def test_a_host_that_failed_is_not_let_in_again_and_resume_is_not_advised_as_nothing_is_stopped(ended, error):
    found = replace(through(running(), "two1"), errors={"two1": "deploy /shop 1: exit status 1"})
    answer = ask("two1", over(found) if ended else found, error=error)
    assert answer.cause is Cause.FAILED
    assert answer.sentence == (
        "two1.example.com (two1) failed in this rollout, and is not let in again: deploy /shop 1: exit status 1"
    )
    assert ("the rollout is over: success with failures" in answer.facts) == ended
    assert answer.advice == ("on the host: the output is under /var/log/zkdeployment", AGAIN, SHOW)


def test_a_failure_that_is_not_of_this_rollout_is_told_as_ever():
    answer = ask("two1", running(), error="no foo 1.4")
    assert answer.sentence == "two1.example.com (two1) failed: no foo 1.4"


@pytest.mark.parametrize("coordinator", [None, "ops1 (process 7)"])
def test_after_a_resume_every_host_waits_for_another_attempt(coordinator):
    found = replace(over(through(running(), "ctl1", "ctl2")), errors={"ctl1": "boom"})
    for host in ("ctl1", "one1"):
        answer = ask(host, found, coordinator=coordinator)
        assert answer.sentence.endswith("waits: the rollout of r2 by deployment-strategy has not begun.")
        assert ("systemctl start zkdeployment-coordinator" in answer.advice) == (coordinator is None)


def test_a_host_of_a_group_that_failed_was_left_out():
    groups = strategy(group("x", hosts="a", percent_successful=100), group("y", "x", hosts="b"))
    answer = ask("b", over(through(running(groups, plain_hosts("ab")), "a")))
    assert answer.sentence == (
        "b.example.com (b) was left out of the rollout: its group y failed (not attempted: x failed)."
    )
    assert answer.advice == (AGAIN, SHOW)


def test_a_host_that_was_away_when_its_group_went_is_let_in_later():
    found = over(through(running()))
    assert ask("mon1", found).sentence == (
        "mon1.example.com (mon1) did not have the revision, or was not there, when its group monitoring-nodes"
        " succeeded; the coordinator lets it in."
    )
    assert ask("mon1", replace(found, late_joiners={"mon1": Phase.PREPARE})).cause is Cause.WORKING


def test_a_late_host_waits_for_others_of_its_group_or_for_the_end_of_a_pause():
    limited = replace(group("x"), pace=Pace(max_parallel=ParallelLimit(1)))
    found = replace(
        over(through(running(strategy(limited), plain_hosts("ab")))), late_joiners={"a": Phase.PREPARE}
    )
    came = "b.example.com (b) did not have the revision, or was not there, when its group x succeeded"
    assert ask("b", found).sentence == f"{came}; max_parallel of x lets it begin after a."
    paused = replace(found, paused=Act("ann@ops", "rollout pause", "latency", BEGUN))
    assert ask("b", paused).sentence == (
        f"{came}; it waits because the rollout is paused: rollout pause by ann@ops: latency."
    )


def test_a_group_that_lacks_required_hosts_is_named_with_the_way_out():
    required = replace(group("x"), require_hosts=3)
    answer = ask("a", running(strategy(required), plain_hosts("ab"), absent={"b": 0.0}))
    assert answer.sentence == (
        "a.example.com (a) waits for the turn of its group x: requires 3 registered hosts, found 1;"
        " it waits for them, or to be promoted."
    )
    assert answer.advice[0] == "'zkdeployment rollout promote x --reason TEXT' lets it begin"


def test_a_version_set_by_hand_is_no_business_of_the_strategy():
    host = Host(Identity("a", "a"), "r1", deploying="r9", step="packages", steps=(0, 2))
    snapshot = Snapshot(Cluster("r9"), "r2", BEGUN, (host,), strategy="deployment-strategy")
    assert why(snapshot, (), "a", now=NOW).cause is Cause.WORKING
