from ipaddress import ip_network

import pytest

from zkdeployment.service.users.external_logins import ExternalUser, TrustedProxies, group_rule
from zkdeployment.service.users.user import Role

PROXIES = TrustedProxies(
    networks=(ip_network("192.0.2.5"), ip_network("10.1.0.0/16"), ip_network("2001:db8::/32")),
    user_header="X-Remote-User",
    groups_header="X-Remote-Groups",
    roles=(group_rule(Role.OPERATOR, "ops"), group_rule(Role.VIEWER, "staff")),
)
PROXY = "192.0.2.5"


@pytest.mark.parametrize("address", ["192.0.2.5", "::ffff:192.0.2.5", "10.1.255.1", "2001:db8::1"])
def test_proxies_are_trusted(address):
    assert PROXIES.trusts(address)


@pytest.mark.parametrize("address", ["192.0.2.6", "10.2.0.1", "::1", "", "localhost", "192.0.2.5.example.com"])
def test_others_are_not_trusted(address):
    assert not PROXIES.trusts(address)
    assert not TrustedProxies().trusts(address)


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("198.51.100.1", ["203.0.113.9"], "198.51.100.1"),
        (PROXY, [], PROXY),
        (PROXY, ["198.51.100.1"], "198.51.100.1"),
        (PROXY, ["203.0.113.9, 198.51.100.1"], "198.51.100.1"),
        (PROXY, ["203.0.113.9", "198.51.100.1, 10.1.0.1"], "198.51.100.1"),
        (PROXY, ["10.1.0.1"], "10.1.0.1"),
        (PROXY, ["192.0.2.9, <b>"], PROXY),
    ],
)
def test_the_client_is_the_last_address_that_is_not_a_proxy(peer, forwarded, client):
    assert PROXIES.client_address(peer, forwarded) == client


def test_the_person_in_a_proxys_headers_has_the_role_of_its_groups():
    assert PROXIES.external_user(PROXY, ["ann"], ["staff, ops"]) == ExternalUser("ann", Role.OPERATOR, "proxy")
    assert PROXIES.external_user(PROXY, ["ann"], ["staff"]) == ExternalUser("ann", Role.VIEWER, "proxy")


def test_headers_of_others_are_ignored():
    assert PROXIES.external_user("198.51.100.1", ["ann"], ["ops"]) is None
    assert PROXIES.external_user(PROXY, [], ["ops"]) is None
    assert TrustedProxies(networks=PROXIES.networks).external_user(PROXY, ["ann"], ["ops"]) is None


@pytest.mark.parametrize(
    ("users", "groups", "problem"),
    [
        (["ann", "root"], ["ops"], "expected one short name in the header X-Remote-User"),
        (["a b"], ["ops"], "expected one short name in the header X-Remote-User"),
        ([""], ["ops"], "expected one short name in the header X-Remote-User"),
        (["ann"], ["others"], "no role is configured for ann"),
        (["ann"], [], "no role is configured for ann"),
    ],
)
def test_a_person_without_a_usable_name_or_a_role_is_not_a_user(users, groups, problem):
    assert problem in PROXIES.external_user(PROXY, users, groups)
