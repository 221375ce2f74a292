"""Reads which hosts of the fleet are registered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.session import Session


def registered_hosts(session: Session) -> frozenset[str]:
    """Return the ids of the hosts that are registered now."""
    return frozenset(session.children(paths.HOSTS) or ())
