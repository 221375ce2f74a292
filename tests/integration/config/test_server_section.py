"""The section ``[server]`` of the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from zkdeployment.config.load import load
from zkdeployment.config.settings import ServerSettings
from zkdeployment.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def server(tmp_path: Path):
    """Return a function that loads a configuration with these lines in ``[server]``."""

    def read(*lines: str) -> ServerSettings:
        file = tmp_path / "zkdeployment.cfg"
        file.write_text("\n".join(["[zkdeployment]", "[server]", *lines]))
        return load(file, host=False).server

    return read


def test_the_default_is_a_loopback_address(server):
    assert server() == ServerSettings(host="127.0.0.1", port=8420)
    assert server().url == "http://127.0.0.1:8420"


@pytest.mark.parametrize("listen", ["127.0.0.9:80", "[::1]:8420", "localhost:0"])
def test_loopback_addresses_need_no_encryption(server, listen):
    assert server(f"listen = {listen}").listen == listen


@pytest.mark.parametrize("listen", ["0.0.0.0:8420", "[::]:8420", "192.0.2.1:8420", "app1.example.com:443"])
def test_other_addresses_need_a_certificate_or_a_permission(server, listen):
    with pytest.raises(ConfigurationError, match="would cross the network unencrypted"):
        server(f"listen = {listen}")
    assert server(f"listen = {listen}", "plain-text = yes").listen == listen
    encrypted = server(f"listen = {listen}", "certificate = /c.pem", "key = /k.pem")
    assert encrypted.url.startswith("https://")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("listen = 8420", "listen: expected ADDRESS:PORT"),
        ("listen = 127.0.0.1:66000", "listen: expected ADDRESS:PORT"),
        ("listen = [fe80]:1", "listen: expected an IPv6 address"),
        ("certificate = /c.pem", "expected both certificate and key"),
        ("plain-text = perhaps", "plain-text: expected yes or no"),
        ("base-url = deploy.example.com", "base-url: expected http://HOST"),
        ("base-url = https://deploy.example.com/path", "base-url: expected http://HOST"),
        ("base-url = https://user@deploy.example.com", "base-url: expected http://HOST"),
        ("users-acl = creator:cdrwa", "creator requires zookeeper-credentials"),
        ("listem = 127.0.0.1:1", "did you mean listen"),
    ],
)
def test_a_wrong_value_is_an_error_that_says_what_was_expected(server, line, problem):
    with pytest.raises(ConfigurationError, match=problem):
        server(line)


def test_the_base_url_is_the_address_for_people(server):
    settings = server("base-url = https://deploy.example.com/")
    assert settings.url == "https://deploy.example.com"
