"""The refusals of tips: one node with the latest refusals, and the revision that is refused at present."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Create, Set
from zkdeployment.errors import ConflictError
from zkdeployment.model.cluster import is_revision
from zkdeployment.model.publishing.history import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.tree import Value

#: The largest number of refusals, and of bytes, that are kept.
REFUSALS_LIMIT = 100
BYTES_LIMIT = 128 * 1024


def read_refusals(session: Session) -> tuple[Refusal, ...]:
    """Return the recorded refusals, oldest first: at most one of each revision."""
    return _refusals(session.get(paths.REFUSALS))


def refused_revision(node: Node | None) -> Revision | None:
    """Return the tip that is refused at present; ``None`` if the tip is not refused."""
    revision = None if node is None else node.properties.get("current")
    return revision if is_revision(revision) else None


def current_refusal(node: Node | None) -> Refusal | None:
    """Return the refusal of the tip that is refused at present, if there is one."""
    current = refused_revision(node)
    return next((refusal for refusal in _refusals(node) if refusal.revision == current), None)


def write_refusal(session: Session, refusal: Refusal | None) -> None:
    """Record that the tip is refused; with ``None``, that the present tip is not.

    A refusal of the same revision for the same problems keeps its time. If another syncer writes at the same
    time, nothing is recorded: the next cycle of a syncer records it again.
    """
    node = session.get(paths.REFUSALS)
    refusals = _recorded(node)
    if refusal is None:
        if refused_revision(node) is None:
            return
    else:
        new = refusal.to_json()
        known = next((other for other in refusals if other.get("revision") == refusal.revision), None)
        if known is not None and known.get("problems") == new["problems"]:
            if refused_revision(node) == refusal.revision:
                return
            new = known
        refusals = [other for other in refusals if other.get("revision") != refusal.revision] + [new]
    data = _encode(None if refusal is None else refusal.revision, refusals)
    session.ensure(paths.OURS)
    with contextlib.suppress(ConflictError):
        session.commit(Create(paths.REFUSALS, data) if node is None else Set(paths.REFUSALS, data, node.version))


def _encode(current: Revision | None, refusals: Sequence[dict[str, Value]]) -> bytes:
    """Encode the node, without the oldest refusals if a limit is exceeded."""
    kept = refusals[-REFUSALS_LIMIT:]
    while True:
        data = encode({"current": current, "refusals": [*kept]})
        if len(data) <= BYTES_LIMIT:
            return data
        kept = kept[len(kept) // 10 + 1 :]


def _refusals(node: Node | None) -> tuple[Refusal, ...]:
    return tuple(map(Refusal.from_json, _recorded(node)))


def _recorded(node: Node | None) -> list[dict[str, Value]]:
    """Return the recorded refusals, with the keys that only other versions know."""
    listed = None if node is None else node.properties.get("refusals")
    return [refusal for refusal in listed if isinstance(refusal, dict)] if isinstance(listed, list) else []
