"""The instances of a service and the lists of filters, read in one piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client.lookup import lookup
from zkdeployment.adapters.zookeeper.client.reads import Read
from zkdeployment.adapters.zookeeper.feed.followed_nodes import FollowedNodes
from zkdeployment.adapters.zookeeper.filters.filter_record import read_record
from zkdeployment.errors import ConfigurationError
from zkdeployment.providers.selection import ProviderList, RegisteredProvider
from zkdeployment.tree.links import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session

#: Attempts to read a node and its children while none of them changes.
_ATTEMPTS = 10


class ZooKeeperProviderReader:
    """Reads the instances of services through one session.

    ``wake`` (which must not block) is called when a followed path changes.
    """

    def __init__(self, session: Session, wake: Callable[[], None] = lambda: None) -> None:
        self._session = session
        self._followed = FollowedNodes(session, wake)

    def read(self, path: str) -> ProviderList:
        """Return the instances below the node that ``path`` resolves to.

        The list of a filter is returned in its state between two changes. Raises ``LinkError`` if there is no
        node.
        """
        found = self._resolve(path)
        node, children = read_with_children(self._session, found)
        return _listed(found, node, children)

    def follow(self, path: str) -> ProviderList:
        """Return what ``read`` returns, and arrange that the reader's owner is woken at its next change.

        Only what changed since the last call is read. While the list of a filter changes, parts of it may be
        returned in their former state. Raises ``LinkError`` if there is no node.
        """
        found = self._resolve(path)

        def wanted() -> Iterator[Read]:
            yield Read(found)
            yield Read(found, children=True)
            for name in self._followed.children(found):
                yield Read(f"{found}/{name}")

        self._followed.refresh(wanted)
        nodes = {name: self._followed.node(f"{found}/{name}") for name in self._followed.children(found)}
        children = {name: node for name, node in nodes.items() if node is not None}
        return _listed(found, self._followed.node(found), children)

    def _resolve(self, path: str) -> str:
        """Return the path without links; raises ``LinkError`` if there is no node."""
        found = resolve(lookup(self._session), path)
        if not found:
            raise ConfigurationError("/ has no instances: expected the path of a node such as /shop/web/providers")
        return found


def _listed(path: str, node: Node | None, children: Mapping[str, Node]) -> ProviderList:
    """Return the list at a path; raises ``ConfigurationError`` for a service itself."""
    if node is not None and "type" in node.properties and "deploy" in children:
        raise ConfigurationError(
            f"{path} is a service: expected the node below which its instances register, such as {path}/providers"
        )
    providers = {name: RegisteredProvider(child.properties, child.born) for name, child in children.items()}
    return ProviderList(path, providers, *read_record(node))


def read_with_children(session: Session, path: str) -> tuple[Node | None, dict[str, Node]]:
    """Return a node and its children by name, from one moment if the filter of this list wrote them.

    Each change by a filter changes the node, too. Children of other nodes may come and go during the call.
    """
    before = session.get(path)
    children: dict[str, Node] = {}
    for _ in range(_ATTEMPTS):
        names = session.children(path) or ()
        nodes = session.get_many([*[f"{path}/{name}" for name in names], path])
        after = nodes.pop()
        children = {name: node for name, node in zip(names, nodes, strict=True) if node is not None}
        if len(children) == len(names) and _version(before) == _version(after):
            break
        before = after
    return before, children


def _version(node: Node | None) -> tuple[int, int] | None:
    return None if node is None else (node.born, node.version)
