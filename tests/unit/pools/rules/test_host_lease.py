"""Leases of hosts: their progress, their signatures, and the baseline of a host."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zkdeployment.agent.rules.lease import Lease
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.errors import TreeError, UntrustedError
from zkdeployment.base.host import Host, Identity, Leased
from zkdeployment.pools.rules.host_lease import (
    HostBaseline,
    LeaseProgress,
    LeaseSnapshot,
    LeaseStage,
    SignedLease,
    VerifiedLease,
    accepted_lease,
    lease_progress,
    lease_text,
    next_signed_number,
    require_no_lease,
    require_signature,
    shown_differences,
)

LEASE = Lease("ci", 7)


def host(**values):
    values = {"version": "r1", "leased": LEASE.reached, "idle_role": "spare", **values}
    return Host(Identity("h1", "h1.lan", "ci"), **values)


def progress(seen, *, lease=LEASE, version="r1", needs_version=True, has_acted=True):
    observation = LeaseSnapshot(lease, seen, Cluster(version), has_acted)
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


SIGNED = Lease("ci", 5, ("ssh-ed25519 AAAA alice",))
TEXT = lease_text("h1", SIGNED)


def test_the_text_binds_the_role_the_keys_and_the_number_to_the_host():
    assert TEXT == (
        '{"host":"h1","keys":["ssh-ed25519 AAAA alice"],"number":5,"role":"ci",'
        '"schema":"zkdeployment/signed-lease/v1"}'
    )
    others = [lease_text("h2", SIGNED), *(lease_text("h1", replace(SIGNED, **change)) for change in CHANGES)]
    assert len({TEXT, *others}) == len(others) + 1


CHANGES = ({"role": "spare"}, {"number": 6}, {"keys": ()})


def test_a_larger_number_and_the_same_lease_are_accepted():
    known = accepted_lease(TEXT, SIGNED, VerifiedLease())
    assert known.number == 5
    assert accepted_lease(TEXT, SIGNED, known) == known
    later = replace(SIGNED, number=6)
    assert accepted_lease(lease_text("h1", later), later, known).number == 6


def test_an_old_lease_another_one_of_the_same_number_and_a_missing_one_are_refused():
    known = accepted_lease(TEXT, SIGNED, VerifiedLease())
    old, other = replace(SIGNED, number=4), replace(SIGNED, role="spare")
    with pytest.raises(UntrustedError, match="expected number 5 or a larger one, found 4"):
        accepted_lease(lease_text("h1", old), old, known)
    with pytest.raises(UntrustedError, match="has the number of another one"):
        accepted_lease(lease_text("h1", other), other, known)
    with pytest.raises(UntrustedError, match="is gone: expected lease 5"):
        require_no_lease(known)
    require_no_lease(VerifiedLease())


def test_a_lease_without_a_signature_is_refused():
    require_signature(SignedLease(SIGNED, "x"))
    with pytest.raises(UntrustedError, match="the lease of this host is not signed"):
        require_signature(SignedLease(SIGNED))


def test_the_number_of_a_new_lease_follows_the_time_and_grows():
    assert [next_signed_number(verified, 1000.9) for verified in (0, 999, 1000, 1005)] == [1000, 1000, 1001, 1006]
    with pytest.raises(TreeError, match="expected a number near the time 1000, found 87402"):
        next_signed_number(87_402, 1000.0)


def test_changes_by_a_tenant_are_differences_but_changes_by_the_role_are_not():
    baseline = HostBaseline(
        frozenset({"both", "idle only", "gone with the role"}), frozenset({"both", "of the role"})
    )
    assert baseline.differences(frozenset({"both", "idle only", "of the role"})) == []
    assert baseline.differences(frozenset({"idle only", "backdoor"})) == ["new: backdoor", "missing: both"]


def test_a_host_that_never_ran_the_role_is_compared_with_its_idle_state_alone():
    assert HostBaseline(frozenset({"a"})).differences(frozenset({"b"})) == ["new: b", "missing: a"]


def test_a_baseline_is_stored_as_json_and_other_values_give_none():
    for leased in (None, frozenset({"x"})):
        baseline = HostBaseline(frozenset({"a", "b"}), leased, is_lent=True)
        assert HostBaseline.if_valid(baseline.to_json()) == baseline
    assert HostBaseline.if_valid({"idle": 1}) is None


def test_a_message_has_ten_differences_and_the_number_of_further_ones():
    assert shown_differences([f"new: {number}" for number in range(12)]).endswith("new: 9; and 2 more")
    assert shown_differences(["new: a"]) == "new: a"
