"""The history: a node for each publication, and below it a node for each host that finished or failed.

The next publication folds the hosts' nodes into the publication's node, compressed, and drops the oldest records.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.deployment import HostResult
from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.log import get_logger
from zkdeployment.publishing.records import PublicationRecord, PublicationSummary
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, pack, unpack
from zkdeployment.zookeeper.transactions import NODE_LIMIT, Delete, Operation, Set

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from zkdeployment.zookeeper.session import Session

#: The number of kept publications.
LIMIT = 500

#: The number of older publications that are checked for results to fold, because hosts may write late.
_RECENT = 3

#: The most publications that one call drops.
_DROPPED = 20

_CHUNK = 1000

#: The kept characters of each error in a record that is too large.
_BRIEF = 20

#: The number of publications of which summaries are kept.
SUMMARIES = 200

#: The number of records that are decoded at a time, for their summaries.
_READ_TOGETHER = 20

#: Requests for the results of all hosts.
_REQUESTS = 8


def recent_publications(sequences: Sequence[int]) -> list[str]:
    """Return the nodes of the older publications, given by sequence, to which hosts may still write."""
    return [paths.history_path(sequence) for sequence in sequences[-_RECENT:]]


def tidy(
    session: Session,
    sequences: Sequence[int],
    recent: Mapping[str, Collection[str] | None],
    *,
    limit: int = LIMIT,
) -> None:
    """Fold the results of the ``recent`` publications into their nodes, and drop the oldest publications.

    ``sequences`` are the sequences of all older publications. ``recent`` maps the node of each recent publication
    to the names of its results. Errors are logged; the next call tries again.
    """
    older = [paths.history_path(sequence) for sequence in sequences]
    surplus = max(0, len(older) + 1 - limit)
    try:
        for path in older[:surplus][:_DROPPED]:
            _drop(session, path)
        for path, names in recent.items():
            if names and path not in older[:surplus]:
                _fold(session, path, names)
    except ZkdeploymentError as error:
        get_logger().warning("history-not-tidied", reason=str(error))


class PublicationMemory:
    """The summaries of publications through one session; only those that may still change are read again."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._settled: dict[int, PublicationSummary] = {}

    def read(self) -> tuple[PublicationSummary, ...]:
        """Return the summaries of the last ``SUMMARIES`` publications, newest first."""
        sequences = _sequences(self._session)[-SUMMARIES:]
        found = {sequence: self._settled[sequence] for sequence in sequences if sequence in self._settled}
        missing = [sequence for sequence in sequences if sequence not in found]
        for start in range(0, len(missing), _READ_TOGETHER):  # the results of all hosts may take megabytes
            for record in _records(self._session, missing[start : start + _READ_TOGETHER]):
                found[record.sequence] = PublicationSummary.of(record)
        recent = {*sequences[-_RECENT - 1 :]}
        self._settled = {sequence: each for sequence, each in found.items() if sequence not in recent}
        return tuple(found[sequence] for sequence in reversed(sequences) if sequence in found)


def read_history(session: Session, last: int | None = None) -> tuple[PublicationRecord, ...]:
    """Return the records of the ``last`` publications (``None``: all that are kept), newest first."""
    sequences = _sequences(session)
    return _records(session, sequences if last is None else sequences[-last:])


def read_publication(session: Session, sequence: int) -> tuple[PublicationRecord, ...]:
    """Return the record of the next publication, if any, then that of a publication; empty if it is unknown."""
    sequences = _sequences(session)
    if sequence not in sequences:
        return ()
    place = sequences.index(sequence)
    return _records(session, sequences[place : place + 2])


def read_results(session: Session, since: int) -> dict[str, HostResult]:
    """Return the latest result of each host in the publications from the sequence ``since`` on, by host id.

    The number of requests does not grow with the number of hosts.
    """
    places = [paths.history_path(sequence) for sequence in _sequences(session) if sequence >= since > 0]
    records, children = session.look(places, places)
    wanted = [f"{path}/{name}" for path, names in zip(places, children, strict=True) for name in names or ()]
    unfolded = {
        path.rpartition("/")[2]: HostResult.from_json(node.properties)
        for path, node in zip(wanted, session.get_in(wanted, requests=_REQUESTS), strict=True)
        if node is not None
    }
    return merge(*(_record(node).results for node in records if node is not None), unfolded)


def _records(session: Session, sequences: Iterable[int]) -> tuple[PublicationRecord, ...]:
    places = [paths.history_path(sequence) for sequence in sequences]
    nodes = session.get_many(places)
    return tuple(
        _with_results(session, path, _record(node), node.children)
        for path, node in reversed(list(zip(places, nodes, strict=True)))
        if node is not None
    )


def _with_results(session: Session, path: str, record: PublicationRecord, children: int) -> PublicationRecord:
    """Return the record with the results that are not folded into it yet."""
    if not children:
        return record
    results, _ = _results(session, path, session.children(path) or ())
    return replace(record, results=merge(record.results, results))


def merge(*many: Mapping[str, HostResult]) -> dict[str, HostResult]:
    """Return the results by host id; of several results of a host, the latest counts, with the first failure."""
    results: dict[str, HostResult] = {}
    for host_id, result in (item for some in many for item in some.items()):
        known = results.get(host_id, result)
        earlier, later = (known, result) if known.time <= result.time else (result, known)
        results[host_id] = later.after(earlier)
    return results


def folded(record: PublicationRecord, room: int = NODE_LIMIT) -> bytes:
    """Encode a record with its results; if the record is too large, successful hosts are only counted."""
    data = pack(record.to_json())
    if len(data) <= room:
        return data
    failed = {host_id: result for host_id, result in record.results.items() if result.first_failure is not None}
    counted = replace(record, results=failed, left_out=record.left_out + len(record.results) - len(failed))
    data = pack(counted.to_json())
    if len(data) <= room:
        return data
    brief = {host_id: _brief(result) for host_id, result in failed.items()}
    return pack(replace(counted, results=brief).to_json())


def _brief(result: HostResult) -> HostResult:
    """Return a result with the beginnings of its errors."""
    former = None if result.former is None else replace(result.former, error=result.former.error[:_BRIEF])
    return replace(result, error=None if result.error is None else result.error[:_BRIEF], former=former)


def _sequences(session: Session) -> list[int]:
    return paths.sequences(session.children(paths.HISTORY) or ())


def _fold(session: Session, path: str, names: Collection[str]) -> None:
    node = session.get(path)
    if node is None:
        return
    results, nodes = _results(session, path, names)
    record = _record(node)
    whole = replace(record, results=merge(record.results, results))
    gone = [Delete(place, folded_node.version) for place, folded_node in nodes.items()]
    first: list[Operation] = [Set(path, folded(whole), node.version), *gone[:_CHUNK]]
    session.commit(*first)
    for start in range(_CHUNK, len(gone), _CHUNK):
        session.commit(*gone[start : start + _CHUNK])


def _drop(session: Session, path: str) -> None:
    names = session.children(path) or ()
    for start in range(0, len(names), _CHUNK):
        session.commit(*(Delete(f"{path}/{name}") for name in names[start : start + _CHUNK]))
    session.commit(Delete(path))


def _results(session: Session, path: str, names: Collection[str]) -> tuple[dict[str, HostResult], dict[str, Node]]:
    nodes = session.get_many(f"{path}/{name}" for name in names)
    existing = {name: node for name, node in zip(names, nodes, strict=True) if node is not None}
    results = {name: HostResult.from_json(node.properties) for name, node in existing.items()}
    return results, {f"{path}/{name}": node for name, node in existing.items()}


def publication_of(node: Node) -> PublicationRecord:
    """Decode a publication's node without the results of hosts, which may be thousands."""
    return replace(_record(node), results={})


def _record(node: Node) -> PublicationRecord:
    """Decode a publication's node; an invalid node gives an empty record."""
    try:
        record = unpack(node.data)
    except ValueError:
        record = None
    return PublicationRecord.from_json(record)
