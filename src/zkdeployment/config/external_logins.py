"""The keys of ``[server]`` about logins elsewhere: an OpenID provider, and proxies that authenticate people."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_network
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from zkdeployment.config.section import OPENID, PROXY
from zkdeployment.service.users.external_logins import (
    EVERYBODY,
    OpenIdClient,
    RoleRule,
    TrustedProxies,
    group_rule,
)
from zkdeployment.service.users.user import Role

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zkdeployment.config.section import Section
    from zkdeployment.service.users.external_logins import Network

_HEADER = re.compile(r"[A-Za-z0-9-]{1,100}")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIdSettings:
    """The service as a client of an OpenID provider, and the files with its secret and trusted certificates."""

    client: OpenIdClient
    secret: Path | None = None
    ca: Path | None = None


def read_openid(section: Section) -> OpenIdSettings | None:
    """Return the settings of an OpenID provider, if there is one; problems are reported to the section."""
    issuer = section.checked("openid-issuer", _issuer_problem)
    client_id = section.text("openid-client-id")
    roles = tuple(_openid_rules(section))
    given = [key for key in OPENID if section.text(key) is not None]
    if not given:
        return None
    for key in ("openid-issuer", "openid-client-id", "openid-roles"):
        if key not in given:
            section.report(key, f"not specified, but {given[0]} is; expected both in [server]")
    scopes = (section.text("openid-scopes") or "openid profile").split()
    if "openid" not in scopes:
        section.report("openid-scopes", f"expected openid among the scopes, found {' '.join(scopes)}")
    return OpenIdSettings(
        client=OpenIdClient(
            issuer=issuer or "",
            client_id=client_id or "",
            scopes=tuple(scopes),
            name_claim=section.text("openid-name") or "preferred_username",
            roles=roles,
        ),
        secret=section.path("openid-client-secret"),
        ca=section.path("openid-ca"),
    )


def read_proxies(section: Section) -> TrustedProxies:
    """Return the proxies in front of the service; problems are reported to the section."""
    networks = tuple(_networks(section))
    user, groups = (section.checked(key, _header_problem) for key in ("proxy-user", "proxy-groups"))
    rules = tuple(group_rule(role, group) for role, words in _rules(section, "proxy-roles", 2) for group in words)
    if section.text("proxies") is None:
        for key in PROXY[1:]:
            if section.text(key) is not None:
                section.report(key, "proxies is not specified; expected the addresses of the proxies to believe")
    elif (user is None) != (not rules):
        section.report(
            "proxy-user", "expected both proxy-user and proxy-roles in [server], found only one of them"
        )
    return TrustedProxies(networks=networks, user_header=user, groups_header=groups, roles=rules)


def _openid_rules(section: Section) -> Iterator[RoleRule]:
    for role, words in _rules(section, "openid-roles", 3):
        match words:
            case [claim, value]:
                yield RoleRule(role, claim, value)
            case _:
                yield RoleRule(role, "", EVERYBODY)


def _rules(section: Section, key: str, words: int) -> Iterator[tuple[Role, list[str]]]:
    """Yield the role and the other words of each line; ``ROLE *`` is a line, too, whatever ``words`` is."""
    roles = {role.value: role for role in Role}
    expected = "ROLE CLAIM VALUE" if words == 3 else "ROLE GROUP"
    for line in (section.text(key) or "").splitlines():
        parts = line.split(maxsplit=words - 1)
        if not parts:
            continue
        everybody = parts[1:] == [EVERYBODY]
        if parts[0] not in roles or (len(parts) != words and not everybody):
            names = ", ".join(roles)
            section.report(
                key, f"expected lines {expected} or ROLE *, ROLE being one of {names}; found {line.strip()!r}"
            )
        else:
            yield roles[parts[0]], parts[1:]


def _networks(section: Section) -> Iterator[Network]:
    for text in section.items("proxies"):
        try:
            yield ip_network(text)
        except ValueError:
            section.report("proxies", f"expected addresses and networks, separated by commas, found {text!r}")


def _issuer_problem(value: str) -> str | None:
    """Require encryption: an attacker who can change the provider's answers can log in as any user."""
    expected = f"expected the URL of the provider, https://…, found {value!r}"
    try:
        parts = urlsplit(value)
        host = parts.hostname
    except ValueError:
        return expected
    safe = parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)
    return None if safe and host and not parts.query and not parts.fragment else expected


def _header_problem(value: str) -> str | None:
    return None if _HEADER.fullmatch(value) else f"expected the name of a header, found {value!r}"
