"""What commands read of the fleet and do to it."""

from __future__ import annotations

import threading
import time
import uuid
from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.adapters.zookeeper import paths
from zkdeployment.adapters.zookeeper.inventories import forget_host, known_ids, read_inventories
from zkdeployment.adapters.zookeeper.live_tree import read_live_tree, read_subtree
from zkdeployment.adapters.zookeeper.lookup import lookup
from zkdeployment.adapters.zookeeper.nodes import Node, encode
from zkdeployment.adapters.zookeeper.publishing import import_transactions
from zkdeployment.adapters.zookeeper.requests import (
    answer_request,
    read_request,
    request_from_properties,
    write_request,
)
from zkdeployment.adapters.zookeeper.transactions import Check, Delete, Set
from zkdeployment.errors import ConflictError, RefusedError, WaitTimeoutError, ZkdeploymentError
from zkdeployment.model.cluster import Cluster, ClusterState, is_revision
from zkdeployment.model.host import Host
from zkdeployment.model.publication import PublicationRequest
from zkdeployment.model.snapshot import Snapshot
from zkdeployment.model.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from zkdeployment.adapters.zookeeper.session import Session
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.publication import LiveTree, TreeChange
    from zkdeployment.model.tree import Properties
    from zkdeployment.tree.links import Lookup

_ATTEMPTS = 5


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
        return Snapshot(
            cluster=None if cluster is None else Cluster.from_properties(cluster.properties),
            published=_published(targets),
            hosts=tuple(
                Host.from_properties(path.rpartition("/")[2], node.properties, since=node.modified)
                for path, node in zip(hosts, rest, strict=True)
                if node is not None
            ),
            stops=self.stops(),
            request=None if request is None else request_from_properties(request.properties),
            absent=self._absent(known_ids(self._session) - names),
            targets=frozenset(map(unquote, self._session.children(paths.TARGETS) or ())),
        )

    def _absent(self, host_ids: frozenset[str]) -> tuple[KnownHost, ...]:
        """Read what absent hosts last told, once: it does not change until they are back."""
        new = read_inventories(self._session, host_ids - self._gone.keys())
        gone = {**self._gone, **{known.identity.id: known for known in new}}
        self._gone = {host_id: gone[host_id] for host_id in sorted(host_ids) if host_id in gone}
        return tuple(self._gone.values())

    def stops(self) -> tuple[Stop, ...]:
        """Read what stopped the fleet."""
        names = self._session.children(paths.STOPS) or ()
        nodes = self._session.get_many(f"{paths.STOPS}/{name}" for name in names)
        return tuple(Stop.from_properties(node.properties) for node in nodes if node is not None)

    def host(self, host_id: str) -> tuple[Cluster | None, Properties | None]:
        """Read the cluster version and one host's node; ``None`` for what is not there."""
        cluster, host = self._session.get_many([paths.HOSTS, f"{paths.HOSTS}/{host_id}"])
        return (
            None if cluster is None else Cluster.from_properties(cluster.properties),
            None if host is None else host.properties,
        )

    def watch(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` (which must not block) when the cluster version may have changed."""
        self._session.watch(paths.HOSTS, changed)

    def resume(self) -> Revision:
        """End a stop or a hold: set the published revision again, forget the stops, and return it.

        Hosts that failed try again then. Raises ``RefusedError`` when the cluster is neither stopped nor held, or
        when no revision is wholly published.
        """
        for _ in range(_ATTEMPTS):
            hosts, targets, revision = _resumable(*self._session.get_many([paths.HOSTS, paths.TARGETS]))
            stops = self._session.children(paths.STOPS) or ()
            try:
                self._session.commit(
                    Check(paths.TARGETS, targets.version),
                    Set(paths.HOSTS, encode(hosts.properties | {"version": revision}), hosts.version),
                    *(Delete(f"{paths.STOPS}/{name}") for name in stops),
                )
            except ConflictError:
                continue
            return revision
        raise ConflictError("the cluster version changes all the time; look at it with 'zkdeployment status'")

    def resume_latest(self, *, by: str, reason: str, now: float, timeout: float) -> Revision:
        """Ask the syncer to publish the branch's tip, and return the revision once it has.

        Raises ``WaitTimeoutError`` when no syncer did within ``timeout`` seconds (the request is taken back then)
        and ``ZkdeploymentError`` with the syncer's words when it could not.
        """
        request = PublicationRequest(id=uuid.uuid4().hex, by=by, reason=reason, time=now)
        changed = threading.Event()
        self._session.watch(paths.REQUEST, changed.set)
        write_request(self._session, request)
        deadline = time.monotonic() + timeout
        while True:
            changed.clear()
            standing = read_request(self._session)
            if standing is None or standing.id != request.id:
                return self._just_published(standing)
            if standing.error is not None:
                answer_request(self._session, standing, None)  # it was read: the node has done its work
                raise ZkdeploymentError(f"the syncer could not publish: {standing.error}")
            waited = changed.wait(max(0.0, deadline - time.monotonic()))
            if not waited and answer_request(self._session, standing, None):
                raise WaitTimeoutError(
                    f"no syncer published within {timeout:g} s, so the request was taken back;"
                    " is one running ('zkdeployment sync CONFIG --interval S')?"
                )

    def forget(self, host: str) -> KnownHost:
        """Forget a host (id or name) that is gone for good; ``RefusedError`` if it is registered, or unknown."""
        known = {one.identity.id: one for one in read_inventories(self._session)}
        named = [one.identity.id for one in known.values() if one.identity.name == host]
        host_id = host if host in known or len(named) != 1 else named[0]
        forget_host(self._session, host_id)
        return known[host_id]

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

        Raises ``ConflictError`` if one of the nodes was changed since it was read at ``versions``.
        """
        for operations in import_transactions(change, versions, self._session.get(paths.TARGETS)):
            self._session.commit(*operations)
        for role in sorted(roles):
            self._session.ensure(f"{paths.ROLE_LOCKS}/{role}")

    def _just_published(self, standing: PublicationRequest | None) -> Revision:
        if standing is not None:
            raise ConflictError(f"{standing.by or 'somebody'} asked for a publication at the same time; try again")
        published = _published(self._session.get(paths.TARGETS))
        if published is None:
            raise ConflictError(
                "a syncer published, but another publication is under way; see 'zkdeployment status'"
            )
        return published


def _published(targets: Node | None) -> Revision | None:
    version = None if targets is None else targets.properties.get("version")
    return version if is_revision(version) else None


def _resumable(hosts: Node | None, targets: Node | None) -> tuple[Node, Node, Revision]:
    """Return the nodes and the revision to be set again; raises ``RefusedError`` that says why there is none."""
    if hosts is None:
        raise RefusedError("there is no /hosts: nothing was ever published here, so there is nothing to resume")
    cluster = Cluster.from_properties(hosts.properties)
    if cluster.state not in {ClusterState.STOPPED, ClusterState.HELD}:
        raise RefusedError(
            f"the cluster is neither stopped nor held: it is {cluster.state.value} at {cluster.version}"
        )
    published = _published(targets)
    if targets is None or published is None or cluster.importing is not None:
        raise RefusedError(
            "no revision is wholly published (a publication was interrupted, or there was none);"
            " publish one with 'zkdeployment resume --latest' or 'zkdeployment sync --force'"
        )
    return hosts, targets, published
