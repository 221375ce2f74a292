"""The headline of the front page: it has to be true for a reader who sees only this line."""

from dataclasses import replace

import pytest

from support.builders import make_host
from support.builders import make_known_host as absent
from support.strategies import (
    active_rollout,
    advanced_rollout,
    begun_rollout,
    ended_rollout,
    group,
    plain_hosts,
    strategy,
)
from zkdeployment.base.act import Act, Decision, DecisionForm
from zkdeployment.base.cluster import Cluster, Retry
from zkdeployment.base.stop import COORDINATOR, GroupStop, Stop
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import fleet_status
from zkdeployment.publishing.records import CommitSummary, PublicationRequest, Refusal, SyncerReport
from zkdeployment.service.views.fleet import Tone, fleet_verdict
from zkdeployment.service.views.frame import moment
from zkdeployment.strategies.strategy import Pace

NOW = 10_000.0
ACT = Act("ann", "stop", "web loses sessions", 9_940.0)
FAILURE = Stop("h1", "h1.example.com", "r2", "deploy /shop/web 0", "exit status 1", 9_990.0)


def host(name, version="r2", **fields):
    return make_host(name, version, **fields)


def verdict(cluster, *hosts, stale=False, syncer=None, **fields):
    snapshot = FleetSnapshot(cluster, published="r2", hosts=hosts, **fields)
    return fleet_verdict(snapshot, fleet_status(snapshot), NOW, stale=stale, syncer=syncer)


@pytest.mark.parametrize(
    ("cluster", "hosts", "tone", "headline"),
    [
        (None, [], Tone.UNKNOWN, "Nothing is published yet"),
        (Cluster("r2"), [], Tone.UNKNOWN, "No hosts are registered"),
        (Cluster("r2"), [host("h1")], Tone.GOOD, "The host has the wanted revision"),
        (Cluster("r2"), [host("h1"), host("h2")], Tone.GOOD, "All 2 hosts have the wanted revision"),
        (Cluster("r2"), [host("h1"), host("h2", "r1")], Tone.BUSY, "1 of 2 hosts have the wanted revision"),
        (Cluster("r2"), [host("h1"), host("h2", error="boom")], Tone.BAD, "1 host failed"),
        (Cluster("r1", importing="r2"), [host("h1", "r1")], Tone.BUSY, "Publishing r2"),
        (Cluster(None), [host("h1")], Tone.BAD, "Stopped"),
        (Cluster(False), [host("h1")], Tone.HALTED, "Held"),
    ],
)
def test_the_headline_shows_whether_the_fleet_is_as_wanted(cluster, hosts, tone, headline):
    found = verdict(cluster, *hosts)

    assert (found.tone, found.headline) == (tone, headline)


def test_a_failure_that_stopped_the_fleet_names_the_host():
    found = verdict(Cluster(None), host("h1", error="exit status 1"), stops=(FAILURE,))

    assert found.headline == "Stopped by a failure"
    assert found.sentence == (
        "h1.example.com failed. Running services continue."
        " No host starts a step until an operator resumes the fleet."
    )


def test_a_retry_is_named_while_the_fleet_is_stopped():
    cluster = Cluster(None, retry=Retry("h1", "r2"))
    found = verdict(cluster, host("h1", error="exit status 1"), host("h2", "r1"), stops=(FAILURE,))
    assert found.sentence.endswith("resumes the fleet. Only h1.example.com tries again.")
    snapshot = FleetSnapshot(cluster, published="r2", hosts=(host("h1", None),), stops=(FAILURE,))
    assert fleet_status(snapshot).summary.startswith("ALL STOP; only h1.example.com tries again; ")
    assert fleet_status(replace(snapshot, cluster=Cluster(None))).summary.startswith("ALL STOP; 1 host")


def test_a_retry_whose_host_is_away_is_not_shown_as_under_way():
    cluster = Cluster(None, retry=Retry("h1", "r2"))
    away = FleetSnapshot(cluster, published="r2", hosts=(host("h2", "r1"),), stops=(FAILURE,))
    summary = fleet_status(away).summary
    assert summary.startswith("ALL STOP; the retry of h1 begins when its agent is registered; ")


def test_a_host_that_has_the_revision_again_is_repaired_and_not_failed():
    others = (host("h2", "r1", error="boom"), host("h3", "r1"))
    second = replace(FAILURE, host_id="h2", host_name="h2.example.com")
    one = verdict(Cluster(None), host("h1"), *others, stops=(FAILURE, second))
    both = verdict(Cluster(None), host("h1"), host("h2"), stops=(FAILURE, second))

    assert (one.tone, one.headline) == (Tone.BAD, "Stopped by a failure")
    assert one.sentence.startswith("h2.example.com failed. ")
    assert one.sentence.endswith(" h1.example.com is repaired.")
    assert (both.tone, both.headline) == (Tone.HALTED, "Stopped; the failure is repaired")
    assert both.sentence.endswith(" h1.example.com, h2.example.com are repaired; a resume continues.")


def test_many_failures_are_counted():
    stops = (FAILURE, replace(FAILURE, host_id="h2", host_name="h2.example.com"))

    assert verdict(Cluster(None), stops=stops).sentence.startswith("2 hosts failed.")


def test_the_stop_of_a_failed_rollout_is_a_failure():
    stop = Stop.of_operator(Act(COORDINATOR, "stop", "group web failed", 9_990.0))

    found = verdict(Cluster(None), host("h1"), stops=(stop,))

    assert (found.tone, found.sentence[:42]) == (Tone.BAD, "A critical group of the rollout failed. Ru")


def test_a_stop_and_a_hold_by_an_operator_name_the_operator():
    stopped = verdict(Cluster(None), host("h1"), stops=(Stop.of_operator(ACT),))
    held = verdict(Cluster(False), host("h1"), stops=(Stop.of_operator(replace(ACT, what="hold")),))

    assert (stopped.tone, held.tone) == (Tone.HALTED, Tone.HALTED)
    assert stopped.sentence.startswith("ann stopped the fleet 1 min ago.")
    assert held.sentence.startswith("ann held the fleet 1 min ago.")


def test_hosts_that_are_absent_are_not_forgotten():
    found = verdict(Cluster("r2"), host("h1"), absent=(absent("h2"),), targets=frozenset({"h2"}))

    assert (found.tone, found.sentence, found.percent) == (Tone.HALTED, "1 host is absent.", 50)


def test_a_service_without_a_host_is_never_good():
    found = verdict(Cluster("r2"), host("h1"), host("h2"), targets=frozenset({"h1", "h2", "h3"}))

    assert (found.tone, found.headline) == (Tone.HALTED, "1 target without a host")
    assert found.sentence == "No host runs what the tree deploys to h3. All 2 hosts have the wanted revision."


def test_a_fleet_with_a_stopped_group_is_bad_although_all_hosts_have_the_revision():
    stop = GroupStop("p1/store/v1/shop", 7, FAILURE)
    found = verdict(Cluster("r2"), host("h1"), host("h2"), group_stops=(stop,))

    assert (found.tone, found.headline) == (Tone.BAD, "Group p1/store/v1/shop is stopped")
    assert found.sentence == (
        "Group p1/store/v1/shop is stopped: h1.example.com (h1) failed at deploy /shop/web 0 of r2: exit status 1."
        " All 2 hosts have the wanted revision."
    )
    assert (found.change, found.since) == ("began", moment(9_990.0, NOW))
    two = verdict(Cluster("r2"), host("h1"), group_stops=(stop, replace(stop, group="p1/store/v1/bank")))
    assert (two.tone, two.headline) == (Tone.BAD, "2 groups are stopped")


def test_hosts_that_deploy_and_hosts_that_wait_are_counted():
    hosts = [host("h1"), host("h2", "r1", deploying="r2"), host("h3", "r1"), host("h4", "r1")]

    assert verdict(Cluster("r2"), *hosts).sentence == "1 host is deploying, 2 wait for their turn."


def test_a_rollout_shows_its_progress():
    state = replace(active_rollout(begun_rollout(), granted=["ctl1"]), revision="r2")

    found = verdict(
        Cluster("r2"), host("ctl1", "r1"), rollout=state, governed=True, coordinator="adm1", strategy="s"
    )

    assert (found.tone, found.headline) == (Tone.BUSY, "0 of 1 host have the wanted revision")
    assert "groups succeeded" in found.sentence


def test_a_paused_rollout_and_a_missing_coordinator_are_highlighted():
    state = replace(begun_rollout(), revision="r2")
    fields = {"governed": True, "strategy": "s"}

    paused = verdict(
        Cluster("r2"), host("ctl1", "r1"), rollout=replace(state, paused=ACT), coordinator="adm1", **fields
    )
    alone = verdict(Cluster("r2"), host("ctl1", "r1"), rollout=state, **fields)

    assert (paused.tone, paused.headline) == (Tone.HALTED, "The rollout is paused")
    assert (alone.tone, alone.headline) == (Tone.BAD, "The rollout does not continue")


def test_a_rollout_that_ended_with_failures_is_dated_by_its_end():
    state = begun_rollout(strategy(group("rest", hosts="ab")), plain_hosts("ab"))
    ended = replace(ended_rollout(advanced_rollout(state, "b")), revision="r2", ended=NOW - 720)
    fields = {"rollout": ended, "governed": True, "strategy": "s", "changed": NOW - 900}

    over = verdict(Cluster("r2"), host("a"), host("b", "r1"), **fields)
    failed = verdict(Cluster("r2"), host("a"), host("b", "r1", error="boom", since=NOW - 780), **fields)

    assert (over.headline, over.change, over.since.age) == (
        "The rollout ended with failures",
        "ended",
        "12 min ago",
    )
    assert (failed.headline, failed.change, failed.since.age) == ("1 host failed", "began", "13 min ago")


def test_a_group_that_waits_for_an_operator_shows_no_progress():
    plan = strategy(replace(group("rest", hosts="ab"), pace=Pace(manual=True)))
    state = begun_rollout(plan, plain_hosts("ab"), waiting="rest waits", waiting_since=NOW - 720)
    hosts = [host("a", "r1"), host("b", since=NOW - 30)]

    found = verdict(
        Cluster("r2"), *hosts, rollout=state, governed=True, coordinator="adm1", strategy="s", changed=NOW - 900
    )

    assert (found.tone, found.headline) == (Tone.HALTED, "Group rest waits for a decision")
    assert "'zkdeployment rollout promote rest --reason TEXT' continues" in found.sentence
    assert found.since is not None
    assert (found.since.age, found.trend) == ("12 min ago", "")


def test_hosts_in_no_group_are_mentioned():
    state = replace(begun_rollout(hosts={}), revision="r2")
    snapshot = FleetSnapshot(Cluster("r2"), published="r2", hosts=(host("h1"),), rollout=state)
    status = fleet_status(snapshot)
    excluded = replace(status.hosts[0], state=status.hosts[0].state.__class__.EXCLUDED, expected=False)

    found = fleet_verdict(snapshot, replace(status, hosts=(*status.hosts, excluded), converged=True), NOW)

    assert found.sentence == "1 more host is in no group of the strategy and keeps its revision."


def test_a_stale_snapshot_is_never_shown_as_good():
    found = verdict(Cluster("r2"), host("h1"), host("h2"), stale=True)

    assert (found.tone, found.headline) == (Tone.UNKNOWN, "Last known: all 2 hosts have the wanted revision")


COMMIT = CommitSummary("r3", "Ada Byron <ada@x>", "hello 9.9", NOW - 60)
LATER = replace(COMMIT, id="r4", time=NOW - 30)


def report(at, fetched):
    return SyncerReport("s1", "ok", 60, at, fetched)


def request(**fields):
    fields = {
        "id": "1",
        "by": "ann",
        "reason": "",
        "time": NOW - 20,
        "written": NOW - 20,
        "age_limit": 60,
    } | fields
    return PublicationRequest(**fields)


@pytest.mark.parametrize(
    ("fields", "tone", "headline", "happened"),
    [
        (
            {"refusal": Refusal("r3", ("web.zk:3:1: no such node",), NOW - 90)},
            Tone.HALTED,
            "The last push is not published",
            "refused 1 min ago",
        ),
        ({"request": request()}, Tone.BUSY, "A publication is requested", "requested 20 s ago"),
        (
            {"request": request(error="no")},
            Tone.HALTED,
            "A requested publication was not made",
            "requested 20 s ago",
        ),
        (
            {"request": request(age_limit=5)},
            Tone.HALTED,
            "A requested publication was not made",
            "requested 20 s ago",
        ),
        (
            {"syncer": SyncerReport("s1", "ok", 60, NOW - 600, NOW - 600)},
            Tone.UNKNOWN,
            "Newer commits may wait",
            "last read 10 min ago",
        ),
        (
            {"syncer": SyncerReport("s1", "no", 60, NOW, NOW - 600)},
            Tone.UNKNOWN,
            "Newer commits may wait",
            "last read 10 min ago",
        ),
        (
            {"syncer": SyncerReport("s1", "no candidate hosts", 60, NOW, NOW, (LATER, COMMIT))},
            Tone.BUSY,
            "2 commits wait",
            "committed 1 min ago",
        ),
    ],
)
def test_a_push_that_waits_or_was_refused_is_never_good(fields, tone, headline, happened):
    found = verdict(Cluster("r2"), host("h1"), **fields)

    assert (found.tone, found.headline) == (tone, headline)
    assert found.since is not None
    assert f"{found.change} {found.since.age}" == happened
    assert found.sentence.endswith(" The host has the wanted revision.")
    assert not found.shows_progress


def test_a_syncer_that_reads_the_repository_leaves_a_converged_fleet_good():
    assert verdict(Cluster("r2"), host("h1"), syncer=report(NOW - 100, NOW - 100)).tone is Tone.GOOD


def test_commits_that_were_published_after_the_report_of_the_syncer_no_longer_wait():
    syncer = SyncerReport("s1", "waits", 60, NOW, NOW, (LATER, replace(COMMIT, id="r2")))

    assert verdict(Cluster("r2"), host("h1"), syncer=syncer).headline == "1 commit waits"
    assert verdict(Cluster("r2"), host("h1"), syncer=replace(syncer, waiting=syncer.waiting[1:])).tone is Tone.GOOD


def test_the_verdict_names_the_time_at_which_it_expires():
    syncer = report(NOW, NOW - 30)

    assert verdict(Cluster("r2"), host("h1"), syncer=syncer).until == NOW + 150
    assert verdict(Cluster("r2"), host("h1"), syncer=syncer, request=request()).until == NOW + 40
    assert verdict(Cluster("r2"), host("h1"), syncer=report(NOW - 600, NOW - 600)).until is None
    assert verdict(Cluster("r2"), host("h1", "r1"), syncer=syncer).until is None


def test_the_verdict_counts_the_affected_hosts_and_dates_the_first_failure():
    failed = [host(name, error="boom", since=NOW - age) for name, age in (("h2", 240.0), ("h3", 60.0))]
    found = verdict(Cluster("r2"), host("h1"), *failed, host("h4", "r1"), changed=NOW - 900)

    assert found.affected == "2 failed, 1 behind"
    assert found.since is not None
    assert found.since.age == "4 min ago"


def test_the_verdict_shows_whether_it_is_getting_better():
    waiting = [host(f"w{number}", "r1") for number in range(20)]
    done = [host(f"d{number}", since=NOW - 30) for number in range(10)]

    moving = verdict(Cluster("r2"), *done, *waiting, changed=NOW - 900)
    stuck = verdict(Cluster("r2"), host("h1", since=NOW - 800), *waiting, changed=NOW - 900)

    assert moving.trend == "10 hosts finished in the last 5 min; the others take 10 min at this pace."
    assert stuck.trend == "No host finished in the last 5 min."
    ordered = verdict(Cluster("r2"), *done, *waiting, changed=NOW - 900, governed=True)
    assert ordered.trend == "10 hosts finished in the last 5 min."
    assert (moving.change, moving.since.age, moving.shows_progress) == ("wanted", "15 min ago", True)
    assert verdict(Cluster(None), *done, *waiting, stops=(FAILURE,)).trend == ""


def due(subject, since):
    return Decision(subject, "it is not approved", since, f"approve {subject}", DecisionForm("approve", "Approve"))


@pytest.mark.parametrize(
    ("hosts", "decisions", "tone", "headline"),
    [
        ([host("h1")], [due("intent shop", 9_000.0)], Tone.HALTED, "Intent shop waits for a decision"),
        ([host("h1")], [due("a", 9_500.0), due("b", 9_000.0)], Tone.HALTED, "2 decisions are due"),
        ([host("h1", "r1")], [due("intent shop", 9_000.0)], Tone.BUSY, "0 of 1 host have the wanted revision"),
        ([host("h1", error="boom")], [due("intent shop", 9_000.0)], Tone.BAD, "1 host failed"),
    ],
)
def test_a_fleet_that_has_the_wanted_revision_shows_which_decisions_are_due(hosts, decisions, tone, headline):
    found = verdict(Cluster("r2"), *hosts, decisions=tuple(decisions))

    assert (found.tone, found.headline) == (tone, headline)


def test_a_decision_that_is_due_is_shown_with_its_verb_and_its_begin():
    found = verdict(Cluster("r2"), host("h1"), decisions=(due("intent shop", 9_000.0),))

    assert found.sentence == (
        "Intent shop waits for a decision: it is not approved; 'approve intent shop' continues."
        " The host has the wanted revision."
    )
    assert found.since is not None
    assert found.since.age == "16 min ago"
