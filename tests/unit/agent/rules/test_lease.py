"""Leases: their form, and the keys that a host may admit."""

import pytest

from support.builders import make_host
from zkdeployment.agent.rules.lease import (
    Lease,
    LeaseRecord,
    admissible_keys,
    first_record,
    lease_from_properties,
    lease_problem,
    revoked_keys,
)
from zkdeployment.base.host import Host, Leased, idle_role

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGr0wLQxlKkTqcTZyRzFLq1o8dYwqkUQmfBwF0pGb1vF alice@laptop"
OTHER = KEY.replace("alice", "bob")


def test_a_lease_is_read_back_unchanged():
    lease = Lease("ci-web", 7, (KEY, OTHER))
    assert lease_from_properties(lease.to_json()) == lease


def test_a_lease_without_a_list_of_keys_has_no_keys():
    assert lease_from_properties({"role": "ci-web", "number": 7}) == Lease("ci-web", 7)


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({}, "expected a role, a number from 1 on, and a list of keys"),
        ({"role": "ci", "number": 0}, "expected a role, a number from 1 on"),
        ({"role": "ci", "number": True}, "expected a role, a number from 1 on"),
        ({"role": "../ci", "number": 1, "keys": []}, "is not a role"),
        ({"role": "ci", "number": 1, "keys": None}, "keys: expected a list of 100 SSH keys at most"),
        ({"role": "ci", "number": 1, "keys": KEY}, "keys: expected a list of 100 SSH keys at most"),
        ({"role": "ci", "number": 1, "keys": [KEY] * 101}, "keys: expected a list of 100 SSH keys at most"),
        ({"role": "ci", "number": 1, "keys": [f"command=/bin/sh {KEY}"]}, "expected one line, TYPE KEY [COMMENT]"),
        ({"role": "ci", "number": 1, "keys": [f"{KEY}\n{OTHER}"]}, "expected one line, TYPE KEY [COMMENT]"),
    ],
)
def test_other_values_are_not_leases(properties, problem):
    assert problem in lease_problem(properties)
    with pytest.raises(ValueError, match="expected"):
        lease_from_properties(properties)


def test_a_record_is_read_back_unchanged_and_other_values_give_none():
    record = LeaseRecord(Lease("ci", 7, (KEY,)), is_reached=True)
    assert LeaseRecord.if_valid(record.to_json()) == record
    assert LeaseRecord.if_valid({"role": "ci"}) is None


def test_a_host_without_a_record_is_idle_and_has_reached_that_if_it_has_a_version():
    assert first_record(None, "spare", has_version=True) == LeaseRecord(Lease("spare", 0), is_reached=True)
    assert not first_record(None, "spare", has_version=False).is_reached


def test_new_keys_are_admitted_only_when_the_role_is_reached_and_others_never_stay():
    lease = Lease("ci", 7, (KEY,))
    assert admissible_keys(lease, [OTHER], is_reached=True) == (KEY,)
    assert admissible_keys(lease, [OTHER], is_reached=False) == ()
    assert admissible_keys(lease, [OTHER, KEY], is_reached=False) == (KEY,)
    assert revoked_keys(lease, [OTHER, KEY]) == {OTHER}


def test_the_node_of_a_host_that_can_be_leased_shows_what_it_reached():
    host = make_host("h1", "r1", "ci", idle_role="spare", leased=Leased("ci", 7))
    properties = host.properties()
    assert (properties["lease"], properties["leased"]) == ("spare", {"role": "ci", "number": 7})
    assert Host.from_properties("h1", properties) == host
    assert Host.from_properties("h1", {**properties, "leased": "ci"}).leased is None


def test_the_configured_role_of_a_host_that_can_be_leased_has_a_prefix():
    assert (idle_role("lease:spare"), idle_role("spare")) == ("spare", None)
