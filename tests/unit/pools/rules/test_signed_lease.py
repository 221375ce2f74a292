"""The text of a signed lease, and the leases that a host accepts after an earlier one."""

from dataclasses import replace

import pytest

from zkdeployment.agent.rules.lease import Lease
from zkdeployment.base.errors import TreeError, UntrustedError
from zkdeployment.pools.rules.host_lease import (
    SignedLease,
    VerifiedLease,
    accepted_lease,
    lease_text,
    next_signed_number,
    require_no_lease,
    require_signature,
)

LEASE = Lease("ci", 5, ("ssh-ed25519 AAAA alice",))
TEXT = lease_text("h1", LEASE)


def test_the_text_binds_the_role_the_keys_and_the_number_to_the_host():
    assert TEXT == (
        '{"host":"h1","keys":["ssh-ed25519 AAAA alice"],"number":5,"role":"ci",'
        '"schema":"zkdeployment/signed-lease/v1"}'
    )
    others = [lease_text("h2", LEASE), *(lease_text("h1", replace(LEASE, **change)) for change in CHANGES)]
    assert len({TEXT, *others}) == len(others) + 1


CHANGES = ({"role": "spare"}, {"number": 6}, {"keys": ()})


def test_a_larger_number_and_the_same_lease_are_accepted():
    known = accepted_lease(TEXT, LEASE, VerifiedLease())
    assert known.number == 5
    assert accepted_lease(TEXT, LEASE, known) == known
    later = replace(LEASE, number=6)
    assert accepted_lease(lease_text("h1", later), later, known).number == 6


def test_an_old_lease_another_one_of_the_same_number_and_a_missing_one_are_refused():
    known = accepted_lease(TEXT, LEASE, VerifiedLease())
    old, other = replace(LEASE, number=4), replace(LEASE, role="spare")
    with pytest.raises(UntrustedError, match="expected number 5 or a larger one, found 4"):
        accepted_lease(lease_text("h1", old), old, known)
    with pytest.raises(UntrustedError, match="has the number of another one"):
        accepted_lease(lease_text("h1", other), other, known)
    with pytest.raises(UntrustedError, match="is gone: expected lease 5"):
        require_no_lease(known)
    require_no_lease(VerifiedLease())


def test_a_lease_without_a_signature_is_refused():
    require_signature(SignedLease(LEASE, "x"))
    with pytest.raises(UntrustedError, match="the lease of this host is not signed"):
        require_signature(SignedLease(LEASE))


def test_the_number_of_a_new_lease_follows_the_time_and_grows():
    assert [next_signed_number(verified, 1000.9) for verified in (0, 999, 1000, 1005)] == [1000, 1000, 1001, 1006]
    with pytest.raises(TreeError, match="expected a number near the time 1000, found 87402"):
        next_signed_number(87_402, 1000.0)
