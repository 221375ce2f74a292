"""The keys of sections that few programs need: their modules are imported only when a file has the section."""

from __future__ import annotations

#: Keys of ``[server]`` about an OpenID provider, about proxies that authenticate people, and about webhooks.
OPENID = (
    "openid-issuer",
    "openid-client-id",
    "openid-client-secret",
    "openid-ca",
    "openid-scopes",
    "openid-name",
    "openid-roles",
)
PROXY = ("proxies", "proxy-user", "proxy-groups", "proxy-roles")
WEBHOOKS = ("webhooks", "webhook-key", "webhook-ca")

SERVER = (
    "listen",
    "certificate",
    "key",
    "plain-text",
    "base-url",
    "users-acl",
    *OPENID,
    *PROXY,
    *WEBHOOKS,
    "connections-per-address",
    "streams-per-user",
)

#: Keys of ``[nagios]`` without which no bridge can run.
NAGIOS_NEEDED = ("server", "user", "key-file", "objects", "verify", "reload")

NAGIOS = (
    *NAGIOS_NEEDED,
    "plugins",
    "host-template",
    "service-template",
    "contact-template",
    "command-file",
    "status-file",
    "listen",
    "interval",
)

POOLS = ("interval", "ssh-key", "ssh-config", "authorized-keys", "lease-key")
