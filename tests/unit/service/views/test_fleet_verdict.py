"""The headline of the front page: it has to be true for a reader who sees only this line."""

from dataclasses import replace

import pytest

from support.builders import make_host
from support.builders import make_known_host as absent
from support.strategies import active_rollout, begun_rollout
from zkdeployment.base.act import Act
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.stop import COORDINATOR, Stop
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import fleet_status
from zkdeployment.service.views.fleet import Tone, fleet_verdict

NOW = 10_000.0
ACT = Act("ann", "stop", "web loses sessions", 9_940.0)
FAILURE = Stop("h1", "h1.example.com", "r2", "deploy /shop/web 0", "exit status 1", 9_990.0)


def host(name, version="r2", **fields):
    return make_host(name, version, **fields)


def verdict(cluster, *hosts, stale=False, **fields):
    snapshot = FleetSnapshot(cluster, published="r2", hosts=hosts, **fields)
    return fleet_verdict(snapshot, fleet_status(snapshot), NOW, stale=stale)


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
    assert found.sentence == "h1.example.com failed. No host starts a step until an operator resumes the fleet."


def test_many_failures_are_counted():
    stops = (FAILURE, replace(FAILURE, host_id="h2", host_name="h2.example.com"))

    assert verdict(Cluster(None), stops=stops).sentence.startswith("2 hosts failed.")


def test_the_stop_of_a_failed_rollout_is_a_failure():
    stop = Stop.of_operator(Act(COORDINATOR, "stop", "group web failed", 9_990.0))

    found = verdict(Cluster(None), host("h1"), stops=(stop,))

    assert (found.tone, found.sentence[:42]) == (Tone.BAD, "A critical group of the rollout failed. No")


def test_a_stop_and_a_hold_by_an_operator_name_the_operator():
    stopped = verdict(Cluster(None), host("h1"), stops=(Stop.of_operator(ACT),))
    held = verdict(Cluster(False), host("h1"), stops=(Stop.of_operator(replace(ACT, what="hold")),))

    assert (stopped.tone, held.tone) == (Tone.HALTED, Tone.HALTED)
    assert stopped.sentence.startswith("ann stopped the fleet 1 min ago.")
    assert held.sentence.startswith("ann held the fleet 1 min ago.")


def test_hosts_that_are_absent_are_not_forgotten():
    found = verdict(Cluster("r2"), host("h1"), absent=(absent("h2"),), targets=frozenset({"h2"}))

    assert (found.tone, found.sentence, found.percent) == (Tone.HALTED, "1 host is absent.", 50)


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
