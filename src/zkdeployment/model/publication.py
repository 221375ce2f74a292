"""Publications: what the syncer reads from git and writes to ZooKeeper."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.deployment import Assignment
    from zkdeployment.model.tree import Properties, Tree


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A tree file as it stands in the repository: ``*.zk`` (trims) or ``*.zkx`` (layers on top)."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class TreeChange:
    """The difference between two trees: nodes to create or set with all their properties, and to delete.

    Applying it creates parents before children, then sets, then deletes children before parents.
    """

    create: Mapping[str, Properties] = field(default_factory=dict)
    update: Mapping[str, Properties] = field(default_factory=dict)
    delete: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.create or self.update or self.delete)


#: What each target name (host id, host name or role) is to run, sorted by path.
Targets: TypeAlias = "Mapping[str, tuple[Assignment, ...]]"


@dataclass(frozen=True, slots=True)
class LiveTree:
    """The tree as it stands in ZooKeeper, without reserved top-level nodes and without ephemeral nodes.

    ``versions`` are the nodes' data versions. ``pinned`` are the nodes that have ephemeral nodes below them:
    they cannot be deleted.
    """

    tree: Tree
    versions: Mapping[str, int] = field(default_factory=dict)
    pinned: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Publication:
    """One revision to be published whole: the tree's changes, all targets, the roles that need a lock node.

    ``expected`` is the cluster version it replaces (``None``: there was no ``/hosts``) and ``versions`` are the
    data versions of the nodes to be updated or deleted: if somebody changed one of them meanwhile, nothing is
    published.
    """

    revision: Revision
    change: TreeChange
    targets: Targets
    roles: frozenset[str] = frozenset()
    expected: Cluster | None = None
    versions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PublicationRequest:
    """An operator's wish that the branch's tip be published now, as with ``sync --force``.

    ``id`` tells one request from the next; ``error`` is the syncer's answer when it could not.
    """

    id: str
    by: str
    reason: str
    time: float
    error: str | None = None
