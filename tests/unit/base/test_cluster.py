import pytest

from zkdeployment.base.cluster import Cluster, ClusterState, is_revision


@pytest.mark.parametrize(
    ("properties", "state", "revision"),
    [
        ({"version": "abc"}, ClusterState.RUNNING, "abc"),
        ({"version": 1112}, ClusterState.RUNNING, 1112),
        ({"version": None}, ClusterState.STOPPED, None),
        ({}, ClusterState.STOPPED, None),
        ({"version": True}, ClusterState.STOPPED, None),
        ({"version": ["x"]}, ClusterState.STOPPED, None),
        ({"version": False}, ClusterState.HELD, None),
        ({"version": "abc", "importing": "def"}, ClusterState.IMPORTING, None),
        ({"version": "abc", "importing": None}, ClusterState.RUNNING, "abc"),
        ({"version": None, "importing": "def"}, ClusterState.STOPPED, None),
    ],
)
def test_the_cluster_version_determines_the_state(properties, state, revision):
    cluster = Cluster.from_properties(properties, stamp=1)
    assert cluster.state is state
    assert cluster.revision == revision


@pytest.mark.parametrize(("hosts", "seconds"), [(0, 0), (1, 0), (50, 0), (51, 0.001), (1050, 1), (10_050, 10)])
def test_a_large_fleet_spreads_the_start_of_its_hosts_and_a_small_fleet_does_not(hosts, seconds):
    assert Cluster("abc", hosts=hosts).start_spread == seconds


def test_clusters_with_any_numbers_of_hosts_are_equal():
    assert Cluster("abc", hosts=1) == Cluster("abc", hosts=2)


def test_a_revision_is_text_or_a_whole_number():
    assert is_revision("a")
    assert is_revision(0)
    assert not is_revision(False)
    assert not is_revision(None)
    assert not is_revision(1.5)
