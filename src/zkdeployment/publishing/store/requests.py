"""Requests for a publication and notices to syncers, and the refusals and heartbeats that syncers write."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import is_revision
from zkdeployment.base.errors import ConflictError
from zkdeployment.publishing.records import (
    AGE_LIMIT,
    GuardOverrides,
    PublicationRequest,
    Refusal,
    RequestState,
    SyncerReport,
)
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode
from zkdeployment.zookeeper.transactions import Create, Delete, Operation, Set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.base.cluster import Revision
    from zkdeployment.tree.values import Value
    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session


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


#: The largest number of characters of a message.
_LONGEST = 1000


def write_report(session: Session, by: str, message: str, interval: float, fetched: float | None) -> None:
    """Write the heartbeat of the syncer ``by``; of several syncers, the last one to write is shown.

    If this syncer has not ``fetched`` the repository yet, the recorded time of the last fetch stays.
    """
    session.ensure(paths.OURS)
    node = session.get(paths.SYNCER)
    if fetched is None and node is not None:
        fetched = _seconds(node)
    data = encode({"by": by, "said": message[:_LONGEST], "interval": interval, "fetched": fetched})
    with contextlib.suppress(ConflictError):  # another syncer was faster
        session.commit(Create(paths.SYNCER, data) if node is None else Set(paths.SYNCER, data))


def read_report(session: Session) -> SyncerReport | None:
    """Return the last heartbeat; ``None`` if no syncer ever followed a branch."""
    node = session.get(paths.SYNCER)
    return None if node is None else report_of(node)


def report_of(node: Node) -> SyncerReport:
    """Decode the node of the last heartbeat."""
    properties = node.properties
    interval = properties.get("interval")
    return SyncerReport(
        by=str(properties.get("by", "?")),
        last_message=str(properties.get("said", "")),
        interval=float(interval) if isinstance(interval, int | float) else 0.0,
        time=node.modified,
        fetched=_seconds(node),
    )


def _seconds(node: Node) -> float | None:
    fetched = node.properties.get("fetched")
    return float(fetched) if isinstance(fetched, int | float) else None


def give_notice(session: Session, by: str) -> SyncerReport | None:
    """Wake the syncers; return the last heartbeat of a syncer, ``None`` if there never was one."""
    data = encode({"by": by})
    session.ensure(paths.OURS)
    with contextlib.suppress(ConflictError):  # another process gave notice at the same time
        session.commit(
            Create(paths.NOTICE, data) if session.get(paths.NOTICE) is None else Set(paths.NOTICE, data)
        )
    return read_report(session)
