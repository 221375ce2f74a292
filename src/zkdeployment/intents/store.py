"""The records of intents, also of removed ones: an index for each intent, and parts that never change.

``/zkdeployment/intents/SUBJECT`` is the index: the document, the state, the digest of the content and the list of
instances. The nodes below it are parts: contents, the services of instances, and final statuses. A part is named
by its kind and a hash of its data, and is created before the index that names it: a process that dies in between
leaves the former record intact. Parts that no index names are removed with the next index.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from zkdeployment.base.errors import ConflictError, NotFoundError, TreeError
from zkdeployment.base.host import Host
from zkdeployment.base.log import get_logger
from zkdeployment.base.values import dataclass
from zkdeployment.intents.documents import Intent, IntentState, IntentSubject, intent_of_document, subject_text
from zkdeployment.intents.rules.content import content_from_json, content_to_json
from zkdeployment.intents.rules.governance import IntentGovernance
from zkdeployment.intents.rules.instances import (
    InstanceHistory,
    InstanceService,
    IntentInstance,
    IntentRecord,
    due_approval,
    events_from_json,
    history_from_json,
    merged_history,
)
from zkdeployment.intents.rules.reality import PROVIDERS, FleetReports, fleet_reports
from zkdeployment.publishing.store.assignments import left_operations, withheld_operations
from zkdeployment.publishing.store.cluster import decode_published, read_maintenance
from zkdeployment.publishing.store.documents import SectionOperations, subject_name
from zkdeployment.publishing.store.history import read_results
from zkdeployment.publishing.store.hosts import decode
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, encode_content, pack, unpack
from zkdeployment.zookeeper.transactions import Create, Delete, Operation, Set

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.act import Decision
    from zkdeployment.base.publication import LeftService
    from zkdeployment.publishing.targets.compiler import ServiceTarget
    from zkdeployment.zookeeper.session import Session

INTENTS = f"{paths.OURS}/intents"
FORMER_INTENTS = f"{paths.OURS}/former-intents"

#: Bytes of one part, so that two parts fit into one transaction with its other operations.
_PART = 256 * 1024

#: Rows of a final status that are packed together.
_ROWS = 20_000

#: The required keys of an index.
_KEYS = frozenset({"document", "state", "content", "approved", "instances"})

#: Further attempts to read an index whose parts were replaced in the meantime.
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class IntentNodes:
    """The nodes that a change of records may affect: indexes by name, and the names of the parts of each.

    ``exists`` is whether the node above the indexes exists. ``withheld`` is the node of the withheld services,
    ``left`` of those that left governance.
    """

    exists: bool
    withheld: Node | None
    left: Node | None
    indexes: Mapping[str, Node]
    parts: Mapping[str, frozenset[str]]


# Reading


def read_records(session: Session) -> tuple[IntentRecord, ...]:
    """Return the records of all intents, sorted by subject; former instances have only the values in lists.

    A damaged record is omitted and logged. The number of requests grows with the number of intents only.
    """
    return _read(session, None)


def read_record(session: Session, subject: IntentSubject) -> IntentRecord | None:
    """Return the whole record of an intent, with all instances; ``None`` if it does not exist."""
    return next(iter(_read(session, subject)), None)


def summary_of(name: str, node: Node) -> IntentRecord | None:
    """Return the values of an intent in its index: its document, its state, and the list of its instances.

    ``None`` for an index that is not written yet, or is damaged.
    """
    index = _index(name, node)
    if index is None:
        return None
    try:
        return IntentRecord(
            intent_of_document(index["document"]),
            IntentState(index["state"]),
            tuple(_listed_instance(entry, is_final=entry["final"] is not None) for entry in index["instances"]),
            stamp=node.version,
        )
    except (KeyError, TypeError, ValueError) as error:
        get_logger().warning("intent-damaged", path=_path(name), reason=str(error))
        return None


def decision_of(name: str, node: Node) -> Decision | None:
    """Return the approval for which an intent waits; ``None`` if it waits for none, or for a damaged index."""
    record = summary_of(name, node)
    index = _index(name, node)
    if record is None or index is None:
        return None
    return due_approval(record.intent, record.state, index.get("digest"), node.modified)


def read_governance(session: Session, left: Iterable[LeftService]) -> IntentGovernance:
    """Return the intents of the last publication, with the services that left governance before.

    The last transaction of a publication writes the intents. Raises ``TreeError`` if an index is damaged, because
    without the index the services of its intent would be deployed.
    """
    names = session.children(INTENTS) or []
    nodes = zip(names, session.get_many(map(_path, names)), strict=True)
    intents = (_governing(name, node) for name, node in nodes if node is not None and node.data)
    return IntentGovernance(tuple(intents), tuple(left))


def _governing(name: str, node: Node) -> Intent:
    try:
        return intent_of_document((_index(name, node) or {})["document"])
    except (KeyError, TypeError, ValueError) as error:
        raise TreeError(
            f"{_path(name)} is damaged, so what its intent governs is not known; restore the node, or remove it to"
            " have its services deployed"
        ) from error


def read_awaiting_records(session: Session) -> tuple[IntentRecord, ...]:
    """Return the records whose last instance is terminated and has no final status yet.

    The other records are not read beyond their indexes. A damaged record is omitted and logged.
    """
    names = session.children(INTENTS) or []
    nodes = zip(names, session.get_many(map(_path, names)), strict=True)
    summaries = (summary_of(name, node) for name, node in nodes if node is not None)
    awaiting = [each.intent.subject for each in summaries if each is not None and each.awaits_final_status]
    records = (read_record(session, subject) for subject in awaiting)
    return tuple(record for record in records if record is not None and record.awaits_final_status)


def _read(session: Session, subject: IntentSubject | None) -> tuple[IntentRecord, ...]:
    whole = subject is not None
    indexes, parts = _read_nodes(session, subject)
    for _ in range(_ATTEMPTS):
        if None not in parts.values():
            break
        indexes, parts = _read_nodes(session, subject)
    found = (_record(name, node, index, parts, whole=whole) for name, (node, index) in indexes.items())
    return tuple(record for record in found if record is not None)


def _read_nodes(
    session: Session, subject: IntentSubject | None
) -> tuple[dict[str, tuple[Node, dict[str, Any]]], dict[str, Node | None]]:
    """Return indexes by name, and the parts that they name by path (``None``: removed in the meantime)."""
    names = session.children(INTENTS) or [] if subject is None else [subject_name(subject)]
    indexes = {
        name: (node, index)
        for name, node in zip(names, session.get_many(map(_path, names)), strict=True)
        if node is not None and (index := _index(name, node)) is not None
    }
    wanted = [
        f"{_path(name)}/{part}"
        for name, (_, index) in indexes.items()
        for part in _readable_parts(index, whole=subject is not None)
    ]
    return indexes, dict(zip(wanted, session.get_many(wanted), strict=True))


def _index(name: str, node: Node) -> dict[str, Any] | None:
    """Return the value of an index; ``None`` if the index is not written yet, or damaged."""
    if not node.data:
        return None
    try:
        value = unpack(node.data)
    except ValueError as error:
        get_logger().warning("intent-damaged", path=_path(name), reason=str(error))
        return None
    if isinstance(value, dict) and value.keys() >= _KEYS:
        return value
    get_logger().warning("intent-damaged", path=_path(name), reason="keys are missing")
    return None


def _named_parts(index: Mapping[str, Any], *, whole: bool) -> Iterator[str]:
    """Yield the names of the parts that a record needs; ``whole``: also those of former instances."""
    yield from index["content"]
    yield from index["approved"] or ()
    for entry in index["instances"] if whole else index["instances"][-1:]:
        yield from entry["services"]
        for packed in entry["final"] or ():
            yield from packed


def _readable_parts(index: Mapping[str, Any], *, whole: bool) -> Sequence[str]:
    """Return the named parts; none of a damaged index, which ``_record`` logs."""
    try:
        return list(_named_parts(index, whole=whole))
    except (KeyError, TypeError):
        return ()


def _record(
    name: str, node: Node, index: Mapping[str, Any], parts: Mapping[str, Node | None], *, whole: bool
) -> IntentRecord | None:
    def value_of(names: Iterable[str]) -> Any:
        data = (part.data for part_name in names if (part := parts[f"{_path(name)}/{part_name}"]) is not None)
        return unpack(b"".join(data))

    try:
        intent = intent_of_document(index["document"])
        *former, last = index["instances"] or (None,)
        instances = [
            _instance(entry, value_of) if whole or entry is last else _listed_instance(entry, is_final=True)
            for entry in (*former, last)
            if entry is not None
        ]
        return IntentRecord(
            intent,
            IntentState(index["state"]),
            tuple(instances),
            content_from_json(value_of(index["content"])),
            None if index["approved"] is None else content_from_json(value_of(index["approved"])),
            node.version,
        )
    except (KeyError, TypeError, ValueError, TreeError) as error:
        get_logger().warning("intent-damaged", path=_path(name), reason=str(error))
        return None


def _instance(entry: Mapping[str, Any], value_of: Any) -> IntentInstance:
    """Return the instance of an entry of an index."""
    value = value_of(entry["services"])
    final = None
    if entry["final"] is not None:
        final = tuple(row for packed in entry["final"] for row in value_of(packed))
    return IntentInstance.from_json(
        entry,
        apps={app: tuple(listed) for app, listed in value["apps"].items()},
        services=tuple(map(InstanceService.from_json, value["services"])),
        target=value["target"],
        final=final,
        events=events_from_json(value["events"]),
    )


def _listed_instance(entry: Mapping[str, Any], *, is_final: bool) -> IntentInstance:
    """Return an instance with the values that lists show, without its services."""
    return IntentInstance.from_json(entry, apps={}, services=(), final=() if is_final else None)


# Writing


def read_intent_nodes(
    session: Session, changed: Collection[IntentSubject], kept: Collection[IntentSubject]
) -> IntentNodes:
    """Return the nodes that a change affects: those of ``changed`` intents, and of all that are not ``kept``."""
    (withheld, left), (listed,) = session.look([paths.WITHHELD, paths.LEFT], [INTENTS])
    names = {subject_name(subject) for subject in changed}
    names |= set(listed or ()) - {subject_name(subject) for subject in kept}
    found = [_path(name) for name in sorted(names)]
    nodes, children = session.look(found, found) if found else ([], [])
    existing = {name: node for name, node in zip(sorted(names), nodes, strict=True) if node is not None}
    parts = {name: frozenset(below or ()) for name, below in zip(sorted(names), children, strict=True)}
    return IntentNodes(listed is not None, withheld, left, existing, parts)


def intent_operations(
    records: Mapping[IntentSubject, IntentRecord],
    nodes: IntentNodes,
    withheld: Collection[ServiceTarget] | None,
    left: Collection[LeftService] = (),
) -> SectionOperations:
    """Return the operations that write these records, and remove the intents of all other nodes.

    The parts are written before the indexes that name them. ``withheld`` are the withheld services, and ``left``
    those that left governance; ``withheld`` is ``None`` if both stay. Raises ``ConflictError`` if a record changed
    since it was read.
    """
    parts: list[Operation] = [] if nodes.exists or not records else [Create(INTENTS)]
    indexes: list[Operation] = []
    if withheld is not None:
        indexes += (*withheld_operations(withheld, nodes.withheld), *left_operations(left, nodes.left))
    wanted = {subject_name(subject): record for subject, record in records.items()}
    for name, record in sorted(wanted.items()):
        path, node = _path(name), nodes.indexes.get(name)
        version = 0 if node is None else node.version
        if record.stamp not in {None, version}:
            raise ConflictError(f"{path} changed since it was read")
        former = None if node is None else _index(name, node)
        encoder = _RecordEncoder(record, former)
        if node is None:
            parts.append(Create(path))
        existing = nodes.parts.get(name, frozenset())
        parts += (Create(f"{path}/{part}", data) for part, data in encoder.parts.items() if part not in existing)
        indexes.append(Set(path, encode_content(encoder.index), version))
        used = set(_named_parts(encoder.index, whole=True))
        indexes += (Delete(f"{path}/{part}") for part in sorted(existing - used))
    for name in sorted(nodes.indexes.keys() - wanted.keys()):
        path = _path(name)
        indexes += (Delete(f"{path}/{part}") for part in sorted(nodes.parts[name]))
        indexes.append(Delete(path, nodes.indexes[name].version))
    return SectionOperations(parts, indexes)


def record_operations(session: Session, record: IntentRecord) -> SectionOperations:
    """Return the operations that write one record, which must exist; raises ``ConflictError`` if it does not."""
    subject = record.intent.subject
    path = _path(subject_name(subject))
    (node,), (parts,) = session.look([path], [path])
    if node is None:
        raise ConflictError(f"{path} was removed")
    name = subject_name(subject)
    nodes = IntentNodes(True, None, None, {name: node}, {name: frozenset(parts or ())})
    return intent_operations({subject: record}, nodes, None)


@dataclass(slots=True)
class _RecordEncoder:
    """The index of a record and the data of its parts by name.

    ``former`` is the present index; the parts that it names are not encoded again, and so may be missing from the
    record.
    """

    record: IntentRecord
    former: Mapping[str, Any] | None
    parts: dict[str, bytes] = field(default_factory=dict)
    index: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        record, approved = self.record, self.record.approved
        entries = {entry["id"]: entry for entry in (self.former or {}).get("instances", ())}
        self.index = {
            "document": record.intent.to_document(),
            "state": record.state.value,
            "digest": record.content.digest,
            "content": self._pack("content", content_to_json(record.content)),
            "approved": None if approved is None else self._pack("content", content_to_json(approved)),
            "instances": [self._entry(instance, entries.get(instance.id)) for instance in record.instances],
        }

    def _entry(self, instance: IntentInstance, former: Mapping[str, Any] | None) -> dict[str, Any]:
        is_same = former is not None and former["changed"] == instance.changed
        has_final = former is not None and former["final"] is not None
        return {
            **instance.to_json(),
            "services": former["services"] if former is not None and is_same else self._services(instance),
            "final": former["final"] if former is not None and is_same and has_final else self._final(instance),
        }

    def _services(self, instance: IntentInstance) -> list[str]:
        value = {
            "apps": {app: list(listed) for app, listed in instance.apps.items()},
            "services": [service.to_json() for service in instance.services],
            "target": instance.target,
            "events": [event.to_json() for event in instance.events],
        }
        return self._pack(f"instance-{instance.id}", value)

    def _final(self, instance: IntentInstance) -> list[list[str]] | None:
        if instance.final is None:
            return None
        starts = range(0, len(instance.final), _ROWS)
        return [
            self._pack(f"final-{instance.id}", [dict(row) for row in instance.final[start : start + _ROWS]])
            for start in starts
        ]

    def _pack(self, kind: str, value: object) -> list[str]:
        """Add a value as parts and return their names."""
        data = pack(value)
        names = []
        for start in range(0, len(data), _PART):
            piece = data[start : start + _PART]
            name = f"{kind}-{hashlib.sha256(piece).hexdigest()[:32]}"
            self.parts[name] = piece
            names.append(name)
        return names


def _path(name: str) -> str:
    return f"{INTENTS}/{name}"


#: The most kept removed intents, and the most bytes of one.
_MOST = 200
_BYTES = 128 * 1024


def removed_histories(session: Session, names: Iterable[str]) -> dict[str, tuple[InstanceHistory, ...]]:
    """Return the instances of the intents at these nodes, whose removal is due."""
    found = {name: read_record(session, tuple(map(unquote, name.split(":")))) for name in sorted(names)}
    return {
        name: tuple(map(InstanceHistory.of, record.instances))
        for name, record in found.items()
        if record is not None
    }


def archive_operations(session: Session, removed: Mapping[str, Sequence[InstanceHistory]]) -> Iterator[Operation]:
    """Yield the operations that keep the history of removed intents, by the names of their nodes.

    The intents with the oldest instances are dropped when there are too many.
    """
    kept = {name: instances for name, instances in removed.items() if instances}
    if not kept:
        return
    listed = session.children(FORMER_INTENTS)
    if listed is None:
        yield Create(FORMER_INTENTS)
    names = sorted({*(listed or ()), *kept})
    nodes = dict(zip(names, session.get_many(map(_former_path, names)), strict=True))
    for name, instances in kept.items():
        node = nodes[name]
        data = _packed(merged_history(_history(node), instances))
        yield Create(_former_path(name), data) if node is None else Set(_former_path(name), data, node.version)
    others = [(_age(node), name, node) for name, node in nodes.items() if name not in kept and node is not None]
    for _, name, node in sorted(others, key=lambda other: other[:2])[: max(0, len(names) - _MOST)]:
        yield Delete(_former_path(name), node.version)


def _age(node: Node) -> int:
    return max((instance.id for instance in _history(node)), default=0)


def _packed(instances: Sequence[InstanceHistory]) -> bytes:
    while len(data := pack([instance.to_json() for instance in instances])) > _BYTES:
        instances = instances[1:]
    return data


def _history(node: Node | None) -> tuple[InstanceHistory, ...]:
    if node is None or not node.data:
        return ()
    try:
        return history_from_json(unpack(node.data))
    except ValueError as error:
        get_logger().warning("former-intent-damaged", reason=str(error))
        return ()


def _former_path(name: str) -> str:
    return f"{FORMER_INTENTS}/{name}"


class ZooKeeperIntents:
    """The published intents, through one session.

    The number of requests does not grow with the number of hosts. All methods raise ``UnreachableError``. Damaged
    records are omitted and logged.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def records(self) -> tuple[IntentRecord, ...]:
        """Return the records of all intents, sorted by subject.

        Instances before the last one have only the values that lists of instances show.
        """
        return read_records(self._session)

    def record(self, subject: IntentSubject) -> IntentRecord | None:
        """Return the whole record of an intent, with all instances; ``None`` if none was published."""
        return read_record(self._session, subject)

    def require(self, subject: IntentSubject) -> IntentRecord:
        """Return the whole record of an intent; raises ``NotFoundError`` if the intent was never published."""
        record = self.record(subject)
        if record is None:
            raise NotFoundError(
                f"no publication has an intent {subject_text(subject)}: expected one of those that"
                " 'zkdeployment intent list' shows; a document that was pushed just now is there after the next"
                " publication"
            )
        return record

    def former(self, subject: IntentSubject) -> tuple[InstanceHistory, ...]:
        """Return the instances of documents of an intent that were removed, oldest first."""
        return _history(self._session.get(_former_path(subject_name(subject))))


#: Requests for all hosts' nodes, inventories and providers.
_REQUESTS = 16


def read_reports(session: Session, services: Collection[str]) -> FleetReports:
    """Return the reports of all known hosts and of the providers of these services, without clusters."""
    directories = {f"{service}/{PROVIDERS}": service for service in sorted(services)}
    (targets,), (registered, known, *instances) = session.look(
        [paths.TARGETS], [paths.HOSTS, paths.INVENTORY, *directories]
    )
    host_paths = [f"{paths.HOSTS}/{name}" for name in registered or ()]
    inventory_paths = [f"{paths.INVENTORY}/{name}" for name in known or ()]
    provider_paths = {
        f"{directory}/{name}": (service, name)
        for (directory, service), names in zip(directories.items(), instances, strict=True)
        for name in names or ()
    }
    nodes = _read_present(session, [*host_paths, *inventory_paths, *provider_paths])
    providers: dict[str, dict[str, Any]] = {}
    for path, (service, name) in provider_paths.items():
        if path in nodes:
            providers.setdefault(service, {})[name] = nodes[path].properties
    return fleet_reports(
        [
            Host.from_properties(_name(path), nodes[path].properties, since=nodes[path].modified)
            for path in host_paths
            if path in nodes
        ],
        [decode(_name(path), nodes[path].data, software=False) for path in inventory_paths if path in nodes],
        read_results(session, decode_published(targets).effective_since),
        providers,
        read_maintenance(session, time.time()),
    )


def _read_present(session: Session, wanted: list[str]) -> dict[str, Node]:
    """Return the existing nodes by path."""
    found = zip(wanted, session.get_in(wanted, requests=_REQUESTS), strict=True)
    return {path: node for path, node in found if node is not None}


def _name(path: str) -> str:
    return path.rpartition("/")[2]
