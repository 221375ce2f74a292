"""Where revisions come from, and where they are published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.host import Host
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.origin import Origin
    from zkdeployment.model.publication import LiveNode, LiveTree, Publication, PublicationRequest
    from zkdeployment.model.source_files import SourceFile
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.planning.publishing import PublishedState
    from zkdeployment.ports.locks import NodeLock
    from zkdeployment.rollout.state import RolloutState


class PublicationStore(Protocol):
    """What the syncer does to ZooKeeper. Raises ``UnreachableError``."""

    def published_state(self) -> PublishedState:
        """Read the cluster version (none where ``/hosts`` does not exist), and what the last publication left."""

    def hosts(self) -> Sequence[Host]:
        """Read every host's node."""

    def absent(self, hosts: Collection[Host]) -> Sequence[KnownHost]:
        """Read what is known of the hosts that are not among these, the registered ones."""

    def strategy(self) -> Strategy | None:
        """Read the published strategy, if there is one; raises ``TreeError`` for what makes no sense."""

    def rollout(self, sequence: int) -> RolloutState | None:
        """Read the newest rollout of the publication with this sequence, if it was begun and makes sense."""

    def is_held_by_operator(self) -> bool:
        """Whether an operator's hold is on record."""

    def live_tree(self) -> LiveTree:
        """Read the whole live tree, pipelined: without the reserved nodes and without ephemeral ones."""

    def live_nodes(self, paths: Collection[str]) -> Mapping[str, LiveNode]:
        """Read these nodes, pipelined; those that do not exist are left out."""

    def lock(self) -> NodeLock:
        """Return a fresh ``/hosts-lock``."""

    def publish(self, publication: Publication) -> None:
        """Write a publication: in one transaction if it fits, else in chunks under an ``importing`` mark.

        Raises ``ConflictError`` if somebody else wrote to what is to change; nothing was written then, or the
        mark stands and the next publication finishes the work.
        """

    def watch_requests(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` (which must not block) when an operator asks for a publication, or there is news."""

    def request(self) -> PublicationRequest | None:
        """Read the operator's request for a publication, if there is one."""

    def answer(self, request: PublicationRequest, error: str) -> None:
        """Say why a request was not carried out; ``publish`` removes one that was."""

    def server_time(self) -> float:
        """Return ZooKeeper's time, in seconds since the epoch."""

    def report(self, said: str, interval: float, fetched: float | None) -> None:
        """Give a sign of life: what was done last, and in how many seconds the next look is due."""


class TreeSource(Protocol):
    """The tree's repository. Raises ``SourceError``."""

    def fetch(self) -> Revision:
        """Bring the mirror up to date and return the branch's tip."""

    def files(self, revision: Revision) -> Sequence[SourceFile]:
        """Read the files at the top of a revision, sorted by name: tree files and documents of rollouts.

        The latter are the YAML files that mention the schema of one; what else is in others does not matter.

        Where signatures are asked for, only those of a revision that is signed as it has to be.
        """

    def origin(self, revision: Revision) -> Origin:
        """Say who committed a revision, what for and when, and who signed it if that was verified."""

    def descends(self, revision: Revision, ancestor: Revision) -> bool:
        """Whether ``revision`` is ``ancestor`` or comes after it; what is not known is nobody's ancestor."""
