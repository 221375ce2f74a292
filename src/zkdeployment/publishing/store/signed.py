"""The nodes of the signed publication, and the part of it for one host.

The content is not trusted before the checks in ``signing``.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConfigurationError, ConflictError, TreeError, UntrustedError
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.signing.snapshot import SignedSnapshot
from zkdeployment.publishing.signing.statement import SignedStatement, bucket_of
from zkdeployment.publishing.store.cluster import cluster_of
from zkdeployment.publishing.store.documents import decode_strategy
from zkdeployment.tree.links import resolved_properties
from zkdeployment.tree.values import PROPERTY_LINK
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, is_path
from zkdeployment.zookeeper.session import Session, lookup

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.host import Identity
    from zkdeployment.base.json_values import Properties
    from zkdeployment.strategies.strategy import Strategy


@dataclass(frozen=True, slots=True)
class SignedNodes:
    """The statement with its signature (``None``: nothing is signed), and the data of some buckets by name.

    ``None`` is the data of a bucket that has no node. Nothing is verified.
    """

    statement: SignedStatement | None = None
    buckets: Mapping[str, bytes | None] = field(default_factory=dict)


def signed_paths(names: Iterable[str]) -> list[str]:
    """Return the paths of the statement and of the buckets of these targets, for one request."""
    return [paths.SIGNED, *map(paths.bucket_path, _buckets(names))]


def decode_signed(names: Iterable[str], nodes: Sequence[Node | None]) -> SignedNodes:
    """Decode the nodes that ``signed_paths`` names; raises ``UntrustedError`` if they are not text."""
    root, *others = nodes
    buckets = {
        bucket: None if node is None else node.data for bucket, node in zip(_buckets(names), others, strict=True)
    }
    statement = None if root is None or not root.data else SignedStatement.from_data(root.data)
    return SignedNodes(statement, buckets)


def _buckets(names: Iterable[str]) -> list[str]:
    return sorted({bucket_of(name) for name in names})


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
            cluster=None if hosts is None else cluster_of(hosts),
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
        # The targets of links were read one after the other; they belong to the publication if it is still
        # current.
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
        except (TreeError, ConfigurationError) as error:  # the latter: an invalid path
            return UntrustedError(f"the properties of a service cannot be read: {error}")


def _linked(properties: Properties) -> Iterator[str]:
    """Yield the targets of absolute property links; relative ones are read one after the other."""
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
