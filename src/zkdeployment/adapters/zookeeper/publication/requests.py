"""Operators' requests for a publication: a command writes the node, a syncer answers it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Create, Delete, Operation, Set
from zkdeployment.errors import ConflictError
from zkdeployment.model.cluster import is_revision
from zkdeployment.model.publishing.request import AGE_LIMIT, GuardOverrides, PublicationRequest, RequestState

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.tree import Value


def read_request(session: Session) -> PublicationRequest | None:
    """Return the current request, answered or not; ``None`` if it does not exist."""
    node = session.get(paths.REQUEST)
    return None if node is None else request_of(node)


def asking(session: Session, request: PublicationRequest) -> Operation:
    """Return the operation that writes a request; it replaces an older one."""
    node = session.get(paths.REQUEST)
    data = encode(_properties(request))
    return Create(paths.REQUEST, data) if node is None else Set(paths.REQUEST, data, node.version)


def answer_request(session: Session, request: PublicationRequest, error: str | None) -> bool:
    """Remove a request, or with ``error`` record in it why it was not carried out.

    Return whether that was done: a request that is gone, or was replaced by a newer one, is not changed.
    """
    node = session.get(paths.REQUEST)
    if node is None or request_of(node).id != request.id:
        return False
    answer: Operation = Delete(paths.REQUEST, node.version)
    if error is not None:
        answer = Set(paths.REQUEST, encode({**node.properties, "error": error}), node.version)
    try:
        session.commit(answer)
    except ConflictError:
        return False
    return True


def carrying_out(session: Session, request_id: str) -> Operation:
    """Return the operation that removes a request, for the transaction that carries it out.

    Raises ``ConflictError`` if the request is gone or was replaced.
    """
    node = session.get(paths.REQUEST)
    if node is None or request_of(node).id != request_id:
        raise ConflictError("the request for a publication was withdrawn or replaced")
    return Delete(paths.REQUEST, node.version)


def server_time(session: Session) -> float:
    """Return ZooKeeper's time, in seconds since the epoch; clocks of hosts and operators may differ from it."""
    path = session.enqueue(f"{paths.OURS}/time-", b"")
    node = session.get(path)
    with contextlib.suppress(ConflictError):
        session.commit(Delete(path))
    if node is None:
        raise ConflictError(f"{path} was removed right after it was created")
    return node.created


def _properties(request: PublicationRequest) -> dict[str, Value]:
    state = request.state
    properties: dict[str, Value] = {
        "id": request.id,
        "by": request.by,
        "reason": request.reason,
        "time": request.time,
        "allow-rewind": request.overrides.rewind,
        "allow-mass-removal": request.overrides.mass_removal,
        "allow-package-problems": request.overrides.package_problems,
        "age-limit": request.age_limit,
        "state": None if state is None else {"version": state.version, "stops": state.stops},
    }
    return properties if request.error is None else properties | {"error": request.error}


def request_of(node: Node) -> PublicationRequest:
    """Decode the node of a request; missing or malformed properties are empty."""
    properties = node.properties
    time, error, limit = (properties.get(name) for name in ("time", "error", "age-limit"))
    return PublicationRequest(
        id=str(properties.get("id", "")),
        by=str(properties.get("by", "")),
        reason=str(properties.get("reason", "")),
        time=float(time) if isinstance(time, int | float) else 0.0,
        overrides=GuardOverrides(
            rewind=properties.get("allow-rewind") is True,
            mass_removal=properties.get("allow-mass-removal") is True,
            package_problems=properties.get("allow-package-problems") is True,
        ),
        error=None if error is None else str(error),
        state=_state(properties.get("state")),
        age_limit=float(limit) if isinstance(limit, int | float) else AGE_LIMIT,
        written=node.modified,
    )


def _state(value: Value) -> RequestState | None:
    """Decode the state of the fleet that a request is for; an invalid one matches no fleet."""
    if not isinstance(value, dict):
        return None
    version, stops = value.get("version"), value.get("stops")
    return RequestState(
        version if is_revision(version) or version is False else None, stops if isinstance(stops, int) else -1
    )
