"""Builds the adapters with which verbs read and change the users of the service."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.service.users.key_hashes import KeyHasher
from zkdeployment.service.users.user_store import ZooKeeperUsers
from zkdeployment.zookeeper.session import verb_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.zookeeper.servers import AclEntry, Servers


@contextlib.contextmanager
def open_users(servers: Servers, acl: tuple[AclEntry, ...]) -> Iterator[ZooKeeperUsers]:
    """Connect to ZooKeeper and return the users; ``acl`` guards new nodes. Raises ``UnreachableError``."""
    with verb_session(servers) as session:
        yield ZooKeeperUsers(session, acl, KeyHasher(), SystemClock())
