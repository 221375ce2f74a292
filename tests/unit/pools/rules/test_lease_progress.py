"""How far a host is with a lease."""

import pytest

from zkdeployment.agent.rules.lease import Lease
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.host import Host, Identity, Leased
from zkdeployment.pools.rules.host_lease import LeaseObservation, LeaseProgress, LeaseStage, lease_progress

LEASE = Lease("ci", 7)


def host(**values):
    values = {"version": "r1", "leased": LEASE.reached, "idle_role": "spare", **values}
    return Host(Identity("h1", "h1.lan", "ci"), **values)


def progress(seen, *, lease=LEASE, version="r1", needs_version=True, has_acted=True):
    observation = LeaseObservation(lease, seen, Cluster(version), has_acted)
    return lease_progress(observation, LEASE, needs_version=needs_version)


def test_a_lease_is_reached_at_the_cluster_version_and_without_an_error_if_that_is_asked_for():
    assert progress(host()).stage is LeaseStage.REACHED
    assert progress(host(version="r0")).stage is LeaseStage.WAITING
    assert progress(host(error="no disk")) == LeaseProgress(LeaseStage.FAILED, "no disk")
    assert progress(host(version="r0", error="no disk"), needs_version=False).stage is LeaseStage.REACHED
    assert progress(host(), version=None).stage is LeaseStage.HALTED


def test_an_error_from_before_the_lease_does_not_count():
    assert progress(host(leased=None, error="old"), has_acted=False).stage is LeaseStage.WAITING
    assert progress(host(leased=Leased("spare", 6), error="new")).stage is LeaseStage.FAILED


def test_an_error_that_a_host_repeats_for_the_lease_counts():
    repeated = host(leased=None, error="old", lease_failed=7)
    assert progress(repeated, has_acted=False) == LeaseProgress(LeaseStage.FAILED, "old")
    former = host(leased=None, error="old", lease_failed=6)
    assert progress(former, has_acted=False).stage is LeaseStage.WAITING


@pytest.mark.parametrize(
    ("seen", "version", "reason"),
    [
        (host(leased=None, step="deploy /web 0"), "r1", "the host is at: deploy /web 0"),
        (host(leased=Leased("spare", 6)), "r1", "the host has not begun"),
        (host(leased=Leased("spare", 6)), None, "the cluster is stopped"),
        (host(leased=Leased("spare", 6)), False, "the cluster is held"),
    ],
)
def test_the_reason_of_a_wait_is_known(seen, version, reason):
    stage = LeaseStage.WAITING if version else LeaseStage.HALTED
    assert progress(seen, version=version) == LeaseProgress(stage, reason)


def test_a_lease_that_the_host_can_no_longer_reach_has_failed():
    assert progress(None).stage is LeaseStage.ABSENT
    assert "expected role = lease:IDLE in its configuration, found ci" in progress(host(idle_role=None)).reason
    for other, found in ((None, "no lease"), (Lease("ci", 8), "number 8")):
        found_progress = progress(host(), lease=other)
        assert found_progress.stage is LeaseStage.FAILED
        assert found_progress.reason.endswith(f"expected number 7, found {found}")
