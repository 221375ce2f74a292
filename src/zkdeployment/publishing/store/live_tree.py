"""The live tree: snapshots of it, read in pipelined requests, and its import by hand.

Publications belong to ``store``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.publishing.store.assignments import top_paths, walk, withheld_operations
from zkdeployment.tree.values import LiveNode, LiveTree, Tree, TreeChange, parent_path
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, check_path
from zkdeployment.zookeeper.session import Session, lookup
from zkdeployment.zookeeper.transactions import commit_all_but_last

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from zkdeployment.base.json_values import Lookup, Properties
    from zkdeployment.publishing.targets.compiler import ServiceTarget
    from zkdeployment.zookeeper.transactions import Operation


def providers_path(service: str) -> str:
    """Return the path of the node below which the instances of a service register."""
    return f"{service}/providers"


def registered_instances(
    services: Iterable[str],
    children: Callable[[str], Sequence[str]],
    directory_node: Callable[[str], Node | None],
    properties: Callable[[str], Properties | None],
) -> dict[str, dict[str, Properties]]:
    """Return the children of ``SERVICE/providers`` of services: path of the service, name, properties.

    Services without such a node are omitted, and those whose node never had a child: their instances do not
    register. The functions return what was read at a path; ``directory_node`` is used for empty directories only.
    """
    found: dict[str, dict[str, Properties]] = {}
    for service in services:
        directory = providers_path(service)
        names = children(directory)
        empty = None if names else directory_node(directory)
        if names or (empty is not None and empty.child_changes):
            read = ((name, properties(f"{directory}/{name}")) for name in names)
            found[service] = {name: each for name, each in read if each is not None}
    return found


class ZooKeeperLiveTree:
    """The live tree, through one session: the present nodes in ZooKeeper, published or not."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def live_tree(self) -> LiveTree:
        """Return the whole tree without reserved top-level nodes and ephemeral nodes."""
        nodes = walk(self._session, top_paths(self._session))
        kept = {path: node for path, node in nodes.items() if not node.owner}
        pinned: set[str] = set()
        for path in nodes.keys() - kept.keys():
            above = parent_path(path)
            while above and above not in pinned:
                pinned.add(above)
                above = parent_path(above)
        return LiveTree(
            tree=Tree({path: node.properties for path, node in kept.items()}),
            versions={path: node.version for path, node in kept.items()},
            pinned=frozenset(pinned),
        )

    def nodes(self, paths: Collection[str]) -> dict[str, LiveNode]:
        """Return these nodes, without nodes that do not exist."""
        return {
            path: LiveNode(node.properties, node.version, node.children, ephemeral=node.owner != 0)
            for path, node in zip(paths, self._session.get_many(paths), strict=True)
            if node is not None
        }

    def subtree(self, path: str) -> dict[str, Properties] | None:
        """Return a node and all nodes below it, ephemeral ones included; ``None`` if there is no such node.

        The empty path is the whole tree without the reserved nodes; a path may lead to a reserved node.
        """
        session = self._session
        nodes = walk(session, [check_path(path)] if path else top_paths(session))
        if path and path not in nodes:
            return None
        return {found_path: node.properties for found_path, node in nodes.items()}

    def providers(self, services: Collection[str]) -> dict[str, dict[str, Properties]]:
        """Return the ``registered_instances`` of services, read in two pipelined rounds."""
        directories = [providers_path(path) for path in services]
        found, lists = self._session.look(directories, directories)
        children = {path: names or () for path, names in zip(directories, lists, strict=True)}
        wanted = [f"{directory}/{name}" for directory, names in children.items() for name in names]
        nodes = dict(zip(directories, found, strict=True))
        read = zip(wanted, self._session.get_many(wanted), strict=True)
        instances = {path: node.properties for path, node in read if node is not None}
        return registered_instances(services, children.__getitem__, nodes.get, instances.get)

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
        read = [paths.HOSTS, paths.TARGETS, paths.MANAGED]
        nodes = dict(zip(read, self._session.get_many(read), strict=True))
        withholding: tuple[Operation, ...] = ()
        if withheld is not None:
            withholding = tuple(withheld_operations(withheld, self._session.get(paths.WITHHELD)))
        acl = self._session.acl_size
        from zkdeployment.publishing.store.builder import import_transactions  # noqa: PLC0415  most verbs need less

        begin = self._session.begin
        if made := import_transactions(change, versions, nodes, acl, withholding):
            last = commit_all_but_last(lambda operations: begin(*operations), iter(made))
            self._session.commit(*last)
        for role in sorted(roles):
            self._session.ensure(f"{paths.ROLE_LOCKS}/{role}")
