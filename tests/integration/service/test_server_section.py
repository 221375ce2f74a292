"""The section ``[server]`` of the configuration."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.config.settings import load
from zkdeployment.fleet.webhooks.sender import WEBHOOK_KINDS, Webhook
from zkdeployment.service.settings import ServerSettings
from zkdeployment.service.users.external_logins import OpenIdClient, RoleRule, TrustedProxies, group_rule
from zkdeployment.service.users.user import Role


@pytest.fixture
def server(tmp_path: Path):
    """Return a function that loads a configuration with these lines in ``[server]``."""

    def read(*lines: str) -> ServerSettings:
        file = tmp_path / "zkdeployment.cfg"
        file.write_text("\n".join(["[zkdeployment]", "[server]", *lines]))
        return load(file, host=False).require(ServerSettings)

    return read


def test_the_default_is_a_loopback_address(server):
    assert server() == ServerSettings(listen="127.0.0.1:8420", connections_per_address=999_999)
    assert (server().host, server().port) == ("127.0.0.1", 8420)
    assert server().url == "http://127.0.0.1:8420"


def test_clients_behind_a_proxy_on_this_machine_share_no_limit_of_one_address(server):
    def connections(*lines: str) -> int:
        return server(*lines).limits.connections_per_address

    assert connections() == 999_999
    assert connections("listen = [::1]:8420", "connections-per-address = 20") == 20
    assert connections("proxies = 127.0.0.1") == 250
    assert connections("listen = 192.0.2.1:8420", "plain-text = yes") == 250


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
def test_a_wrong_value_is_an_error_with_the_expected_form(server, line, problem):
    with pytest.raises(ConfigurationError, match=problem):
        server(line)


def test_the_base_url_is_the_address_for_people(server):
    settings = server("base-url = https://deploy.example.com/")
    assert settings.url == "https://deploy.example.com"


def test_an_openid_provider_has_rules_for_roles(server):
    assert server().openid is None
    settings = server(
        "openid-issuer = https://id.example.com/realms/ops",
        "openid-client-id = zkdeployment",
        "openid-client-secret = /etc/zkdeployment/openid.secret",
        "openid-scopes = openid email",
        "openid-name = email",
        "openid-roles =",
        "    admin realm_access.roles fleet admins",
        "    viewer *",
    )
    rules = (RoleRule(Role.ADMIN, "realm_access.roles", "fleet admins"), RoleRule(Role.VIEWER, "", "*"))
    assert settings.openid == OpenIdClient(
        issuer="https://id.example.com/realms/ops",
        client_id="zkdeployment",
        scopes=("openid", "email"),
        name_claim="email",
        roles=rules,
    )
    assert (str(settings.openid_client_secret), settings.openid_ca) == ("/etc/zkdeployment/openid.secret", None)


def test_proxies_have_addresses_headers_and_rules(server):
    assert server().trusted_proxies == TrustedProxies()
    assert server("proxies = 127.0.0.1").trusted_proxies.trusts("127.0.0.1")
    proxies = server(
        "proxies = 192.0.2.5, 10.1.0.0/16",
        "proxy-user = X-Remote-User",
        "proxy-groups = X-Remote-Groups",
        "proxy-roles = operator fleet operators",
        "    viewer *",
    ).trusted_proxies
    assert (proxies.user_header, proxies.groups_header) == ("X-Remote-User", "X-Remote-Groups")
    assert proxies.trusts("10.1.2.3")
    assert proxies.roles == (group_rule(Role.OPERATOR, "fleet operators"), group_rule(Role.VIEWER, "*"))


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["openid-client-id = zk"], "openid-issuer: not specified, but openid-client-id is"),
        (["openid-issuer = http://id.example.com"], "openid-issuer: expected the URL of the provider, https://"),
        (
            ["openid-issuer = https://id.example.com?x"],
            "openid-issuer: expected the URL of the provider, https://",
        ),
        (["openid-roles = root groups ops"], "openid-roles: expected lines ROLE CLAIM VALUE or ROLE *"),
        (
            ["openid-roles = admin groups *"],
            "openid-roles: expected a value of the claim, or admin * for everybody; found 'groups *'",
        ),
        (["openid-roles = viewer groups"], "openid-roles: expected lines ROLE CLAIM VALUE or ROLE *"),
        (["openid-scopes = email"], "openid-scopes: expected openid among the scopes"),
        (["proxies = nginx"], "proxies: expected addresses and networks"),
        (["proxies = 10.1.0.1/16"], "proxies: expected addresses and networks"),
        (["proxy-user = X-Remote-User"], "proxy-user: proxies is not specified"),
        (["proxies = 127.0.0.1", "proxy-user = X User"], "proxy-user: expected the name of a header"),
        (["proxies = 127.0.0.1", "proxy-user = X-User"], "proxy-user: expected both proxy-user and proxy-roles"),
        (["proxies = 127.0.0.1", "proxy-roles = viewer"], "proxy-roles: expected lines ROLE GROUP or ROLE *"),
    ],
)
def test_problems_of_logins_elsewhere_are_reported(server, lines, problem):
    with pytest.raises(ConfigurationError) as caught:
        server(*lines)
    assert problem in str(caught.value)


def test_webhooks_have_a_url_and_kinds(server):
    assert server().webhooks == ()
    settings = server(
        "webhooks =",
        "    https://chat.example.com/hooks/1 stop, rollout",
        "    http://127.0.0.1:9/all *",
        "webhook-key = /etc/zkdeployment/webhook.secret",
    )
    assert settings.webhook_key == Path("/etc/zkdeployment/webhook.secret")
    assert settings.webhooks == (
        Webhook("https://chat.example.com/hooks/1", frozenset({"stop", "rollout"})),
        Webhook("http://127.0.0.1:9/all", frozenset(WEBHOOK_KINDS)),
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("http://chat.example.com/token *", "found another URL in line 1"),
        ("https://me:token@chat.example.com/ *", "found another URL in line 1"),
        ("https://chat.example.com:x/token *", "found another URL in line 1"),
        (
            "https://chat.example.com/token",
            "check, session, pool, node, fleet, promotion, separated by commas; found nothing",
        ),
        ("https://chat.example.com/token stop,feed", "found 'feed'"),
        ("https://chat.example.com/token *\n  https://chat.example.com/token stop", "one line for each URL"),
        ("\n".join(f"  https://chat.example.com/token{n} *" for n in range(21)), "expected at most 20 lines"),
    ],
)
def test_problems_of_webhooks_are_reported_without_their_urls(server, line, problem):
    with pytest.raises(ConfigurationError, match=re.escape(problem)) as caught:
        server(f"webhooks =\n  {line}", "webhook-key = /k")
    assert "token" not in str(caught.value)


def test_webhooks_need_a_key(server):
    with pytest.raises(ConfigurationError, match="expected both webhooks and webhook-key"):
        server("webhooks = https://chat.example.com/ *")
    with pytest.raises(ConfigurationError, match="webhooks is not specified"):
        server("webhook-ca = /ca.pem")
