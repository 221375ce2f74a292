"""Records of intents, also of removed ones, as operators and the service read them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.base.log import get_logger
from zkdeployment.intents.rules.instances import InstanceHistory, history_from_json, merged_history
from zkdeployment.intents.store.records import read_record, read_records
from zkdeployment.publishing.store.documents import subject_name
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import pack, unpack
from zkdeployment.zookeeper.transactions import Create, Delete, Operation, Set

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zkdeployment.intents.documents.values import IntentSubject
    from zkdeployment.intents.rules.instances import IntentRecord
    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session


#: The most kept removed intents, and the most bytes of one.
_MOST = 200
_BYTES = 128 * 1024


def read_former(session: Session, subject: IntentSubject) -> tuple[InstanceHistory, ...]:
    """Return the instances of removed documents of an intent, oldest first."""
    return _history(session.get(_path(subject_name(subject))))


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
    listed = session.children(paths.FORMER_INTENTS)
    if listed is None:
        yield Create(paths.FORMER_INTENTS)
    names = sorted({*(listed or ()), *kept})
    nodes = dict(zip(names, session.get_many(map(_path, names)), strict=True))
    for name, instances in kept.items():
        node = nodes[name]
        data = _packed(merged_history(_history(node), instances))
        yield Create(_path(name), data) if node is None else Set(_path(name), data, node.version)
    others = [(_age(node), name, node) for name, node in nodes.items() if name not in kept and node is not None]
    for _, name, node in sorted(others, key=lambda other: other[:2])[: max(0, len(names) - _MOST)]:
        yield Delete(_path(name), node.version)


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


def _path(name: str) -> str:
    return f"{paths.FORMER_INTENTS}/{name}"


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

    def former(self, subject: IntentSubject) -> tuple[InstanceHistory, ...]:
        """Return the instances of documents of an intent that were removed, oldest first."""
        return read_former(self._session, subject)
