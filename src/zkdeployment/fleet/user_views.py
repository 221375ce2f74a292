"""Users as programs read them: the JSON of the API and of the verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.model.user import MASK, TenantLimits, User

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.model.tree import Value
    from zkdeployment.model.user import IssuedKey


def users_to_json(users: Iterable[User], limits: TenantLimits) -> dict[str, Value]:
    """Return users as the schema ``users`` describes them; ``limits`` are those of tenants without their own."""
    return {"users": [user_to_json(user, limits) for user in users]}


def issued_key_to_json(issued: IssuedKey, limits: TenantLimits) -> dict[str, Value]:
    """Return a user and its new key as the schema ``user-key`` describes them."""
    return {"user": user_to_json(issued.user, limits), "key": issued.key}


def user_to_json(user: User, limits: TenantLimits) -> dict[str, Value]:
    """Return a user without secrets; times are in seconds since the epoch, lifetimes in seconds."""
    quota, lifetime, longest = user.node_quota, user.session_lifetime, user.session_lifetime_max
    return {
        "id": user.id,
        "name": user.name,
        "role": user.role.value,
        "is_admin": user.is_admin,
        "active": not user.is_retired,
        "created_at": user.created_at,
        "retired_at": user.retired_at,
        "key_expires_at": user.key_expires_at,
        "identity": user.identity,
        "paths": [*user.paths],
        "ssh_key": None if user.ssh_key is None else MASK,
        "node_quota": quota,
        "effective_node_quota": limits.node_quota if quota is None else quota,
        "session_lifetime": lifetime,
        "effective_session_lifetime": limits.session_lifetime if lifetime is None else lifetime,
        "session_lifetime_max": longest,
        "effective_session_lifetime_max": limits.session_lifetime_max if longest is None else longest,
    }
