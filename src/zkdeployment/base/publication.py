"""Publications as hosts read them: the last one, its origin, and its targets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias, TypeGuard

from zkdeployment.base.records import Key, Record, invalid
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.base.cluster import Cluster, Mandate, Revision
    from zkdeployment.base.deployment import Assignment


#: The assignments of each target (host id, host name or role), sorted by path. Names that begin with a slash are
#: no targets: ``/roles/ROLE`` has the controller of a role, ``/system/TARGET`` the system nodes of a target.
Targets: TypeAlias = "Mapping[str, tuple[Assignment, ...]]"


@dataclass(frozen=True)
class Published:
    """The state that the last publication left in ZooKeeper.

    ``revision`` is the revision whose tree and targets are completely published, if there is one. ``exact`` is the
    fingerprint of its text, if its live top-level nodes equal the text and no other node deploys anything.
    ``managed`` are the paths of the live top-level nodes that a ``.zk`` file of any published revision contained;
    ``begun`` are the paths of nodes that only an unfinished publication created. ``stamp`` is the data version of
    the node that holds these values: it changes with each publication and each manual import. ``sequence`` grows
    with each publication, also of the same revision; 0 means that nothing was published. ``since`` is the sequence
    of the last publication that changed nodes, targets or the strategy; 0 if it is not recorded. ``ordered`` is
    the revision that hosts were ordered to deploy, ``strategy`` the name of the strategy that governs its rollout,
    if there is one. A manual import clears ``revision``, but neither ``ordered`` nor ``strategy``. ``intents`` is
    the number of published intents, ``None`` if none was ever published. ``left`` is the digest of the services
    that left the governance of intents; ``None`` if it is not recorded.
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
    left: str | None = None

    @property
    def effective_since(self) -> int:
        """The sequence that a host has to reach to have all changes for hosts; it also names the rollout."""
        return self.since or self.sequence

    def governs(self, cluster: Cluster | None) -> bool:
        """Whether the strategy governs the cluster version; it never governs a version that was set by hand."""
        return self.strategy is not None and cluster is not None and cluster.revision == self.ordered

    def permits(self, mandate: Mandate) -> bool:
        """Whether a host may act on a mandate: a retry is only for the revision that is completely published."""
        return not mandate.is_retry or mandate.revision == self.revision

    def is_wanted(self, cluster: Cluster, revision: Revision, sequence: int) -> bool:
        """Whether the fleet still has to deploy ``revision`` of the publication ``sequence`` (0: set by hand).

        A publication counts until another one changes something for hosts. A version that was set by hand also
        counts while the fleet is stopped or held, because the cluster version before the stop is not known.
        """
        if sequence and sequence < self.effective_since:
            return False
        if cluster.version is None or cluster.version is False:
            return True
        return cluster.version == revision or (sequence > 0 and cluster.version == self.ordered)


@dataclass(frozen=True)
class DeploymentBasis:
    """The publication that a host deploys, from a read before the host's plan was made.

    ``sequence`` is the sequence of the publication, 0 if the revision was set by hand. ``stamp`` is the stamp of
    the last publication, which may be another one. ``since`` is the sequence of the last publication until this
    one that changed something for hosts, likewise 0.
    """

    revision: Revision
    sequence: int = 0
    stamp: int = 0
    since: int = 0

    @property
    def effective(self) -> str:
        """The name of what hosts deploy, which publications that change only documents have in common."""
        return str(self.since or self.revision)


@dataclass(frozen=True, slots=True)
class OrderEntry:
    """The hosts, by id and sorted, whose deployments of one service other hosts wait for.

    ``hosts`` are all hosts that are expected to deploy the service. ``gaining`` are the hosts among them that did
    not have the service before: hosts that lose the service keep it until the gaining hosts have it. ``absent``
    are the hosts among them that were not registered when the publication was made.
    """

    hosts: tuple[str, ...] = ()
    gaining: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    def with_host(self, host_id: str) -> OrderEntry:
        """Return the entry with another expected host."""
        return replace(self, hosts=tuple(sorted({*self.hosts, host_id})))


def next_sequence(last: int, now: float) -> int:
    """Return the sequence of a publication after ``last``, at ``now`` (seconds since the epoch).

    The sequence follows the time, because a counter would restart after a loss of ZooKeeper and of the syncer's
    memory, and hosts would take the next publication for an older one.
    """
    return max(last + 1, int(now))


def is_sequence(value: object) -> TypeGuard[int]:
    """Whether a property's value is a sequence: positive, and at most 53 bits, which all JSON readers keep."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53


@dataclass(frozen=True, slots=True)
class Origin(Record):
    """The author, the subject and the time of a commit, in seconds since the epoch by the committer's clock.

    ``subject`` is the first line of the commit message. ``signer`` is the name and the fingerprint of the key
    whose signature was verified; ``None`` without such a signature, or if none is required.
    """

    is_lenient: ClassVar[bool] = True
    author: str
    subject: str
    time: Annotated[float, Key("committed")]
    signer: str | None = None


def _subject_names(subject: object) -> tuple[str, ...]:
    if not isinstance(subject, str):
        raise invalid("the subject of an intent", subject)
    return tuple(subject.split("/"))


@dataclass(frozen=True, slots=True)
class LeftService(Record):
    """A service that left the governance of the intent ``former`` with the publication of ``revision``.

    A service leaves governance when the document of its intent is removed, or no longer names the path of the
    service, while the service stays in the tree. A left service stays as published until a release or another
    intent covers it, or until the service leaves the tree.

    ``target`` is the only target for which the service left governance; ``None`` stands for all targets.
    ``content`` is the digest of the deployed content; ``None``: the service is not deployed.
    """

    path: str
    target: str | None
    former: Annotated[tuple[str, ...], Key(read=_subject_names, write="/".join, form=str)]
    revision: str
    content: str | None = None

    @property
    def key(self) -> tuple[str, str | None]:
        """The path of the service node and the target."""
        return self.path, self.target

    @property
    def is_withheld(self) -> bool:
        """Whether the service is not deployed until it is released."""
        return self.content is None

    def covers(self, path: str, target: str) -> bool:
        """Whether a path and a target belong to this left service."""
        return path == self.path and self.target in {None, target}

    def __str__(self) -> str:
        return self.path if self.target is None else f"{self.path} for {self.target}"

    @property
    def sentence(self) -> str:
        """A sentence with the former intent of the service, and how to end the state."""
        return (
            f"it left the governance of {'/'.join(self.former)} with {self.revision}, and stays"
            f" {'withheld' if self.is_withheld else 'as deployed'} until 'zkdeployment intent release {self.path}'"
        )
