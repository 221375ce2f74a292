"""What commands read of the fleet and do to it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.lookup import lookup
from zkdeployment.adapters.zookeeper.inventories import forget_host, known_ids, read_inventories
from zkdeployment.adapters.zookeeper.locks.role_locks import read_out_of_service
from zkdeployment.adapters.zookeeper.operator.audit import read_acts
from zkdeployment.adapters.zookeeper.operator.interventions import published_revision
from zkdeployment.adapters.zookeeper.operator.stops import read_stops
from zkdeployment.adapters.zookeeper.publication.builder import import_transactions, published
from zkdeployment.adapters.zookeeper.publication.history import read_history
from zkdeployment.adapters.zookeeper.publication.live_tree import read_live_tree, read_subtree
from zkdeployment.adapters.zookeeper.publication.reports import read_report
from zkdeployment.adapters.zookeeper.publication.requests import request_of
from zkdeployment.adapters.zookeeper.publication.strategies import read_strategy
from zkdeployment.adapters.zookeeper.rollout.records import read_leader, read_rollout
from zkdeployment.fleet.snapshot import Snapshot
from zkdeployment.model.cluster import Cluster
from zkdeployment.model.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.act import Act
    from zkdeployment.model.history import PublicationRecord
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.publication import LiveTree, SyncerReport, TreeChange
    from zkdeployment.model.stop import Stop
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.model.tree import Properties
    from zkdeployment.tree.links import Lookup


class Operations:
    """Operators' reading and doing, through one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._gone: dict[str, KnownHost] = {}

    def snapshot(self) -> Snapshot:
        """Read the fleet's state: the names of the hosts, then everything in pipelined rounds."""
        hosts = [f"{paths.HOSTS}/{name}" for name in self._session.children(paths.HOSTS) or ()]
        names = {path.rpartition("/")[2] for path in hosts}
        cluster, targets, request, *rest = self._session.get_many(
            [paths.HOSTS, paths.TARGETS, paths.REQUEST, *hosts]
        )
        found = None if cluster is None else Cluster.from_properties(cluster.properties)
        last = published(targets, None, ())
        return Snapshot(
            cluster=found,
            published=published_revision(targets),
            changed=None if cluster is None else cluster.modified,
            hosts=tuple(
                Host.from_properties(path.rpartition("/")[2], node.properties, since=node.modified)
                for path, node in zip(hosts, rest, strict=True)
                if node is not None
            ),
            stops=self.stops(),
            request=None if request is None else request_of(request),
            absent=self._absent(known_ids(self._session) - names),
            out_of_service=read_out_of_service(self._session),
            targets=frozenset(map(unquote, self._session.children(paths.TARGETS) or ())),
            strategy=last.strategy,
            governed=last.governs(found),
            rollout=None if last.strategy is None else read_rollout(self._session, last.sequence),
            coordinator=None if last.strategy is None else read_leader(self._session),
        )

    def _absent(self, host_ids: frozenset[str]) -> tuple[KnownHost, ...]:
        """Read what absent hosts last told, once: it does not change until they are back."""
        new = read_inventories(self._session, host_ids - self._gone.keys())
        gone = {**self._gone, **{known.identity.id: known for known in new}}
        self._gone = {host_id: gone[host_id] for host_id in sorted(host_ids) if host_id in gone}
        return tuple(self._gone.values())

    def stops(self) -> tuple[Stop, ...]:
        """Read what stopped the fleet."""
        return read_stops(self._session)

    def watch(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` (which must not block) when the cluster version may have changed."""
        self._session.watch(paths.HOSTS, changed)

    def history(self, last: int | None = None) -> tuple[PublicationRecord, ...]:
        """Read the records of the ``last`` publications (``None``: of all that are kept), the newest first."""
        return read_history(self._session, last)

    def known_hosts(self) -> tuple[KnownHost, ...]:
        """Read what all hosts last told of what they have."""
        return read_inventories(self._session)

    def forget(self, host: str) -> KnownHost:
        """Forget a host (id or name) that is gone for good; ``RefusedError`` if it is registered, or unknown."""
        known = {one.identity.id: one for one in self.known_hosts()}
        named = [one.identity.id for one in known.values() if one.identity.name == host]
        host_id = host if host in known or len(named) != 1 else named[0]
        forget_host(self._session, host_id)
        return known[host_id]

    def acts(self) -> tuple[Act, ...]:
        return read_acts(self._session)

    def syncer_report(self) -> SyncerReport | None:
        return read_report(self._session)

    def strategy(self) -> Strategy | None:
        """Read the published strategy, if there is one; raises ``TreeError`` for what makes no sense."""
        return read_strategy(self._session)

    def live_tree(self) -> LiveTree:
        """Read the whole live tree."""
        return read_live_tree(self._session)

    def subtree(self, path: str) -> dict[str, Properties] | None:
        """Read a node and all below it, ephemeral nodes included; ``None`` if there is none.

        The empty path is the whole tree without the reserved nodes.
        """
        return read_subtree(self._session, path)

    def lookup(self) -> Lookup:
        """Return what ``tree.links`` follows links with."""
        return lookup(self._session)

    def import_tree(self, change: TreeChange, *, roles: Collection[str], versions: Mapping[str, int]) -> None:
        """Change the tree by hand, without a new version, and make the lock nodes of ``roles``.

        Without a change what is published stays published.
        Raises ``ConflictError`` if one of the nodes was changed since it was read at ``versions``.
        """
        published_state = self._session.get_many([paths.HOSTS, paths.TARGETS, paths.MANAGED])
        for operations in import_transactions(change, versions, published_state, self._session.acl_size):
            self._session.commit(*operations)
        for role in sorted(roles):
            self._session.ensure(f"{paths.ROLE_LOCKS}/{role}")
