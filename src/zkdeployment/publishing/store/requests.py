"""Requests for a publication and notices to syncers, and the refusals and heartbeats that syncers write."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import Revision, is_revision
from zkdeployment.base.errors import ConflictError
from zkdeployment.publishing.records import PublicationRequest, Refusal, SyncerReport
from zkdeployment.publishing.rules.convergence import disappearances
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, encode
from zkdeployment.zookeeper.transactions import NODE_LIMIT, Create, Delete, Operation, Set

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.base.json_values import Value
    from zkdeployment.zookeeper.session import Session


def read_request(session: Session) -> PublicationRequest | None:
    """Return the current request, answered or not; ``None`` if it does not exist."""
    node = session.get(paths.REQUEST)
    return None if node is None else request_of(node)


def asking(session: Session, request: PublicationRequest) -> Operation:
    """Return the operation that writes a request; it replaces an older one."""
    node = session.get(paths.REQUEST)
    data = encode(request.to_json())
    return Create(paths.REQUEST, data) if node is None else Set(paths.REQUEST, data, node.version)


def answer_request(session: Session, request: PublicationRequest, error: str | None) -> bool:
    """Remove a request, or with ``error`` record in it why it was not carried out; return whether that succeeded.

    A request that is gone, or was replaced by a newer one, is not changed.
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


def request_of(node: Node) -> PublicationRequest:
    """Decode the node of a request; missing or malformed properties are unknown."""
    return PublicationRequest.from_json(node.properties, written=node.modified)


#: The limits of kept refusals and of kept bytes.
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
    """Record the refusal of the tip; with ``None``, record that the present tip is not refused.

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


def write_report(session: Session, report: SyncerReport, now: float) -> None:
    """Write the heartbeat of a syncer with the absent hosts; with several syncers, the last heartbeat is shown.

    If this syncer has not ``fetched`` the repository yet, the recorded time of the last fetch stays, and the
    commits that waited then. The absent hosts are omitted if the heartbeat would not fit into its node.
    """
    session.ensure(paths.OURS)
    (node,), (registered, known) = session.look([paths.SYNCER], [paths.HOSTS, paths.INVENTORY])
    last = None if node is None else report_of(node)
    absent = disappearances(last, sorted({*(known or ())} - {*(registered or ())}), now)
    report = replace(report, last_message=report.last_message[:_LONGEST], absent=absent)
    if report.fetched is None and last is not None:
        report = replace(report, fetched=last.fetched, waiting=last.waiting)
    data = encode(report.to_json())
    if len(data) > NODE_LIMIT:
        data = encode(replace(report, absent=None).to_json())
    with contextlib.suppress(ConflictError):  # another syncer has written a heartbeat in between
        session.commit(Create(paths.SYNCER, data) if node is None else Set(paths.SYNCER, data))


def read_report(session: Session) -> SyncerReport | None:
    """Return the last heartbeat; ``None`` if no syncer ever followed a branch."""
    node = session.get(paths.SYNCER)
    return None if node is None else report_of(node)


def report_of(node: Node) -> SyncerReport:
    """Decode the node of the last heartbeat."""
    return SyncerReport.from_json(node.properties, time=node.modified)


def disappeared_of(node: Node | None) -> Mapping[str, float | None]:
    """Return the times at which absent hosts disappeared, by id, as the node of the last heartbeat shows them."""
    return {} if node is None else report_of(node).absent or {}


def give_notice(session: Session, by: str) -> SyncerReport | None:
    """Wake the syncers; return the last heartbeat of a syncer, ``None`` before the first one."""
    data = encode({"by": by})
    session.ensure(paths.OURS)
    with contextlib.suppress(ConflictError):  # another process gave notice at the same time
        session.commit(
            Create(paths.NOTICE, data) if session.get(paths.NOTICE) is None else Set(paths.NOTICE, data)
        )
    return read_report(session)
