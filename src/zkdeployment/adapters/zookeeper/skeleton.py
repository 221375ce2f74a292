"""The nodes that everybody needs, made by whoever comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper import paths
from zkdeployment.adapters.zookeeper.nodes import encode
from zkdeployment.model.cluster import INITIAL

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.session import Session


def make_skeleton(session: Session) -> None:
    """Make what is missing of them; ``/hosts`` begins at version ``initial``."""
    found = session.get_many(paths.SKELETON)
    for path, node in zip(paths.SKELETON, found, strict=True):
        if node is None:
            session.ensure(path, encode({"version": INITIAL}) if path == paths.HOSTS else b"")
