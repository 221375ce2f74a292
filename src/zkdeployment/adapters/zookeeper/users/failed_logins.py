"""The latest failed logins: one node, for the audit view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Set
from zkdeployment.adapters.zookeeper.users.throttle import make_parents
from zkdeployment.errors import ConflictError
from zkdeployment.log import get_logger
from zkdeployment.model.logins.login import FailedLogin

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.servers import AclEntry
    from zkdeployment.model.tree import Value

#: Failed logins that are kept.
_KEPT = 200

#: Attempts at a write while other services write to the node; an attack is recorded often enough.
_ATTEMPTS = 3


def read_failed_logins(session: Session) -> tuple[FailedLogin, ...]:
    """Return the latest failed logins, oldest first."""
    return tuple(map(FailedLogin.from_json, _recorded(session.get(paths.FAILED_LOGINS))))


def record_failed_login(session: Session, acl: tuple[AclEntry, ...], failed: FailedLogin) -> None:
    """Record a failed login; the oldest ones are dropped."""
    for _ in range(_ATTEMPTS):
        node = session.get(paths.FAILED_LOGINS)
        data = encode({"failed": [*[*_recorded(node), failed.to_json()][-_KEPT:]]})
        try:
            if node is None:
                make_parents(session, acl, paths.FAILED_LOGINS)
                continue
            session.commit(Set(paths.FAILED_LOGINS, data, node.version))
        except ConflictError:
            continue
        return
    get_logger().warning("failed-login-not-recorded", attempts=_ATTEMPTS)


def _recorded(node: Node | None) -> list[dict[str, Value]]:
    """Return the recorded failed logins, with the keys that only other versions know."""
    listed = None if node is None else node.properties.get("failed")
    return [login for login in listed if isinstance(login, dict)] if isinstance(listed, list) else []
