"""Reads of the live tree by which links are followed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.tree import Properties
    from zkdeployment.tree.links import Lookup


def lookup(session: Session, known: Mapping[str, Properties | None] | None = None) -> Lookup:
    """Return the function with which ``tree.links`` reads nodes; each node is read at most once.

    ``known`` are nodes that were read before.
    """
    read: dict[str, Properties | None] = dict(known or {})

    def look(path: str) -> Properties | None:
        if path not in read:
            node = session.get(path)
            read[path] = None if node is None else node.properties
        return read[path]

    return look
