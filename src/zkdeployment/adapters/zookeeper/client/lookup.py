"""Following links over live reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.tree import Properties
    from zkdeployment.tree.links import Lookup


def lookup(session: Session) -> Lookup:
    """Return what ``tree.links`` follows links with; each node is read once at most."""
    read: dict[str, Properties | None] = {}

    def look(path: str) -> Properties | None:
        if path not in read:
            node = session.get(path)
            read[path] = None if node is None else node.properties
        return read[path]

    return look
