"""The end of tenants: their sessions end with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.acts.pools.sessions import SessionActor, retire_sessions_of

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.users.store import ZooKeeperUsers
    from zkdeployment.model.act import Act
    from zkdeployment.model.user import User
    from zkdeployment.ports.pools import PoolAdapters


def retire_tenant(user: User, users: ZooKeeperUsers, adapters: PoolAdapters, act: Act) -> User:
    """End all sessions of a user, retire it permanently, and return it.

    The sessions end first: if this process dies, the user is still there, and can be retired again. Sessions that
    began in the meantime end afterwards; later requests find the user retired. Raises ``RefusedError`` if the user
    is retired already.
    """
    actor = SessionActor(act.by)
    retire_sessions_of(user.id, adapters, actor)
    retired = users.retire(user.name, act)
    retire_sessions_of(user.id, adapters, actor)
    return retired
