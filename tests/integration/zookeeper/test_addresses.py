"""The servers that a connection string resolves to."""

import socket

import pytest

from zkdeployment.base.errors import RefusedError
from zkdeployment.zookeeper.access import check_addresses

NAMES = {
    "zookeeper": ["192.0.2.1"],
    "both": ["192.0.2.1", "2001:db8::1"],
    "production": ["192.0.2.9"],
}


@pytest.fixture(autouse=True)
def names(monkeypatch):
    def resolve(host, _port):
        if host not in NAMES and not host[0].isdigit():
            raise socket.gaierror(-2, "Name or service not known")
        return [(0, 0, 0, "", (address, 0)) for address in NAMES.get(host, [host])]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.mark.parametrize(
    ("connection", "expected"),
    [
        ("zookeeper:2181", ["192.0.2.1"]),
        ("192.0.2.1:2181/chroot", ["192.0.2.1"]),
        ("both:2181", ["192.0.2.1", "2001:DB8:0::1"]),
        ("zookeeper:2181,production:2181", ["192.0.2.9", "192.0.2.1", "192.0.2.2"]),
    ],
)
def test_servers_with_expected_addresses_only_are_accepted(connection, expected):
    check_addresses(connection, expected)


@pytest.mark.parametrize(
    ("connection", "expected", "addresses"),
    [
        ("production:2181", ["192.0.2.1"], "production at 192.0.2.9"),
        ("zookeeper,production:2181", ["192.0.2.1"], "production at 192.0.2.9"),
        ("both:2181", ["192.0.2.1"], "both at 2001:db8::1"),
        ("192.0.2.9:2181", ["192.0.2.1"], "192.0.2.9"),
        ("nowhere:2181", ["192.0.2.1"], "nowhere without an address (Name or service not known)"),
    ],
)
def test_a_server_with_another_address_is_refused(connection, expected, addresses):
    with pytest.raises(RefusedError) as refused:
        check_addresses(connection, expected)
    assert f"expected only 192.0.2.1 behind {connection}, found {addresses}; correct" in str(refused.value)
