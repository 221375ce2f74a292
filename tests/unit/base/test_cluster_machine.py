import itertools

import pytest

from zkdeployment.base.cluster import (
    CLUSTER_TRANSITIONS,
    Cluster,
    ClusterEvent,
    ClusterState,
    Mandate,
    Retry,
    advance,
    retrying,
    succeeding,
)
from zkdeployment.base.errors import RefusedError

CLUSTERS = {
    ClusterState.RUNNING: Cluster("r1"),
    ClusterState.STOPPED: Cluster(None),
    ClusterState.HELD: Cluster(False),
    ClusterState.IMPORTING: Cluster("r1", importing="r2"),
}
EVERY_PAIR = [*itertools.product(ClusterState, ClusterEvent)]


@pytest.mark.parametrize(("state", "event"), [pair for pair in EVERY_PAIR if pair in CLUSTER_TRANSITIONS])
def test_an_event_of_the_table_leads_to_the_state_of_the_table(state, event):
    assert advance(CLUSTERS[state], event, "r2").state is CLUSTER_TRANSITIONS[state, event]


@pytest.mark.parametrize(
    ("state", "event"),
    [pair for pair in EVERY_PAIR if pair not in CLUSTER_TRANSITIONS and pair[1] is not ClusterEvent.REVERT],
)
def test_an_event_that_the_table_does_not_have_is_refused(state, event):
    with pytest.raises(RefusedError):
        advance(CLUSTERS[state], event, "r2")


@pytest.mark.parametrize(
    ("before", "event", "after"),
    [
        (Cluster("r1"), ClusterEvent.STOP, Cluster(None)),
        (Cluster("r1", importing="r2"), ClusterEvent.STOP, Cluster(None, importing="r2")),
        (Cluster("r1"), ClusterEvent.HOLD, Cluster(False)),
        (Cluster(None), ClusterEvent.RESUME, Cluster("r2")),
        (Cluster("r1"), ClusterEvent.BEGIN, Cluster("r1", importing="r2")),
        (Cluster(None), ClusterEvent.BEGIN, Cluster(None, importing="r2")),
        (Cluster("r1", importing="r2"), ClusterEvent.COMPLETE, Cluster("r2")),
        (Cluster(False, importing="r2"), ClusterEvent.COMPLETE, Cluster("r2")),
        (Cluster("r1", importing="r2"), ClusterEvent.REVERT, Cluster("r1")),
        (Cluster(False, importing="r2"), ClusterEvent.REVERT, Cluster(False)),
    ],
)
def test_an_event_changes_the_version_and_the_mark_of_a_publication(before, event, after):
    assert advance(before, event, "r2") == after


@pytest.mark.parametrize(
    ("cluster", "event", "revision", "message"),
    [
        (Cluster(None), ClusterEvent.HOLD, None, "a hold would lift that"),
        (Cluster("r1", importing="r2"), ClusterEvent.HOLD, None, "r2 is being published"),
        (Cluster(False, importing="r2"), ClusterEvent.HOLD, None, "r2 is being published"),
        (Cluster("r1"), ClusterEvent.RESUME, "r1", "neither stopped nor held: it is running at r1"),
        (Cluster(None), ClusterEvent.RESUME, None, "no revision is wholly published"),
        (Cluster(None, importing="r2"), ClusterEvent.RESUME, "r1", "no revision is wholly published"),
    ],
)
def test_a_refusal_names_the_state_that_prevents_the_event(cluster, event, revision, message):
    with pytest.raises(RefusedError, match=message):
        advance(cluster, event, revision)


def test_an_encoded_cluster_is_the_same_after_decoding_and_other_properties_stay():
    for cluster in CLUSTERS.values():
        properties = cluster.properties({"owner": "ops", "version": "r0", "importing": "r9"}, stamp=7)
        assert Cluster.from_properties(properties, stamp=7) == cluster
        assert properties["owner"] == "ops"


RETRIED = retrying(Cluster(None), "h1", "r1")
WRITTEN = RETRIED.properties({"other": 1, "importing": "r0"}, stamp=7)


def test_a_retry_is_a_mandate_of_its_host_alone_until_it_has_succeeded():
    assert RETRIED.state is ClusterState.STOPPED
    assert RETRIED.mandate("h1") == Mandate("r1", is_retry=True)
    assert RETRIED.mandate("h2") is None
    after = succeeding(RETRIED, "h1", "r1")
    assert after == Cluster(None, retry=Retry("h1", "r1", succeeded=True))
    assert after.mandate("h1") is None
    assert Cluster.from_properties(after.properties({}, stamp=8), stamp=8) == after


@pytest.mark.parametrize(
    ("cluster", "host", "revision"),
    [
        (RETRIED, "h2", "r1"),
        (RETRIED, "h1", "r2"),
        (Cluster("r1"), "h1", "r1"),
        (Cluster(None), "h1", "r1"),
        (Cluster(None, retry=Retry("h1", "r1", succeeded=True)), "h1", "r1"),
    ],
)
def test_a_success_uses_up_only_the_retry_with_which_the_host_deployed(cluster, host, revision):
    assert succeeding(cluster, host, revision) is None


def test_the_mandate_of_a_retry_is_not_that_of_the_same_revision_in_a_running_fleet():
    resumed = advance(RETRIED, ClusterEvent.RESUME, "r1")
    assert resumed.mandate("h1") == resumed.mandate("h2") == Mandate("r1")
    assert resumed.mandate("h1") != RETRIED.mandate("h1")
    assert [str(cluster.mandate("h1")) for cluster in (resumed, RETRIED)] == ["r1", "a retry of r1"]


@pytest.mark.parametrize("version", [None, False, "r1", "r2"])
def test_a_version_that_is_set_by_hand_ends_a_retry_also_if_it_keeps_all_other_properties(version):
    by_hand = WRITTEN | {"version": version}
    assert Cluster.from_properties(by_hand, stamp=8) == Cluster(version)
    assert Cluster.from_properties(by_hand | {"version": None}, stamp=9) == Cluster(None)


def test_a_writer_that_knows_a_retry_renews_it():
    again = Cluster.from_properties(WRITTEN, stamp=7).properties(WRITTEN, stamp=8)
    assert Cluster.from_properties(again, stamp=8) == RETRIED


def test_properties_keep_a_retry_only_while_the_fleet_is_stopped():
    retry = {"host": "h1", "revision": "r1", "stamp": 7}
    assert {"other": 1, "version": None, "retry": retry} == WRITTEN
    assert Cluster.from_properties(WRITTEN, stamp=7) == RETRIED
    assert Cluster.from_properties(WRITTEN | {"version": "r1"}, stamp=7) == Cluster("r1")
    assert Cluster.from_properties(WRITTEN | {"importing": "r2"}, stamp=7) == Cluster(None, importing="r2")


@pytest.mark.parametrize(
    "value",
    [
        None,
        "h1",
        {"host": 1, "revision": "r1", "stamp": 7},
        {"host": "h1", "revision": True, "stamp": 7},
        {"host": "h1", "revision": "r1"},  # of a version that did not name the stop
        {"host": "h1", "revision": "r1", "stamp": "7"},
    ],
)
def test_a_malformed_retry_is_none(value):
    assert Cluster.from_properties({"version": None, "retry": value}, stamp=7) == Cluster(None)


@pytest.mark.parametrize("event", [event for event in ClusterEvent if event is not ClusterEvent.HOLD])
def test_every_event_ends_a_retry(event):
    after = advance(RETRIED, event, "r2")
    assert after.retry is None
    assert "retry" not in after.properties(WRITTEN, stamp=8)


@pytest.mark.parametrize(
    ("cluster", "revision", "message"),
    [
        (
            Cluster("r1"),
            "r1",
            "the fleet is running, and .*: hosts try again by themselves.* when the running one",
        ),
        (Cluster("r1", importing="r2"), "r2", "the fleet is importing, and .* when the publication is complete"),
        (Cluster(False), "r1", "the fleet is held, and .*: 'zkdeployment resume' ends the hold"),
        (Cluster(None), None, "no revision is wholly published"),
        (Cluster(None, importing="r2"), "r1", "no revision is wholly published"),
    ],
)
def test_a_retry_needs_a_stopped_fleet_and_a_published_revision(cluster, revision, message):
    with pytest.raises(RefusedError, match=message):
        retrying(cluster, "h1", revision)
