"""Reads the signed publication as far as it concerns one host.

Nothing that is read here is trusted: the checks belong to ``signing``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.lookup import lookup
from zkdeployment.adapters.zookeeper.client.nodes import is_path
from zkdeployment.adapters.zookeeper.publication.signed import decode_signed, signed_paths
from zkdeployment.adapters.zookeeper.publication.strategies import decode_strategy
from zkdeployment.errors import ConfigurationError, ConflictError, TreeError, UntrustedError
from zkdeployment.model.cluster import Cluster
from zkdeployment.model.tree import PROPERTY_LINK
from zkdeployment.signing.snapshot import SignedSnapshot
from zkdeployment.tree.links import resolved_properties

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.host import Identity
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.model.tree import Properties


class ZooKeeperSignedPublications:
    """The signed publication through one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def snapshot(self, identity: Identity) -> SignedSnapshot:
        """Read the statement with the targets of this host, in one request.

        Raises ``ConflictError`` if a publication interfered (then call again), ``UntrustedError`` for nodes that
        no syncer can have written.
        """
        names = identity.target_names
        seen, nodes = self._session.get_many_seen(
            [*map(paths.target_path, names), *signed_paths(names), paths.STRATEGY, paths.HOSTS]
        )
        targets, (*signed, strategy, hosts) = nodes[: len(names)], nodes[len(names) :]
        # Every publication writes ``/hosts``: in its only transaction, or in the first and the last of several.
        # All reads saw a state at least as new as ``seen``, and ``/hosts`` was read last: if it has not changed
        # since ``seen``, all nodes belong to one publication, or ``/hosts`` shows that one is under way.
        if hosts is not None and hosts.changed > seen:
            raise ConflictError(f"the cluster version changed while the publication was read for {identity}")
        found = decode_signed(names, signed)
        return SignedSnapshot(
            cluster=None if hosts is None else Cluster.from_properties(hosts.properties),
            changed=0 if hosts is None else hosts.changed,
            signed=found.statement,
            buckets=found.buckets,
            targets={name: None if node is None else node.data for name, node in zip(names, targets, strict=True)},
            strategy=_strategy(strategy),
        )

    def properties(self, services: Collection[str], snapshot: SignedSnapshot) -> Mapping[str, Properties]:
        """Read the properties of these nodes, with the values of all property links.

        Raises ``ConflictError`` if the cluster version changed since the snapshot, ``UntrustedError`` if a node or
        the target of a link does not exist.
        """
        wanted = sorted(services)
        found = self._resolved(wanted)
        # The targets of links were read one after the other: all belong to the publication if it still stands.
        hosts = self._session.get(paths.HOSTS)
        if hosts is None or hosts.changed != snapshot.changed:
            raise ConflictError("the cluster version changed while the properties of services were read")
        if isinstance(found, UntrustedError):
            raise found
        return found

    def _read(self, wanted: Sequence[str]) -> dict[str, Properties | None]:
        return dict(zip(wanted, map(_properties, self._session.get_many(wanted)), strict=True)) if wanted else {}

    def _resolved(self, wanted: Sequence[str]) -> Mapping[str, Properties] | UntrustedError:
        """Return the properties of services by path, or the error if one of them cannot be read."""
        known = self._read(wanted)
        linked = {target for properties in known.values() if properties for target in _linked(properties)}
        look = lookup(self._session, known | self._read(sorted(linked - known.keys())))
        try:
            return {path: resolved_properties(look, path) for path in wanted}
        except (TreeError, ConfigurationError) as error:  # the latter: ZooKeeper accepts no such path
            return UntrustedError(f"the properties of a service cannot be read: {error}")


def _linked(properties: Properties) -> Iterator[str]:
    """Yield the nodes that property links name, except for relative ones, which are read one after the other."""
    for name, value in properties.items():
        if name.endswith(PROPERTY_LINK) and isinstance(value, str):
            target = value.partition(" ")[0]
            if target.startswith("/") and is_path(target):
                yield target


def _properties(node: Node | None) -> Properties | None:
    return None if node is None else node.properties


def _strategy(node: Node | None) -> Strategy | None:
    try:
        return decode_strategy(node)
    except TreeError as error:
        raise UntrustedError(f"ZooKeeper does not hold the strategy that was signed: {error}") from error
