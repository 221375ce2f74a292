import pytest

from zkdeployment.service.access.headers import is_known_host
from zkdeployment.service.site import Site

SITE = Site(hosts=frozenset({"deploy.example.com", "127.0.0.1"}), authority="deploy.example.com")


@pytest.mark.parametrize(
    ("header", "local"),
    [
        ("deploy.example.com", "192.0.2.7"),
        ("deploy.example.com:8420", "192.0.2.7"),
        ("DEPLOY.example.com", "192.0.2.7"),
        ("127.0.0.1:8420", "127.0.0.1"),
        ("localhost:8420", "127.0.0.1"),
        ("192.0.2.7", "192.0.2.7"),
        ("[2001:db8::7]:8420", "2001:db8::7"),
    ],
)
def test_the_service_answers_to_its_names_and_to_the_address_of_the_connection(header, local):
    assert is_known_host(header, SITE, local)


@pytest.mark.parametrize(
    "header",
    [
        "evil.example",
        "evil.example:8420",
        "deploy.example.com.evil.example",
        "deploy.example.com@evil.example",
        "evil.example@deploy.example.com",
        "192.0.2.8",
        "localhost",
        "[2001:db8::7",
        "deploy.example.com:x",
        "",
    ],
)
def test_other_names_are_unknown(header):
    assert not is_known_host(header, SITE, "192.0.2.7")
