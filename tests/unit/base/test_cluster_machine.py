import itertools

import pytest

from zkdeployment.base.cluster import CLUSTER_TRANSITIONS, Cluster, ClusterEvent, ClusterState, advance
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
        properties = cluster.properties({"owner": "ops", "version": "r0", "importing": "r9"})
        assert Cluster.from_properties(properties) == cluster
        assert properties["owner"] == "ops"
