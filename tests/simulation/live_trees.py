"""The trees that were live in a simulated ZooKeeper, and what each host was to run by them."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING

from zkdeployment.base.errors import TreeError
from zkdeployment.publishing.targets.compiler import wanted_from_tree
from zkdeployment.tree.values import Tree
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simulation.server_tree import Change, ZNode
    from zkdeployment.base.deployment import DesiredState
    from zkdeployment.base.host import Identity

_RESERVED = ("/hosts", "/agent-locks", "/role-locks", "/zkdeployment", "/zookeeper")

#: How many trees are kept: no reader is slower.
_KEPT = 40


class LiveTrees:
    """The last whole trees; those in the middle of a large publication are not whole."""

    def __init__(self) -> None:
        self._trees: list[_LiveTree] = []
        self._stale = True

    def note(self, nodes: Mapping[str, ZNode], changes: Sequence[Change]) -> None:
        """Keep the tree after a transaction, if that changed it."""
        self._stale |= any(not change.path.startswith(_RESERVED) for change in changes)
        hosts = nodes.get(paths.HOSTS)
        if not self._stale or hosts is None or b'"importing"' in hosts.data:
            return
        self._stale = False
        found = {path: node.data for path, node in nodes.items() if path != "/" and not path.startswith(_RESERVED)}
        self._trees = [*self._trees[-_KEPT:], _LiveTree(found)]

    def had(self, identity: Identity, wanted: DesiredState) -> bool:
        """Whether one of the trees wanted exactly this of a host."""
        return any(_wanted(identity, live.tree) == wanted for live in reversed(self._trees))


class _LiveTree:
    """The nodes of a tree, which are read when a caller asks for the tree."""

    def __init__(self, nodes: Mapping[str, bytes]) -> None:
        self._nodes = nodes

    @cached_property
    def tree(self) -> Tree:
        """The tree."""
        return Tree({path: json.loads(data) if data else {} for path, data in self._nodes.items()})


def _wanted(identity: Identity, tree: Tree) -> DesiredState | None:
    try:
        return wanted_from_tree(identity, tree)
    except TreeError:
        return None
