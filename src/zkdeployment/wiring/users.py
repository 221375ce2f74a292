"""Builds the adapters with which verbs read and change the users of the service."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.adapters.clock import SystemClock
from zkdeployment.adapters.key_hashes import KeyHasher
from zkdeployment.adapters.zookeeper.users.store import ZooKeeperUsers
from zkdeployment.wiring.verb_session import verb_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.model.servers import AclEntry, Servers


@contextlib.contextmanager
def open_users(servers: Servers, acl: tuple[AclEntry, ...]) -> Iterator[ZooKeeperUsers]:
    """Connect to ZooKeeper and return the users; ``acl`` guards new nodes. Raises ``UnreachableError``."""
    with verb_session(servers) as session:
        yield ZooKeeperUsers(session, acl, KeyHasher(), SystemClock())
