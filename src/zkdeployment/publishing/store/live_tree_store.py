"""The live tree, which operators read and import by hand. Publications belong to ``store``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.publishing.store.builder import import_transactions
from zkdeployment.publishing.store.live_tree import read_live_tree, read_providers, read_subtree
from zkdeployment.publishing.store.withheld import withheld_operations
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import lookup

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zkdeployment.publishing.targets.compiler import ServiceTarget
    from zkdeployment.tree.links import Lookup
    from zkdeployment.tree.values import LiveTree, Properties, TreeChange
    from zkdeployment.zookeeper.session import Session
    from zkdeployment.zookeeper.transactions import Operation


class ZooKeeperLiveTree:
    """The live tree, through one session: the present nodes in ZooKeeper, whatever was published."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def live_tree(self) -> LiveTree:
        """Return the whole tree without ephemeral nodes."""
        return read_live_tree(self._session)

    def subtree(self, path: str) -> dict[str, Properties] | None:
        """Return a node and all nodes below it, ephemeral ones included; ``None`` if there is no such node.

        The empty path is the whole tree without the reserved nodes.
        """
        return read_subtree(self._session, path)

    def providers(self, services: Collection[str]) -> Mapping[str, Mapping[str, Properties]]:
        """Return the registered instances of services: for each path of a service, name to properties.

        Services without a node for instances are omitted.
        """
        return read_providers(self._session, services)

    def lookup(self) -> Lookup:
        """Return the function with which ``tree.links`` follows links."""
        return lookup(self._session)

    def is_signed(self) -> bool:
        """Whether the last publication is signed."""
        node = self._session.get(paths.SIGNED)
        return node is not None and node.data != b""

    def import_tree(
        self,
        change: TreeChange,
        *,
        roles: Collection[str],
        versions: Mapping[str, int],
        withheld: Collection[ServiceTarget] | None = None,
    ) -> None:
        """Apply ``change`` to the tree without publishing a version, and create the lock nodes of ``roles``.

        ``withheld`` are the services that are withheld after the change because of the state of their intents
        (``None``: the same as before). The compiled targets become invalid; with an empty change they stay valid.
        Raises ``ConflictError`` if a node changed since it was read at ``versions`` (path → version).
        """
        nodes = self._session.get_many([paths.HOSTS, paths.TARGETS, paths.MANAGED])
        withholding: tuple[Operation, ...] = ()
        if withheld is not None:
            withholding = tuple(withheld_operations(withheld, self._session.get(paths.WITHHELD)))
        acl = self._session.acl_size
        for operations in import_transactions(change, versions, nodes, acl, withholding):
            self._session.commit(*operations)
        for role in sorted(roles):
            self._session.ensure(f"{paths.ROLE_LOCKS}/{role}")
