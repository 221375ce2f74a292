"""The outcome of a request for nodes: the line above the page of pools after the request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.pools.node import NodeState

if TYPE_CHECKING:
    from zkdeployment.model.user import User
    from zkdeployment.pools.reading import PoolReading


@dataclass(frozen=True, slots=True)
class RequestNotice:
    """A sentence, and its tone."""

    tone: str
    sentence: str


def request_notice(number: int, reading: PoolReading, user: User, failure: str) -> RequestNotice:
    """Return what became of a user's request for a session; ``failure`` is why it did not begin, if known."""
    session = reading.snapshot.sessions.get(number)
    if session is None or session.tenant != user.id:
        return RequestNotice("bad", failure or f"Session {number} has ended, or did not begin.")
    nodes = [reading.snapshot.nodes.get(node) for node in session.nodes]
    if any(node is not None and node.state is NodeState.CONTEXTUALIZING for node in nodes):
        return RequestNotice("busy", f"Session {number} is being prepared: its nodes get your SSH key.")
    return RequestNotice("good", f"Session {number} has begun. The commands below reach its nodes.")
