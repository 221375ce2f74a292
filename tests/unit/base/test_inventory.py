from itertools import pairwise

import pytest

from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import KnownHost, absent_hosts, version_key


def test_known_hosts_are_absent_unless_they_are_registered_or_their_name_belongs_to_another_host():
    known = [KnownHost(Identity(host_id, name)) for host_id, name in (("1", "app1"), ("2", "app2"), ("3", "app3"))]
    hosts = [Host(Identity("1", "app1")), Host(Identity("9", "app3"))]
    assert [host.identity.id for host in absent_hosts(known, hosts)] == ["2"]


ORDERED = [
    ["1.0", "2.0", "2.0.1"],
    ["1.9", "1.10"],
    ["1.2", "1.2.dev0", "1.2.0"],
    ["1.2~dev0", "1.2", "1.2^git1", "1.2.1"],
    ["1.0~rc1", "1.0~rc1^git1", "1.0~rc2", "1.0", "1.0^", "1.0^20160101", "1.0^20160102", "1.01"],
    ["1.0~~", "1.0~", "1.0", "1.0a", "1.0.1"],
    ["", "A", "a", "a1", "aa", "1"],
    ["5.5p1", "5.5p2", "5.5p10", "5.6p1"],
    ["xyz.4", "xyz.4.1", "8"],
    ["2a", "2.0"],
    ["1.0^20160101^git1", "1.0.1"],
    ["20101121", "20101122"],
    ["4.999.9", "5.0"],
]

EQUAL = [("1.0", "1_0"), ("1.05", "1.5"), ("1.0.", "1.0"), ("1..0", "1.0"), ("0001", "1"), ("a+b", "a_b")]


@pytest.mark.parametrize("versions", ORDERED, ids=" ".join)
def test_versions_are_ordered_as_rpm_does(versions):
    for low, high in pairwise(versions):
        assert version_key(low) < version_key(high)


@pytest.mark.parametrize(("first", "other"), EQUAL)
def test_separators_and_leading_zeros_do_not_count(first, other):
    assert version_key(first) == version_key(other)


def test_numbers_of_any_length_are_compared():
    assert version_key("1" * 9000) < version_key("2" * 9000)
