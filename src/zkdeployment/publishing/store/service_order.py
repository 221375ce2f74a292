"""The order between services in a publication: a node for each awaited service, a child for each finished host.

The publication creates the nodes, and then removes those of earlier publications. A missing node therefore means
that another publication is the last one; it never means that all hosts have finished. Agents read and write the
nodes with ``agent.store.service_orders``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.log import get_logger
from zkdeployment.base.publication import OrderEntry
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, pack, unpack
from zkdeployment.zookeeper.transactions import Delete

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.zookeeper.session import Session

#: The number of deletions in one transaction.
_CHUNK = 1000


def encode_entry(entry: OrderEntry, *, is_complete: bool = False) -> bytes:
    """Return the data of an entry's node; ``is_complete``: all its hosts have finished."""
    absent = {"absent": [*entry.absent]} if entry.absent else {}
    return pack({"hosts": [*entry.hosts], "gaining": [*entry.gaining], "complete": is_complete} | absent)


def decode_entry(node: Node) -> tuple[OrderEntry, bool]:
    """Return an entry and whether it is complete; a damaged node is an entry for which no host waits."""
    try:
        value = unpack(node.data)
    except ValueError:
        value = None
    match value:
        case {"hosts": list(hosts), "gaining": list(gaining), "complete": bool(is_complete), **more}:
            absent = more.get("absent")
            absent = absent if isinstance(absent, list) else []
            return OrderEntry(*(tuple(map(str, names)) for names in (hosts, gaining, absent))), is_complete
    return OrderEntry(), True


def read_unfinished(session: Session, sequence: int, names: Collection[str]) -> dict[str, frozenset[str]]:
    """Return the hosts that gain a service in a publication and still lack it, by the service's path.

    ``names`` are the names of the nodes of the publication's order.
    """
    directory = paths.order_path(sequence)
    nodes, children = session.look(
        [f"{directory}/{name}" for name in names], [f"{directory}/{name}" for name in names]
    )
    unfinished = {}
    for name, node, finished in zip(names, nodes, children, strict=True):
        gaining = frozenset() if node is None else frozenset(decode_entry(node)[0].gaining)
        if missing := gaining.difference(map(unquote, finished or ())):
            unfinished[paths.awaited_service(name)] = missing
    return unfinished


def remove_orders_before(session: Session, sequence: int) -> None:
    """Remove the nodes of earlier publications; errors are logged, and the next call tries again.

    Later publications keep theirs: another syncer may have published since this one released its lock.
    """
    try:
        for earlier in paths.sequences(session.children(paths.ORDER) or ()):
            if earlier < sequence:
                _remove(session, paths.order_path(earlier))
    except ZkdeploymentError as error:
        get_logger().warning("order-not-tidied", reason=str(error))


def _remove(session: Session, directory: str) -> None:
    names = session.children(directory) or ()
    children = session.look([], [f"{directory}/{name}" for name in names])[1]
    doomed = [
        *(
            f"{directory}/{name}/{host}"
            for name, hosts in zip(names, children, strict=True)
            for host in hosts or ()
        ),
        *(f"{directory}/{name}" for name in names),
        directory,
    ]
    for start in range(0, len(doomed), _CHUNK):
        session.commit(*map(Delete, doomed[start : start + _CHUNK]))
