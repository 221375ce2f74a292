"""An operator's request for a publication: written by a command, answered by a syncer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper import paths
from zkdeployment.adapters.zookeeper.nodes import encode
from zkdeployment.adapters.zookeeper.transactions import Create, Delete, Operation, Set
from zkdeployment.errors import ConflictError
from zkdeployment.model.publication import Permit, PublicationRequest

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.session import Session
    from zkdeployment.model.tree import Properties, Value


def read_request(session: Session) -> PublicationRequest | None:
    """Return the standing request, answered or not."""
    node = session.get(paths.REQUEST)
    return None if node is None else request_from_properties(node.properties)


def asking(session: Session, request: PublicationRequest) -> Operation:
    """Return the operation that asks; the request takes the place of an older one."""
    node = session.get(paths.REQUEST)
    data = encode(_properties(request))
    return Create(paths.REQUEST, data) if node is None else Set(paths.REQUEST, data, node.version)


def answer_request(session: Session, request: PublicationRequest, error: str | None) -> bool:
    """Remove a request that was carried out, or write into it why it was not.

    Says whether that was done: a request that is gone, or that a newer one replaced, is left alone.
    """
    node = session.get(paths.REQUEST)
    if node is None or request_from_properties(node.properties).id != request.id:
        return False
    answer: Operation = Delete(paths.REQUEST, node.version)
    if error is not None:
        answer = Set(paths.REQUEST, encode(_properties(replace(request, error=error))), node.version)
    try:
        session.commit(answer)
    except ConflictError:
        return False
    return True


def _properties(request: PublicationRequest) -> dict[str, Value]:
    properties: dict[str, Value] = {
        "id": request.id,
        "by": request.by,
        "reason": request.reason,
        "time": request.time,
        "allow-rewind": request.permit.rewind,
        "allow-mass-removal": request.permit.mass_removal,
    }
    return properties if request.error is None else properties | {"error": request.error}


def request_from_properties(properties: Properties) -> PublicationRequest:
    """Read the node's properties; what is missing or malformed reads as empty."""
    time, error = properties.get("time"), properties.get("error")
    return PublicationRequest(
        id=str(properties.get("id", "")),
        by=str(properties.get("by", "")),
        reason=str(properties.get("reason", "")),
        time=float(time) if isinstance(time, int | float) else 0.0,
        permit=Permit(
            rewind=properties.get("allow-rewind") is True,
            mass_removal=properties.get("allow-mass-removal") is True,
        ),
        error=None if error is None else str(error),
    )
