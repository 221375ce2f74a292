"""Logins elsewhere: the claims of an OpenID provider, and the proxies in front of the service."""

from __future__ import annotations

import hashlib
import hmac
import re
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.base.names import NameKind, is_name
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.service.users.user import Role


#: The claims about a person: their names and their values as in JSON.
Claims: TypeAlias = "Mapping[str, object]"

#: The value of a rule for all persons.
EVERYBODY = "*"


@dataclass(frozen=True, slots=True)
class RoleRule:
    """Gives a role to persons with a value in a claim; the value ``*`` stands for all persons."""

    role: Role
    claim: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIdClient:
    """The service as a client of an OpenID provider.

    ``name_claim`` is the claim that contains the name of the user, and in ``roles`` the first rule that matches
    decides.
    """

    issuer: str
    client_id: str
    scopes: tuple[str, ...] = ("openid", "profile")
    name_claim: str = "preferred_username"
    roles: tuple[RoleRule, ...] = ()


#: The ``sub`` of OpenID Connect Core 1.0, section 2.
_SUBJECT = re.compile("[ -~]{1,255}")


@dataclass(frozen=True, slots=True)
class ExternalUser:
    """A person who logged in elsewhere; ``identity`` is the place and the name of the login, and never changes."""

    name: str
    role: Role
    identity: str


@dataclass(frozen=True, slots=True)
class OpenIdAttempt:
    """The values that bind one login at a provider to one browser (OpenID Connect's state and nonce, PKCE)."""

    state: str
    nonce: str
    verifier: str


def attempt_of(secret: str) -> OpenIdAttempt:
    """Return the values of an attempt; ``secret`` is random and known to this browser only."""

    def derived(purpose: str) -> str:
        return hmac.new(secret.encode(), f"openid {purpose}".encode(), hashlib.sha256).hexdigest()

    return OpenIdAttempt(derived("state"), derived("nonce"), derived("verifier"))


def openid_user(claims: Claims, client: OpenIdClient) -> ExternalUser | str:
    """Return the user that verified claims of a provider describe, or why the person may not log in."""
    name, subject = claims.get(client.name_claim), claims.get("sub")
    if not isinstance(name, str) or not is_name(NameKind.USER, name):
        return f"the provider sent no usable user name: expected a short name in the claim {client.name_claim}"
    if not isinstance(subject, str) or not _SUBJECT.fullmatch(subject):
        return "the provider sent no usable subject: expected 1 to 255 ASCII characters in the claim sub"
    role = role_of(claims, client.roles)
    if role is None:
        return f"no role is configured for {name}: expected a rule in openid-roles that matches"
    return ExternalUser(name, role, f"openid {client.issuer} {subject}")


def role_of(claims: Claims, rules: Sequence[RoleRule]) -> Role | None:
    """Return the role of the first rule that matches; ``None`` if no rule does."""
    for rule in rules:
        if rule.value == EVERYBODY or rule.value in claim_values(claims, rule.claim):
            return rule.role
    return None


def claim_values(claims: Claims, path: str) -> frozenset[str]:
    """Return the texts in a claim: one text, or a list. ``a.b`` is a claim of this name, or ``b`` within ``a``."""
    value = claims.get(path)
    if value is None and "." in path:
        first, _, rest = path.partition(".")
        inner = claims.get(first)
        return claim_values(inner, rest) if isinstance(inner, dict) else frozenset()
    values = value if isinstance(value, list) else [value]
    return frozenset(value for value in values if isinstance(value, str))


Network: TypeAlias = IPv4Network | IPv6Network

#: The identity of users whom a proxy has authenticated.
PROXY_IDENTITY = "proxy"

_GROUPS = "groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedProxies:
    """Proxies whose headers the service believes; headers of other clients are ignored.

    ``user_header`` is the header with the name of the person, ``None`` if the proxies do not authenticate people;
    ``groups_header`` has the groups of the person, separated by commas. The first of the rules that matches
    decides.
    """

    networks: tuple[Network, ...] = ()
    user_header: str | None = None
    groups_header: str | None = None
    roles: tuple[RoleRule, ...] = ()

    def trusts(self, address: str) -> bool:
        """Return whether ``address`` is that of a proxy."""
        try:
            parsed = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(parsed, "ipv4_mapped", None) or parsed
        return any(mapped in network for network in self.networks)

    def client_address(self, peer: str, forwarded: Sequence[str]) -> str:
        """Return the client's address: that of the connection, or that from proxies in ``X-Forwarded-For``.

        Each proxy appends the address that connected to it. The last address that does not belong to a proxy is
        the client's; the client sent the addresses before it, which may be invented.
        """
        chain = [part.strip() for header in forwarded for part in header.split(",")]
        client = peer
        while chain and self.trusts(client) and _is_address(chain[-1]):
            client = chain.pop()
        return client

    def external_user(self, peer: str, users: Sequence[str], groups: Sequence[str]) -> ExternalUser | str | None:
        """Return the person in the headers of a request from ``peer``, or the reason why they name no person.

        ``None``: the request has no such header that the service believes.
        """
        if self.user_header is None or not users or not self.trusts(peer):
            return None
        if len(users) != 1 or not is_name(NameKind.USER, users[0]):
            return f"the proxy sent no usable user name: expected one short name in the header {self.user_header}"
        claims = {_GROUPS: [part.strip() for header in groups for part in header.split(",")]}
        role = role_of(claims, self.roles)
        if role is None:
            return f"no role is configured for {users[0]}: expected a rule in proxy-roles that matches"
        return ExternalUser(users[0], role, PROXY_IDENTITY)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def group_rule(role: Role, group: str) -> RoleRule:
    """Return the rule that gives a role to the members of a group, or to all persons (``*``)."""
    return RoleRule(role, _GROUPS, group)
