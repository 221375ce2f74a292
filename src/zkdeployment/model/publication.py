"""Publications: what the syncer reads from git and writes to ZooKeeper."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.deployment import Assignment
    from zkdeployment.model.history import PublicationRecord
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.model.tree import Properties, Tree


#: For how many seconds a request is served that does not say so itself.
AGE_LIMIT = 300.0


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

    @property
    def paths(self) -> frozenset[str]:
        """The nodes that it touches."""
        return frozenset({*self.create, *self.update, *self.delete})


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
class LiveNode:
    """One node as it stands in ZooKeeper; ``children`` is how many it has, ephemeral ones included."""

    properties: Properties
    version: int
    children: int = 0
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Published:
    """What the last publication left behind.

    ``revision`` is whose tree and targets are wholly published, if any are. ``exact`` is the fingerprint of its
    text, if its top-level nodes were left exactly as the text says and nothing else deploys anything. ``managed``
    are the paths of the live top-level nodes that a ``.zk`` file of any published revision had, ``begun`` those
    that only a publication made that did not come to its end. ``stamp`` is the
    data version of the node that says all that: it changes when anybody publishes, or imports by hand.
    ``sequence`` grows with every publication, of the same revision too; 0 where there was none. ``ordered`` is
    the revision that hosts were sent to then, ``strategy`` the name of the strategy by which they are to take it
    up, if there is one: whoever imports by hand takes ``revision`` away, but neither of these.
    """

    revision: Revision | None = None
    exact: str | None = None
    managed: frozenset[str] = frozenset()
    begun: frozenset[str] = frozenset()
    stamp: int = 0
    sequence: int = 0
    strategy: str | None = None
    ordered: Revision | None = None

    def governs(self, cluster: Cluster | None) -> bool:
        """Whether hosts take up the cluster version by the strategy; not one that was set by hand."""
        return self.strategy is not None and cluster is not None and cluster.revision == self.ordered


@dataclass(frozen=True, slots=True)
class Publication:
    """One revision to be published whole: the tree's changes, all targets, the roles that need a lock node.

    ``expected`` is the cluster version it replaces (``None``: there was no ``/hosts``), ``stops`` which stops were
    on record then (as in ``RequestState``; ``None``: any), ``request`` the id of the request that it carries out,
    which is removed in the same moment and has to stand until then, ``published`` what was published before, and
    ``versions`` are the data versions of the nodes to be updated or deleted: if somebody changed any of it
    meanwhile, nothing is published. ``touched`` are the names of the targets that may differ from the published
    ones; ``None``: all are compared. ``exact`` and ``managed`` are for the next ``Published``, and so is
    ``sequence``, which is raised if it is not above that of the one before. ``record`` is what the history keeps
    of it. ``strategy`` is how hosts are to take it up, if not all at once. ``left`` are the top-level nodes of
    unfinished publications that stay because of ephemeral nodes below them.
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
    sequence: int = 0
    record: PublicationRecord | None = None
    strategy: Strategy | None = None


def next_sequence(last: int, now: float) -> int:
    """Return the sequence of a publication after ``last``, at ``now`` (seconds since the epoch).

    Counting alone would begin anew where ZooKeeper and the syncer's memory were lost, and hosts would take what is
    published then for something older than what they have. The time grows whatever was lost.
    """
    return max(last + 1, int(now))


def is_sequence(value: object) -> TypeGuard[int]:
    """Whether a property's value is a sequence; every reader of JSON keeps 53 bits of a number."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53


@dataclass(frozen=True, slots=True)
class SyncerReport:
    """A following syncer's sign of life: who, what it said last, and when (seconds since the epoch).

    It looks again after ``interval`` seconds. ``fetched`` is when it could read the repository last.
    """

    by: str
    last_message: str
    interval: float
    time: float
    fetched: float | None = None


@dataclass(frozen=True, slots=True)
class GuardOverrides:
    """What an operator allows this once: to go back in history, to end many services at one stroke."""

    rewind: bool = False
    mass_removal: bool = False


@dataclass(frozen=True, slots=True)
class RequestState:
    """The state of the fleet that a request answers to: the cluster version, and which stops were on record.

    ``stops`` is the data version of the node above the stops, which changes with stops and with each resume.
    """

    version: Revision | Literal[False] | None
    stops: int


@dataclass(frozen=True, slots=True)
class PublicationRequest:
    """An operator's wish that the branch's tip be published now, as with ``sync --force``.

    ``id`` tells one request from the next; ``error`` is the syncer's answer when it could not. The request is for
    ``state`` only (``None``: a program of an older version wrote it), and for ``age_limit`` seconds from when it
    was ``written`` by ZooKeeper's clock, in seconds since the epoch.
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
        """Whether the request is too old to be served."""
        return now - self.written > self.age_limit
