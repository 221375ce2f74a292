"""The publication of one revision, as the syncer writes it to ZooKeeper."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.publication import OrderEntry, Published, Targets
    from zkdeployment.model.publishing.history import PublicationRecord
    from zkdeployment.model.publishing.left_service import LeftService
    from zkdeployment.model.publishing.tree_change import TreeChange
    from zkdeployment.model.strategy import Strategy

#: The kind and the subject of a document beside the tree.
DocumentKey: TypeAlias = "tuple[str, tuple[str, ...]]"

#: The content of documents in their YAML form, by kind and subject.
DocumentContents: TypeAlias = "Mapping[DocumentKey, Mapping[str, Any]]"


@dataclass(frozen=True)
class Publication:
    """The publication of one revision: the changes of the tree, all targets, and the roles that need a lock node.

    These values guard against concurrent changes, after which nothing is published: ``expected`` is the cluster
    version to replace (``None``: ``/hosts`` did not exist), ``stops`` the recorded stops (as in ``RequestState``;
    ``None``: any), ``published`` the previous publication, and ``versions`` the data versions of the nodes to
    update or delete. ``request`` is the id of the request that the publication serves: the request must still
    exist, and is removed in the same transaction.

    ``touched`` has the names of all targets that differ from their published versions, and perhaps others;
    ``None`` stands for all targets. ``documents`` has all documents of the revision, and ``touched_documents``
    the keys of all documents that differ from their published versions, and perhaps others (``None``: all keys).

    ``exact``, ``managed`` and ``sequence`` become part of the next ``Published``; ``sequence`` is raised if it
    does not exceed the previous sequence. ``record`` is the entry in the history. ``strategy`` governs the
    rollout; ``None`` means all hosts at once. ``repeats``: the text, the targets and the strategy are the same as
    in the previous publication, so hosts have nothing to do. ``leftovers`` are the top-level nodes of unfinished
    publications that stay because of ephemeral nodes below them. ``withheld`` has the path of each service that
    is not deployed because of the state of its intent, with the target. ``left`` are the services that left the
    governance of their intents. ``intents`` is the number of intents of the revision. ``order`` has the services
    that other deployments wait for, by path.
    """

    revision: Revision
    change: TreeChange
    targets: Targets
    roles: frozenset[str] = frozenset()
    expected: Cluster | None = None
    stops: int | None = None
    request: str | None = None
    published: Published | None = None
    versions: Mapping[str, int] = field(default_factory=dict)
    touched: frozenset[str] | None = None
    exact: str | None = None
    managed: frozenset[str] = frozenset()
    leftovers: frozenset[str] = frozenset()
    withheld: frozenset[tuple[str, str]] = frozenset()
    left: tuple[LeftService, ...] = ()
    intents: int = 0
    sequence: int = 0
    record: PublicationRecord | None = None
    strategy: Strategy | None = None
    documents: DocumentContents = field(default_factory=dict)
    touched_documents: frozenset[DocumentKey] | None = None
    repeats: bool = False
    order: Mapping[str, OrderEntry] = field(default_factory=dict)
