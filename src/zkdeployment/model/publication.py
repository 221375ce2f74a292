"""Publications: the values that the syncer reads from the repository and ZooKeeper, and writes to ZooKeeper."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.deployment import Assignment
    from zkdeployment.model.history import ForcedBy, PublicationRecord
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.model.tree import Properties, Tree


#: The default age in seconds after which a request is no longer served.
AGE_LIMIT = 300.0


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


#: The kind and the subject of a document beside the tree.
DocumentKey: TypeAlias = "tuple[str, tuple[str, ...]]"

#: The content of documents, as they are written in YAML, by kind and subject.
DocumentContents: TypeAlias = "Mapping[DocumentKey, Mapping[str, Any]]"

#: The assignments of each target (host id, host name or role), sorted by path.
Targets: TypeAlias = "Mapping[str, tuple[Assignment, ...]]"


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


@dataclass(frozen=True)
class Published:
    """The state that the last publication left in ZooKeeper.

    ``revision`` is the revision whose tree and targets are completely published, if there is one. ``exact`` is the
    fingerprint of its text, if its live top-level nodes equal the text and no other node deploys anything.
    ``managed`` are the paths of the live top-level nodes that a ``.zk`` file of any published revision contained;
    ``begun`` are those that only an unfinished publication created. ``stamp`` is the data version of the node that
    holds these values: it changes with each publication and each manual import. ``sequence`` grows with each
    publication, also of the same revision; 0 means that nothing was published. ``since`` is the sequence of the
    last publication that changed nodes, targets or the strategy; 0 if it is not recorded. ``ordered`` is the
    revision that hosts were ordered to deploy, ``strategy`` the name of the strategy that governs its rollout, if
    there is one. A manual import clears ``revision``, but neither of these two. ``intents`` is the number of
    published intents, ``None`` if none was ever published.
    """

    revision: Revision | None = None
    exact: str | None = None
    managed: frozenset[str] = frozenset()
    begun: frozenset[str] = frozenset()
    stamp: int = 0
    sequence: int = 0
    strategy: str | None = None
    ordered: Revision | None = None
    since: int = 0
    intents: int | None = None

    @property
    def effective_since(self) -> int:
        """The sequence that a host has to reach to have everything that concerns hosts; also names the rollout."""
        return self.since or self.sequence

    def governs(self, cluster: Cluster | None) -> bool:
        """Whether the strategy governs the cluster version: never one that was set by hand."""
        return self.strategy is not None and cluster is not None and cluster.revision == self.ordered


@dataclass(frozen=True)
class DeploymentBasis:
    """The publication that a host deploys, as it was read before the host's plan was made.

    ``sequence`` is the sequence of the publication, 0 if the revision was set by hand. ``stamp`` is the stamp of
    the last publication, which may be another one.
    """

    revision: Revision
    sequence: int = 0
    stamp: int = 0


@dataclass(frozen=True, slots=True)
class OrderEntry:
    """The hosts, by id and sorted, for whose deployments of one service others wait.

    ``hosts`` are all that are expected to deploy the service. ``gaining`` are those of them that did not have it
    before: the hosts that lose the service keep it until these have it. ``absent`` are those that were not
    registered when the publication was made.
    """

    hosts: tuple[str, ...] = ()
    gaining: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    def with_host(self, host_id: str) -> OrderEntry:
        """Return the entry with another expected host."""
        return replace(self, hosts=tuple(sorted({*self.hosts, host_id})))


@dataclass(frozen=True)
class Publication:
    """The publication of one revision: the changes of the tree, all targets, and the roles that need a lock node.

    These values guard against concurrent changes, after which nothing is published: ``expected`` is the cluster
    version to replace (``None``: ``/hosts`` did not exist), ``stops`` the recorded stops (as in ``RequestState``;
    ``None``: any), ``published`` the previous publication, and ``versions`` the data versions of the nodes to
    update or delete. ``request`` is the id of the request that the publication serves: the request must still
    exist, and is removed in the same transaction.

    ``touched`` are the names of the targets that may differ from the published ones; ``None`` compares all
    targets. ``exact``, ``managed`` and ``sequence`` become part of the next ``Published``; ``sequence`` is raised
    if it does not exceed the previous one. ``record`` is the entry in the history. ``strategy`` governs the
    rollout; ``None`` means all hosts at once. ``documents`` are all documents of the revision,
    ``touched_documents`` the keys of those that may differ from the published ones (``None``: all). ``repeats``:
    the text, the targets and the strategy are those of the previous publication, so hosts have nothing to do.
    ``leftovers`` are the top-level nodes of unfinished publications that stay because of ephemeral nodes below
    them. ``withheld`` are the paths of services with the targets for which they are not deployed, because of the
    state of their intents. ``intents`` is the number of intents of the revision. ``order`` are the services, by
    path, that other deployments wait for.
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
    intents: int = 0
    sequence: int = 0
    record: PublicationRecord | None = None
    strategy: Strategy | None = None
    documents: DocumentContents = field(default_factory=dict)
    touched_documents: frozenset[DocumentKey] | None = None
    repeats: bool = False
    order: Mapping[str, OrderEntry] = field(default_factory=dict)


def next_sequence(last: int, now: float) -> int:
    """Return the sequence of a publication after ``last``, at ``now`` (seconds since the epoch).

    The sequence follows the time because a counter would start again after ZooKeeper and the syncer's memory were
    lost, and hosts would then take the next publication for an older one.
    """
    return max(last + 1, int(now))


def is_sequence(value: object) -> TypeGuard[int]:
    """Whether a property's value is a sequence: positive, and at most 53 bits, which all JSON readers keep."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53


@dataclass(frozen=True)
class SyncerReport:
    """The last report of a syncer that follows the repository; ``time`` is in seconds since the epoch.

    ``interval`` is the number of seconds until its next cycle. ``fetched`` is when it last read the repository.
    """

    by: str
    last_message: str
    interval: float
    time: float
    fetched: float | None = None


@dataclass(frozen=True)
class GuardOverrides:
    """The guards that an operator overrides for one publication.

    They are against a rewind, against a mass removal, and against packages that hosts could not install.
    """

    rewind: bool = False
    mass_removal: bool = False
    package_problems: bool = False


@dataclass(frozen=True)
class RequestState:
    """The state of the fleet that a request refers to: the cluster version and the recorded stops.

    ``stops`` is the data version of the parent node of the stops, which changes with each stop and each resume.
    """

    version: Revision | Literal[False] | None
    stops: int


@dataclass(frozen=True)
class PublicationRequest:
    """An operator's request to publish the branch's tip now, as with ``sync --force``.

    ``id`` distinguishes requests. ``error`` is the syncer's answer if the publication failed. The request is
    served only in ``state`` (``None``: written by an older version of the program), and for ``age_limit`` seconds
    after it was ``written`` by ZooKeeper's clock, in seconds since the epoch.
    """

    id: str
    by: str
    reason: str
    time: float
    overrides: GuardOverrides = GuardOverrides()
    error: str | None = None
    state: RequestState | None = None
    age_limit: float = AGE_LIMIT
    written: float = field(default=0.0, compare=False)

    def is_expired(self, now: float) -> bool:
        """Whether the request is too old to be served at ``now``."""
        return now - self.written > self.age_limit


@dataclass(frozen=True)
class SyncOptions:
    """The options of one run of the syncer.

    ``force`` publishes whatever the fleet is doing, ``prune`` deletes managed top-level nodes without a file,
    ``overrides`` are for guards that hold even with ``force``. ``whole`` reads the whole live tree, which forced
    and pruning runs always do. ``forced`` records who forces the publication and why. ``request`` is the
    operator's request that the run serves.
    """

    force: bool = False
    prune: bool = False
    overrides: GuardOverrides = GuardOverrides()
    whole: bool = False
    forced: ForcedBy | None = None
    request: PublicationRequest | None = None

    @property
    def reads_whole_tree(self) -> bool:
        """Whether the last published text is not enough."""
        return self.whole or self.force or self.prune
