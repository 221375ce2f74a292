"""Changes of the tree in ZooKeeper, and snapshots of it: the values that a publication is computed from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.tree import Properties, Tree


@dataclass(frozen=True)
class TreeChange:
    """The difference between two trees: nodes to create or set with all their properties, and to delete.

    The order of application is: create parents before children, update, then delete children before parents.
    """

    create: Mapping[str, Properties] = field(default_factory=dict)
    update: Mapping[str, Properties] = field(default_factory=dict)
    delete: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.create or self.update or self.delete)

    @property
    def paths(self) -> frozenset[str]:
        """The paths of all nodes that the change creates, updates or deletes."""
        return frozenset({*self.create, *self.update, *self.delete})


@dataclass(frozen=True)
class LiveTree:
    """A snapshot of the tree in ZooKeeper, without reserved top-level nodes and without ephemeral nodes.

    ``versions`` maps paths to data versions. ``pinned`` are the nodes with ephemeral nodes below them, which
    cannot be deleted.
    """

    tree: Tree
    versions: Mapping[str, int] = field(default_factory=dict)
    pinned: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LiveNode:
    """A snapshot of one node in ZooKeeper; ``children`` is the number of its children, ephemeral or not."""

    properties: Properties
    version: int
    children: int = 0
    ephemeral: bool = False
