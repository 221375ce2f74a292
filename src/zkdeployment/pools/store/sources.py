"""The sources of pools, kept current by watches, which wake the worker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zkdeployment.base.errors import TreeError
from zkdeployment.base.host import Host
from zkdeployment.base.names import NameKind, is_name
from zkdeployment.documents.collection import PublishedDocuments
from zkdeployment.pools import paths as pool_paths
from zkdeployment.pools.documents import POOLS, PoolConfiguration, RoleMechanism, pools_in_force
from zkdeployment.pools.rules.work import PoolSources
from zkdeployment.publishing.store.cluster import in_force, maintenance_of
from zkdeployment.publishing.store.documents import document_path
from zkdeployment.service.users.user_store import USERS, decode_user, user_path
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import unpack
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.shared_nodes import FollowedNodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zkdeployment.service.users.user import User
    from zkdeployment.zookeeper.session import Session

_KEY = (POOLS.name, ())
_DOCUMENT = document_path(_KEY)


class ZooKeeperPoolSources:
    """The sources through one session; ``wake`` (which must not block) is called when something has changed.

    Only one thread may read them.
    """

    def __init__(self, session: Session, wake: Callable[[], None]) -> None:
        self._session = session
        self._nodes = FollowedNodes(session, wake)
        self._configuration = PoolConfiguration()
        self._outdated = True

    def read(self) -> PoolSources:
        """Return the configuration, the tenants, the hosts and their maintenance; raises ``UnreachableError``.

        The sources are at least as new as the last read of this session. From now on the worker is also woken when
        nodes, sessions or claims change.
        """
        self._session.settle_watches()
        outdated, self._outdated = self._outdated, True  # the result, unless all of the following succeeds
        changed = self._nodes.refresh(self._wanted)
        while outdated or Read(_DOCUMENT) in changed:
            self._configuration = self._read_configuration()
            outdated = False
            changed = self._nodes.refresh(self._wanted)  # the document, and with it a pool of hosts, may be new
        self._outdated = False
        return PoolSources(self._configuration, self._tenants(), self._hosts(), self._in_maintenance())

    def _wanted(self) -> Iterator[Read]:
        """Yield all reads to follow; hosts only if a pool has hosts as nodes."""
        yield Read(_DOCUMENT)
        yield Read(pool_paths.CHANGES)
        yield Read(pool_paths.CLAIMS, children=True)
        yield Read(USERS, children=True)
        yield from (Read(user_path(name)) for name in self._users())
        if any(isinstance(pool.mechanism, RoleMechanism) for pool in self._configuration.pools.values()):
            for directory in (paths.HOSTS, paths.MAINTENANCE):
                yield Read(directory, children=True)
                yield from (Read(f"{directory}/{name}") for name in self._nodes.children(directory))

    def _read_configuration(self) -> PoolConfiguration:
        node = self._nodes.node(_DOCUMENT)
        if node is None:
            return PoolConfiguration()
        try:
            content = unpack(node.data)
        except ValueError as error:
            raise TreeError(f"{_DOCUMENT} is damaged; publish the document of pools again: {error}") from error
        return pools_in_force(PublishedDocuments({_KEY: content if isinstance(content, dict) else {}}))

    def _users(self) -> Iterator[str]:
        return (name for name in self._nodes.children(USERS) if is_name(NameKind.USER, name))

    def _tenants(self) -> dict[int, User]:
        records = (decode_user(name, self._nodes.node(user_path(name))) for name in self._users())
        return {record.user.id: record.user for record in records if record is not None}

    def _hosts(self) -> dict[str, Host]:
        nodes = ((name, self._nodes.node(f"{paths.HOSTS}/{name}")) for name in self._nodes.children(paths.HOSTS))
        return {name: Host.from_properties(name, node.properties) for name, node in nodes if node is not None}

    def _in_maintenance(self) -> frozenset[str]:
        names = self._nodes.children(paths.MAINTENANCE)
        nodes = ((name, self._nodes.node(f"{paths.MAINTENANCE}/{name}")) for name in names)
        records = (maintenance_of(name, node) for name, node in nodes if node is not None)
        return frozenset(in_force(records, time.time()))
