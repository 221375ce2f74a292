"""Proxies in front of the service: the addresses of their clients, and the persons whom they authenticated."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.model.logins.external import ExternalUser, RoleRule, role_of
from zkdeployment.model.names import NameKind, is_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.model.user import Role

Network: TypeAlias = IPv4Network | IPv6Network

#: The identity of users whom a proxy has authenticated.
PROXY_IDENTITY = "proxy"

_GROUPS = "groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedProxies:
    """Proxies whose headers are believed; headers of other clients are ignored.

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

        Each proxy appends the address that it was connected from. The last one that is no proxy is the client;
        what stands before it was sent by the client and may be invented.
        """
        chain = [part.strip() for header in forwarded for part in header.split(",")]
        client = peer
        while chain and self.trusts(client) and _is_address(chain[-1]):
            client = chain.pop()
        return client

    def external_user(self, peer: str, users: Sequence[str], groups: Sequence[str]) -> ExternalUser | str | None:
        """Return the person in the headers of a request from ``peer``, or the reason why they name no person.

        ``None``: the request has no such header, or none that is believed.
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
    """Return the rule that gives a role to the members of a group, or to everybody (``*``)."""
    return RoleRule(role, _GROUPS, group)
