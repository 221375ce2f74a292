"""Logins elsewhere: the claims of an OpenID provider or a trusted proxy about a person, and the resulting role."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.model.names import NameKind, is_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.model.user import Role

#: The claims about a person: their names and their values as in JSON.
Claims: TypeAlias = "Mapping[str, object]"

#: The value of a rule for everybody.
EVERYBODY = "*"


@dataclass(frozen=True, slots=True)
class RoleRule:
    """Gives a role to persons with a value in a claim; the value ``*`` is everybody."""

    role: Role
    claim: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIdClient:
    """The service as a client of an OpenID provider.

    ``name_claim`` is the claim that contains the name of the user, and ``roles`` are rules of which the first that
    matches decides.
    """

    issuer: str
    client_id: str
    scopes: tuple[str, ...] = ("openid", "profile")
    name_claim: str = "preferred_username"
    roles: tuple[RoleRule, ...] = ()


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
    """Return the user that verified claims of a provider describe, or why they describe none."""
    name, subject = claims.get(client.name_claim), claims.get("sub")
    if not isinstance(name, str) or not is_name(NameKind.USER, name):
        return f"the provider sent no usable user name: expected a short name in the claim {client.name_claim}"
    if not isinstance(subject, str) or not subject:
        return "the provider sent no subject: expected a text in the claim sub"
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
