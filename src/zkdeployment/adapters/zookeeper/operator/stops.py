"""The recorded stops of the fleet: failures of hosts, and stops and holds of operators.

Each of the first ``FIRST`` stops has a node of its own. Later stops share ``LAST`` nodes: each replaces the
previous stop in its node, and the node's version counts them. Creating a node, and each stop of an operator, also
changes the parent node, so that a transaction that forgets the stops fails if it does not know all of them.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Check, Create, Delete, Set
from zkdeployment.errors import ConflictError
from zkdeployment.model.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.adapters.zookeeper.client.transactions import Operation

FIRST = 64
LAST = 64

#: The prefix of shared nodes; no host id has this prefix, and names of operators with it are escaped.
_SHARED = "~later-"
_ESCAPED = "~%6Cater-"

#: How many nodes one transaction removes if other programs created more than the limit.
_BATCH = 500


@dataclass(frozen=True)
class RecordedStops:
    """The names of the nodes of all stops, and the version of their parent node, which was read first."""

    names: tuple[str, ...]
    version: int


def read_stops(session: Session) -> tuple[Stop, ...]:
    """Return the recorded stops; read in one pipelined round."""
    names = session.children(paths.STOPS) or ()
    nodes = session.get_many(f"{paths.STOPS}/{name}" for name in names)
    return tuple(stop_of(name, node) for name, node in zip(names, nodes, strict=True) if node is not None)


def stop_of(name: str, node: Node) -> Stop:
    """Decode the node of a stop; its ``name`` shows whether the node is shared."""
    return replace(Stop.from_properties(node.properties), replaced=node.version if name.startswith(_SHARED) else 0)


def recorded_stops(session: Session) -> RecordedStops:
    """Return the names of the recorded stops; create their parent node if it is missing."""
    (above,), (names,) = session.look([paths.STOPS], [paths.STOPS])
    if above is None:
        session.ensure(paths.STOPS)
        (above,), (names,) = session.look([paths.STOPS], [paths.STOPS])
    if above is None:
        raise ConflictError(f"{paths.STOPS} was removed right after it was created; check what removes it")
    return RecordedStops(tuple(names or ()), above.version)


def recording_stop(session: Session, stop: Stop) -> list[Operation]:
    """Return the operations that record a stop; it replaces an earlier stop of the same host or operator.

    Commit them together with a check of ``/hosts``: a stop is recorded only while the fleet is stopped.
    """
    recorded = recorded_stops(session)
    name = quote(stop.key, safe="~@")
    if name.startswith(_SHARED):
        name = _ESCAPED + name.removeprefix(_SHARED)
    if name not in recorded.names and len(recorded.names) >= FIRST:
        name = f"{_SHARED}{zlib.crc32(name.encode()) % LAST}"
    path, data = f"{paths.STOPS}/{name}", encode(stop.properties())
    if name not in recorded.names:
        return [Create(path, data), _touch(recorded)]
    replaces_another = name.startswith(_SHARED) and stop.is_failure
    return [Set(path, data)] if replaces_another else [Set(path, data), _touch(recorded)]


def forgetting_stops(recorded: RecordedStops) -> list[Operation]:
    """Return the operations that remove all recorded stops; they fail if another stop was recorded since."""
    if not recorded.names:
        return [Check(paths.STOPS, recorded.version)]
    return [_touch(recorded), *(Delete(f"{paths.STOPS}/{name}") for name in recorded.names)]


def few_stops(session: Session, hosts: int, recorded: RecordedStops | None = None) -> RecordedStops:
    """Return the recorded stops, after removing so many that one transaction can remove the rest.

    Call this for a fleet that is about to be resumed. ``hosts`` is the version of the node ``/hosts``,
    ``recorded`` are the stops if they were read already. Raises ``ConflictError`` if the node has changed.
    """
    recorded = recorded or recorded_stops(session)
    surplus: Sequence[str] = recorded.names[FIRST + LAST :]
    for start in range(0, len(surplus), _BATCH):
        batch = surplus[start : start + _BATCH]
        session.commit(Check(paths.HOSTS, hosts), *(Delete(f"{paths.STOPS}/{name}") for name in batch))
    return replace(recorded, names=recorded.names[: FIRST + LAST])


def _touch(recorded: RecordedStops) -> Operation:
    return Set(paths.STOPS, b"", recorded.version)
