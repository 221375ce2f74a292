"""Builds the reader of a service's instances, for consumers and for verbs."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.filters.provider_reader import ZooKeeperProviderReader
from zkdeployment.wiring.verb_session import verb_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zkdeployment.model.servers import Servers


@contextlib.contextmanager
def open_providers(servers: Servers, wake: Callable[[], None] = lambda: None) -> Iterator[ZooKeeperProviderReader]:
    """Connect to ZooKeeper and yield the reader of instances; raises ``UnreachableError``.

    ``wake`` (which must not block) is called when what the reader follows, or the connection, changes.
    """
    with verb_session(servers) as session:
        session.on_change(wake)
        yield ZooKeeperProviderReader(session, wake)
