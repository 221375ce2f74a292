"""Removing the lock nodes of services that are no longer in the tree: agents create them and never remove them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.transactions import Delete
from zkdeployment.adapters.zookeeper.publication.assignments import read_services
from zkdeployment.errors import ConflictError, DeniedError
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.adapters.zookeeper.client.session import Session


def remove_unused_locks(session: Session, names: Collection[str], deployed: Collection[str]) -> None:
    """Remove those of the locks ``names`` that have no contenders and whose services are not in the tree.

    ``deployed`` are services that are known to be in the tree; for others the tree is read. An agent that needs a
    lock at the same time creates its node again.
    """
    services = {f"/{name.replace(',', '/')}": name for name in names}
    unknown = services.keys() - deployed
    for service in sorted(unknown - read_services(session, unknown)):
        lock = f"{paths.AGENT_LOCKS}/{services[service]}"
        try:
            with contextlib.suppress(ConflictError):  # the lock has contenders, or was removed
                session.commit(Delete(lock))
        except DeniedError as error:
            get_logger().warning("unused-locks-not-removed", reason=str(error))
            return
