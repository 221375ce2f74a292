"""The section ``[server]``: where the service listens, its encryption, and its address for browsers."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from zkdeployment.config import external_logins, webhooks
from zkdeployment.config.section import Section
from zkdeployment.config.zookeeper import read_acl, yes_no_problem
from zkdeployment.service.site import ClientLimits
from zkdeployment.service.users.external_logins import TrustedProxies

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.config.external_logins import OpenIdSettings
    from zkdeployment.config.webhooks import WebhookSettings
    from zkdeployment.zookeeper.servers import Access, AclEntry

_DEFAULT = "127.0.0.1:8420"

#: The largest number of connections or event streams that can be configured.
_MOST = 999_999

_LISTEN = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9_][A-Za-z0-9._-]*)):(?P<port>\d{1,5})")


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """The settings of the service: the address ``host`` and ``port`` that it listens on, and its encryption.

    ``plain_text`` permits connections from other machines without encryption. ``base_url`` is the address that
    people use if it differs, for example that of a proxy. ``users_acl`` is the access list of the nodes that hold
    users and logins. ``openid`` and ``proxies`` are where people may log in instead, if there are any.
    ``webhooks`` are the receivers of events. ``limits`` are those of each client.
    """

    host: str = "127.0.0.1"
    port: int = 8420
    certificate: Path | None = None
    key: Path | None = None
    plain_text: bool = False
    base_url: str | None = None
    users_acl: tuple[AclEntry, ...] = ()
    openid: OpenIdSettings | None = None
    proxies: TrustedProxies = field(default_factory=TrustedProxies)
    webhooks: WebhookSettings | None = None
    limits: ClientLimits = field(default_factory=ClientLimits)

    @property
    def listen(self) -> str:
        """The address with its port, as the configuration contains it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The address of the service for browsers on this machine, or the address that people use."""
        return self.base_url or f"{'http' if self.certificate is None else 'https'}://{self.listen}"


def read_server(section: Section, *, authenticated: bool) -> ServerSettings:
    """Return the settings of the service; problems are reported to the section.

    ``authenticated`` is whether this configuration has credentials for ZooKeeper, which access lists can name.
    The files are not read here: other machines and users have the same configuration, but not these files.
    """
    host, port = split_listen(section.checked("listen", listen_problem) or _DEFAULT)
    certificate, key = section.path("certificate"), section.path("key")
    plain_text = section.checked("plain-text", yes_no_problem) == "yes"
    if (section.text("certificate") is None) != (section.text("key") is None):
        section.report("certificate", "expected both certificate and key in [server], found only one of them")
    if not is_loopback(host) and certificate is None and not plain_text:
        section.report(
            "listen",
            f"keys and logins would cross the network unencrypted, because {host} is not a loopback address;"
            " expected certificate and key in [server], or plain-text = yes in a network that is safe",
        )
    proxies = external_logins.read_proxies(section)
    return ServerSettings(
        host=host,
        port=port,
        certificate=certificate,
        key=key,
        plain_text=plain_text,
        base_url=(section.checked("base-url", base_url_problem) or "").rstrip("/") or None,
        openid=external_logins.read_openid(section),
        proxies=proxies,
        webhooks=webhooks.read_webhooks(section),
        limits=_limits(section, one_address=is_loopback(host) and not proxies.networks),
        users_acl=read_acl(section, "users-acl", authenticated=authenticated),
    )


def _limits(section: Section, *, one_address: bool) -> ClientLimits:
    """Return how much of the service one client may occupy.

    ``one_address`` is whether the clients of other machines have the address of a proxy on this machine: without
    a configured number, they share the whole service then.
    """
    defaults = ClientLimits()
    connections = section.checked("connections-per-address", _count_problem)
    streams = section.checked("streams-per-user", _count_problem)
    return ClientLimits(
        connections_per_address=int(connections or (_MOST if one_address else defaults.connections_per_address)),
        streams_per_user=int(streams or defaults.streams_per_user),
    )


def _count_problem(value: str) -> str | None:
    is_count = value.isascii() and value.isdecimal() and len(value) <= 6 and 0 < int(value) <= _MOST
    return None if is_count else f"expected a whole number from 1 to {_MOST}, found {value!r}"


def default_server(access: Access) -> ServerSettings:
    """Return the settings of the service for a configuration without the section, with this access."""
    return read_server(Section("server", {}), authenticated=access.authenticated)


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can connect to a listening address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def split_listen(listen: str) -> tuple[str, int]:
    """Return the host and the port of a listening address without problems."""
    match = _LISTEN.fullmatch(listen)
    assert match is not None  # noqa: S101  the problem was reported
    return match["ipv6"] or match["name"], int(match["port"])


def listen_problem(value: str) -> str | None:
    """Return why a listening address is invalid; ``None`` for a valid one."""
    match = _LISTEN.fullmatch(value)
    if match is None or int(match["port"]) > 65535:
        return f"expected ADDRESS:PORT, for example {_DEFAULT} or [::]:8420, found {value!r}"
    if match["ipv6"] is not None:
        try:
            ipaddress.IPv6Address(match["ipv6"])
        except ValueError:
            return f"expected an IPv6 address in brackets, found {value!r}"
    return None


def base_url_problem(value: str) -> str | None:
    """Return why the address of a service is invalid; ``None`` for a valid one."""
    expected = f"expected http://HOST[:PORT] or https://HOST[:PORT], found {value!r}"
    try:
        parts = urlsplit(value)
        has_place = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return expected
    has_more = parts.path not in {"", "/"} or parts.query or parts.fragment or parts.username is not None
    return None if parts.scheme in {"http", "https"} and has_place and not has_more else expected
