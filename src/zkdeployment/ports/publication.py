"""Ports of the syncer: the tree's repository, and ZooKeeper as the place of publication."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from zkdeployment.documents.published import PublishedDocuments
    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.intents.publication import IntentsChange
    from zkdeployment.intents.reality import FleetReports
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.origin import Origin
    from zkdeployment.model.publishing.history import Refusal
    from zkdeployment.model.publishing.left_service import LeftService
    from zkdeployment.model.publishing.publication import Publication
    from zkdeployment.model.publishing.request import PublicationRequest
    from zkdeployment.model.publishing.tree_change import LiveNode, LiveTree
    from zkdeployment.model.source_files import SourceFile
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.planning.published_state import FleetHosts, PublishedState
    from zkdeployment.planning.targets.governance import Governance
    from zkdeployment.ports.locks import NodeLock
    from zkdeployment.rollout.state import RolloutState
    from zkdeployment.signing.standing import StandingPublication
    from zkdeployment.signing.statement import SignedStatement


class PublicationStore(Protocol):
    """ZooKeeper as the syncer reads it and publishes to it. Raises ``UnreachableError``."""

    def published_state(self) -> PublishedState:
        """Read the cluster version (``None`` if ``/hosts`` does not exist) and the last publication."""

    def hosts(self, sequence: int) -> FleetHosts:
        """Read all known hosts, and which of them still miss a service that they gain in a publication."""

    def inventories(self, host_ids: Collection[str]) -> Sequence[KnownHost]:
        """Read the inventories of those of the hosts that reported one."""

    def reports(self, services: Collection[str]) -> FleetReports:
        """Read what all known hosts and the providers of these services report, without any clusters."""

    def strategy(self) -> Strategy | None:
        """Read the published strategy, ``None`` if there is none; raises ``TreeError`` if it is invalid."""

    def documents(self) -> PublishedDocuments:
        """Read the published documents."""

    def rollout(self, sequence: int) -> RolloutState | None:
        """Read the latest rollout of the publication with this sequence; ``None`` if there is no valid one."""

    def is_held_by_operator(self) -> bool:
        """Whether an operator's hold is on record."""

    def live_tree(self) -> LiveTree:
        """Read the whole live tree, without reserved and ephemeral nodes."""

    def live_nodes(self, paths: Collection[str]) -> Mapping[str, LiveNode]:
        """Read these nodes; nodes that do not exist are left out."""

    def lock(self) -> NodeLock:
        """Return a new ``/hosts-lock``.

        Once it is held, ``publish`` writes only while it is still held, and its last transaction releases it.
        """

    def intents(self) -> tuple[IntentRecord, ...]:
        """Read the records of all intents, as ``ZooKeeperIntents.records`` does."""

    def governance(self) -> Governance:
        """Read the intents of the last complete publication, and the services that left governance before.

        Raises ``TreeError`` if a record is damaged.
        """

    def left(self) -> tuple[LeftService, ...]:
        """Read the services that left the governance of their intents; raises ``TreeError`` if it is damaged."""

    def awaiting_final_status(self) -> tuple[IntentRecord, ...]:
        """Read the records whose last instance is terminated and has no final status yet."""

    def record_final_status(self, record: IntentRecord) -> None:
        """Write a record whose last instance has its final status now.

        Raises ``ConflictError`` if the record changed since it was read: then it stays as it is.
        """

    def publish(self, publication: Publication, intents: IntentsChange | None = None) -> int:
        """Write a publication: in one transaction if it fits, otherwise in several under an ``importing`` mark.

        ``intents`` is the change of intents, ``None`` if there neither were nor are any. Returns the sequence of
        the last publication that changed something for hosts: this one, unless it only repeats.
        Raises ``ConflictError`` if another writer changed a node that is to change, or if the lock was lost: then
        either nothing was written, or the mark stays and the next publication completes the work. Raises
        ``TreeError``, before anything is written, if a node is too large for ZooKeeper.
        """

    def start_signing(self, coming: StandingPublication) -> None:
        """Begin to sign a publication that will probably be written, while it is prepared.

        Without a key, this does nothing.
        """

    def has_signed(self, data: bytes | None, buckets: int) -> bool:
        """Whether these are the data of the signed statement as this process wrote it last, with all buckets.

        ``buckets`` is the number of the nodes of buckets.
        """

    def has_buckets(self, digests: Mapping[str, str]) -> bool:
        """Read the signed buckets; return whether all have these digests, by name."""

    def renew_signature(self, standing: StandingPublication, *, kept: bytes | None = None) -> bool:
        """Sign the publication that stands in ZooKeeper again, and write the statement and buckets that differ.

        ``standing`` is that publication as it has to be. ``kept`` are the data of a statement that was verified:
        they stay if they are of this publication. Returns ``False``, and writes nothing, if the targets in
        ZooKeeper are others. Raises ``ConflictError`` if another publication was written at the same time, or the
        lock was lost.
        """

    def watch_requests(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` (which must not block) when an operator requests a publication or announces a push."""

    def request(self) -> PublicationRequest | None:
        """Read the operator's request for a publication that is not answered yet; ``None`` if there is none."""

    def answer(self, request: PublicationRequest, error: str) -> None:
        """Record why a request was not carried out. A request that was carried out is removed by ``publish``."""

    def server_time(self) -> float:
        """Return ZooKeeper's time, in seconds since the epoch."""

    def record_refusal(self, refusal: Refusal | None) -> None:
        """Record that the tip is refused, and why; ``None``: that the present tip is not refused."""

    def report(self, message: str, interval: float, fetched: float | None) -> None:
        """Publish this syncer's heartbeat.

        ``message`` is the outcome of the last cycle, ``interval`` the seconds until the next one, and ``fetched``
        when the repository was last read (seconds since the epoch; ``None``: not yet by this process).
        """


class PublicationSigner(Protocol):
    """The key with which publications are signed."""

    def expect(self) -> None:
        """Prepare for a text that is to be signed soon, so that its signature takes less time."""

    def abandon(self) -> None:
        """End the preparation, if no text is to be signed after all."""

    def start(self, text: str) -> Callable[[], str]:
        """Begin to sign a text; return a function that waits for the signature and returns it.

        That function raises ``ConfigurationError`` if the key cannot be used any more.
        """

    def made(self, statement: SignedStatement) -> bool:
        """Whether the signature of a statement is valid and made with this key."""


class TreeSource(Protocol):
    """The tree's repository. Raises ``SourceError``."""

    def fetch(self) -> Revision:
        """Update the mirror and return the tip of the branch."""

    def files(self, revision: Revision) -> Sequence[SourceFile]:
        """Read the tree files and rollout documents in the top directory of a revision, sorted by name.

        Rollout documents are the YAML files that mention a schema of rollouts; other YAML files are not read
        further. If signatures are required, a revision without a valid signature raises ``SourceError``.
        """

    def origin(self, revision: Revision) -> Origin:
        """Return author, subject and time of a revision, and its signer if the signature was verified."""

    def descends(self, revision: Revision, ancestor: Revision) -> bool:
        """Whether ``revision`` is ``ancestor`` or one of its descendants; ``False`` if ``ancestor`` is unknown."""
