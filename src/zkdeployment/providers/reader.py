"""Reads the instances of a service and the lists of filters in one piece, for consumers and verbs."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.base.errors import ConfigurationError, LinkError
from zkdeployment.providers.discovery import PROVIDERS, Discovery, discover, hosts_of, service_of
from zkdeployment.providers.selection import ProviderList, RegisteredProvider
from zkdeployment.tree.links import resolve
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, encode
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.session import Session, lookup, verb_session
from zkdeployment.zookeeper.shared_nodes import FollowedNodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from zkdeployment.providers.settings import DiscoverySettings
    from zkdeployment.zookeeper.servers import Servers


_SOURCE = "filtered-from"
_VERSION = "version"


class FilterRecord(NamedTuple):
    """The path of the instances that are filtered, and the version in service; ``None`` if not recorded."""

    source: str | None
    version: str | None


def read_record(node: Node | None) -> FilterRecord:
    """Return the record in a node, which is empty if no filter keeps a list there."""
    properties = {} if node is None else node.properties
    source, version = properties.get(_SOURCE), properties.get(_VERSION)
    if not isinstance(source, str):
        return FilterRecord(None, None)
    return FilterRecord(source, version if isinstance(version, str) else None)


def encode_record(record: FilterRecord) -> bytes:
    """Return the data of a list's node."""
    return encode({_SOURCE: record.source, _VERSION: record.version})


#: Attempts to read a node and its children without a change in between.
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
        """Return the result of ``read``, and wake the reader's owner at the next change.

        Only nodes that changed since the last call are read. While the list of a filter changes, parts of it may
        be returned in their former state. Raises ``LinkError`` if there is no node.
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

    def discover(
        self, path: str, port: str | None, settings: DiscoverySettings, *, follows: bool = False
    ) -> Discovery:
        """Return the targets for the instances of a service, or for those at a path, as ``discovery`` describes.

        With ``follows``, the reader's owner is woken at the next change. Raises ``LinkError`` if there is no node.
        """
        where = path
        with contextlib.suppress(LinkError):
            self._resolve(f"{path}{PROVIDERS}")
            where = f"{path}{PROVIDERS}"
        listed = self.follow(where) if follows else self.read(where)
        instances = {address: provider.properties for address, provider in listed.providers.items()}
        hosts = hosts_of([*instances.values()])
        nodes = self._session.get_many(f"{paths.HOSTS}/{host}" for host in hosts)
        roles = {
            host: role
            for host, node in zip(hosts, nodes, strict=True)
            if node is not None and isinstance(role := node.properties.get("role"), str)
        }
        return discover(service_of(path), instances, roles, port, settings)

    def _resolve(self, path: str) -> str:
        """Return the path without links; raises ``LinkError`` if there is no node."""
        found = resolve(lookup(self._session), path)
        if not found:
            raise ConfigurationError("/ has no instances: expected the path of a node such as /shop/web/providers")
        return found


def _listed(path: str, node: Node | None, children: Mapping[str, Node]) -> ProviderList:
    """Return the list at a path; raises ``ConfigurationError`` for the path of a service node."""
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


@contextlib.contextmanager
def open_providers(servers: Servers, wake: Callable[[], None] = lambda: None) -> Iterator[ZooKeeperProviderReader]:
    """Connect to ZooKeeper and yield the reader of instances; raises ``UnreachableError``.

    ``wake`` (which must not block) is called when a followed path or the connection changes.
    """
    with verb_session(servers) as session:
        session.on_change(wake)
        yield ZooKeeperProviderReader(session, wake)
