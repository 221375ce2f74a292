"""The section ``[server]``: where the service listens, its encryption, and its address for browsers."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from zkdeployment.config import external_logins, webhooks
from zkdeployment.config.access import read_acl, yes_no_problem
from zkdeployment.config.settings import ServerSettings

if TYPE_CHECKING:
    from zkdeployment.config.section import Section

_DEFAULT = "127.0.0.1:8420"
_LISTEN = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9_][A-Za-z0-9._-]*)):(?P<port>\d{1,5})")


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
    return ServerSettings(
        host=host,
        port=port,
        certificate=certificate,
        key=key,
        plain_text=plain_text,
        base_url=(section.checked("base-url", base_url_problem) or "").rstrip("/") or None,
        openid=external_logins.read_openid(section),
        proxies=external_logins.read_proxies(section),
        webhooks=webhooks.read_webhooks(section),
        users_acl=read_acl(section, "users-acl", authenticated=authenticated),
    )


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
