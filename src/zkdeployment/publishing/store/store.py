"""ZooKeeper as the syncer reads it and publishes to it."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import TYPE_CHECKING, TypeVar

from zkdeployment.base.errors import ConflictError, DeniedError, ZkdeploymentError
from zkdeployment.base.inventory import absent_hosts
from zkdeployment.base.log import get_logger
from zkdeployment.publishing.records import CommitSummary, Publication, PublicationRequest, SyncerReport
from zkdeployment.publishing.rules.convergence import FleetHosts, PublishedState
from zkdeployment.publishing.store.assignments import encode_targets, read_services
from zkdeployment.publishing.store.builder import chunks, final_publication, read_before, transactions_for
from zkdeployment.publishing.store.cluster import cluster_of, decode_published, read_maintenance, remove_outputs
from zkdeployment.publishing.store.documents import NO_CHANGE, After, Before, SectionOperations, SectionWriter
from zkdeployment.publishing.store.history import LIMIT, recent_publications, tidy
from zkdeployment.publishing.store.hosts import read_hosts, read_inventories
from zkdeployment.publishing.store.live_tree import ZooKeeperLiveTree
from zkdeployment.publishing.store.reboots import read_reboots
from zkdeployment.publishing.store.requests import (
    read_request,
    refused_revision,
    write_report,
)
from zkdeployment.publishing.store.sections import (
    ClusterWriter,
    DocumentWriter,
    LastPublicationWriter,
    ManagedWriter,
    OrderWriter,
    RecordWriter,
    RequestWriter,
    RoleLockWriter,
    StrategyWriter,
    TargetWriter,
    TreeWriter,
)
from zkdeployment.publishing.store.service_order import read_unfinished, remove_orders_before
from zkdeployment.publishing.store.signing import FollowedBuckets, PublicationSigning, SignatureWriter
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import ContenderLock
from zkdeployment.zookeeper.transactions import Check, Delete, Operation, commit_all_but_last, commit_each

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from zkdeployment.publishing.ports import PublicationSigner
    from zkdeployment.publishing.signing.standing import StandingPublication
    from zkdeployment.zookeeper.session import Session


def remove_unused_locks(session: Session, names: Collection[str], deployed: Collection[str]) -> None:
    """Remove those of the locks ``names`` that have no contenders and whose services are not in the tree.

    ``deployed`` are services that are known to be in the tree; for others the tree is read. An agent that needs a
    lock at the same time creates its node again.
    """
    services = {f"/{name.replace(',', '/')}": name for name in names}
    unknown = services.keys() - deployed
    for service in sorted(unknown - read_services(session, unknown)):
        lock = f"{paths.AGENT_LOCKS}/{services[service]}"
        try:
            with contextlib.suppress(ConflictError):  # the lock has contenders, or was removed
                session.commit(Delete(lock))
        except DeniedError as error:
            get_logger().warning("unused-locks-not-removed", reason=str(error))
            return


T = TypeVar("T")


class ZooKeeperPublications:
    """Publishing through one session: ZooKeeper as the syncer reads it and publishes to it.

    All methods raise ``UnreachableError``.

    ``identity`` names this syncer as the holder of the lock (default: host name and process id). ``history`` is
    the number of publications that the history keeps. ``reach`` is called with the name of a failpoint before and
    after each transaction of a publication. With a ``signer``, publications are signed.
    """

    def __init__(
        self,
        session: Session,
        *,
        identity: str | None = None,
        history: int = LIMIT,
        reach: Callable[[str], None] = lambda _place: None,
        signer: PublicationSigner | None = None,
    ) -> None:
        self.session = session
        self.tree = ZooKeeperLiveTree(session)
        self._history = history
        self._reach = reach
        self._signing = None if signer is None else PublicationSigning(signer)
        self._signature = self._signing or SignatureWriter()
        self._buckets = FollowedBuckets(session)
        self._lock: ContenderLock | None = None
        self._identity = identity or f"syncer on {socket.gethostname()} (process {os.getpid()})"

    def published_state(self) -> PublishedState:
        """Read the cluster version (``None`` if ``/hosts`` does not exist) and the last publication."""
        wanted = [paths.STOPS, paths.HOSTS, paths.TARGETS, paths.MANAGED, paths.REFUSALS, paths.SIGNED]
        (stops, hosts, targets, managed, refusals, signed), (tops,) = self.session.look(wanted, ["/"])
        return PublishedState(
            cluster=None if hosts is None else cluster_of(hosts),
            published=decode_published(targets, managed, tops or ()),
            stops=0 if stops is None else stops.version,
            refused=refused_revision(refusals),
            signed=None if signed is None else signed.data,
            buckets=0 if signed is None else signed.children,
        )

    def hosts(self, sequence: int) -> FleetHosts:
        """Read all known hosts, their reboots, and the services that they gain in a publication and still miss.

        Reboots are read last: a host records its reboot before it deregisters.
        """
        listed = [paths.HOSTS, paths.INVENTORY, paths.order_path(sequence), paths.MAINTENANCE]
        names, known, awaited, maintained = (names or () for names in self.session.look((), listed)[1])
        hosts = read_hosts(self.session, names)
        absent = read_inventories(self.session, set(known) - {host.identity.id for host in hosts})
        unfinished = read_unfinished(self.session, sequence, awaited)
        maintenance = frozenset(read_maintenance(self.session, time.time(), maintained))
        reboots = read_reboots(self.session)
        return FleetHosts(hosts, absent_hosts(absent, hosts), unfinished, maintenance, reboots)

    def lock(self) -> ContenderLock:
        """Return a new ``/hosts-lock``.

        Once it is held, ``publish`` writes only while it is still held, and its last transaction releases it.
        """
        self._lock = ContenderLock(self.session, paths.HOSTS_LOCK, self._identity)
        return self._lock

    def write_record(self, operations: SectionOperations, place: str) -> None:
        """Write a record of the section without a publication; ``place`` names its failpoints."""
        for transaction in chunks([*operations.parts, *operations.closing], self.session.acl_size):
            self._reach(f"before:{place}")
            self.session.commit(*transaction)
            self._reach(f"after:{place}")

    def publish(self, publication: Publication, change: SectionWriter = NO_CHANGE) -> int:
        """Write a publication: in one transaction if it fits, otherwise in several under an ``importing`` mark.

        ``change`` is that of the section. Return the sequence of the last publication that changed something for
        hosts: this one, unless it only repeats.

        Raises ``ConflictError`` if another writer changed a node that is to change, or if the lock was lost: then
        either nothing was written, or the mark stays and the next publication completes the work. Raises
        ``TreeError``, before anything is written, if a node is too large for ZooKeeper.
        """
        sections = self._sections(change)
        before = read_before(self.session, publication, sections)
        after = final_publication(publication, before, sections)
        transactions = transactions_for(before, after, sections, self.session.acl_size)
        recent = recent_publications(paths.sequences(before.children[paths.HISTORY]))
        last = commit_all_but_last(self._begin, transactions)
        finish = self._begin(last, releases=True)
        listed = [*recent, paths.OUTPUTS, paths.AGENT_LOCKS]
        leftovers = _logging_errors(lambda: self.session.look((), listed)[1])  # sent meanwhile
        finish()
        if leftovers is not None:
            _logging_errors(lambda: self._clean_up(before, after, recent, leftovers))
        return after.since

    def _sections(self, change: SectionWriter) -> tuple[SectionWriter, ...]:
        """Return the sections of a publication, in the order of their operations; ``change`` is a feature's."""
        return (
            TreeWriter(),
            TargetWriter(self._signature),
            RoleLockWriter(),
            DocumentWriter(),
            RecordWriter(),
            ManagedWriter(),
            StrategyWriter(),
            change,
            self._signature,
            OrderWriter(),
            LastPublicationWriter(),
            ClusterWriter(),
            RequestWriter(),
        )

    def _clean_up(
        self, before: Before, after: After, recent: Sequence[str], leftovers: Sequence[Collection[str] | None]
    ) -> None:
        """Remove the unneeded nodes of earlier publications.

        ``leftovers`` are the children of the ``recent`` records, and of the nodes of outputs and of agents' locks.
        """
        publication = after.publication
        *results, outputs, locks = leftovers
        recorded = paths.sequences(before.children[paths.HISTORY])
        tidy(self.session, recorded, dict(zip(recent, results, strict=True)), limit=self._history)
        if publication.order or before.nodes[paths.ORDER] is not None:
            remove_orders_before(self.session, after.since)
        remove_outputs(self.session, outputs or ())
        if locks:
            targets = publication.targets.values()
            deployed = {assignment.path for assignments in targets for assignment in assignments}
            remove_unused_locks(self.session, locks, deployed)

    def start_signing(self, coming: StandingPublication) -> None:
        """Begin to sign a publication that will probably be written, while it is prepared.

        Without a key, this does nothing.
        """
        if self._signing is not None:
            self._signing.start(coming)

    def has_signed(self, data: bytes | None, buckets: int) -> bool:
        """Whether these are the data of the signed statement as this process wrote it last, with all buckets.

        ``buckets`` is the number of the nodes of buckets.
        """
        return self._signing is not None and self._signing.has_written(data, buckets)

    def has_buckets(self, digests: Mapping[str, str]) -> bool:
        """Read the signed buckets; return whether all have these digests, by name."""
        return self._buckets.have(digests)

    def renew_signature(self, standing: StandingPublication, *, kept: bytes | None = None) -> bool:
        """Sign the publication that stands in ZooKeeper again, and write the statement and buckets that differ.

        ``standing`` is that publication as it has to be. ``kept`` are the data of a statement that was verified:
        they stay if they are of this publication. Returns ``False``, and writes nothing, if the targets in
        ZooKeeper are others. Raises ``ConflictError`` if another publication was written at the same time, or the
        lock was lost.
        """
        if self._signing is None:
            return False
        started = self._signing.start(standing)
        names = self.session.children(paths.TARGETS) or ()
        read = [f"{paths.TARGETS}/{name}" for name in names]
        targets, signed, *nodes = self.session.get_many([paths.TARGETS, paths.SIGNED, *read])
        if (0 if targets is None else targets.version) != standing.stamp:
            raise ConflictError("another publication, or an import by hand, changed the targets in the meantime")
        present = {path: node.data for path, node in zip(read, nodes, strict=True) if node is not None}
        if present != encode_targets(standing.targets, standing.targets):
            return False
        operations = self._signing.renewal(self.session, started, signed, kept=kept)
        check = [] if targets is None else [Check(paths.TARGETS, targets.version)]
        pieces = chunks([*operations.parts, *operations.closing], self.session.acl_size)
        commit_each(self._begin, ([*check, *piece] for piece in pieces))
        return True

    def _begin(self, operations: Sequence[Operation], *, releases: bool = False) -> Callable[[], None]:
        """Send a transaction that is executed only under the lock; return a function that waits for its end.

        ``releases``: the transaction releases the lock as well.
        """
        lock = self._lock
        held: Sequence[Operation] = ()
        if lock is not None and lock.path is not None:
            held = lock.releasing() if releases else [Check(lock.path, 0)]
        self._reach("before:commit")
        wait = self.session.begin(*held, *operations)

        def finish() -> None:
            """Wait for the end of the transaction."""
            wait()
            if lock is not None and releases:
                lock.note_released()
            self._reach("after:commit")

        return finish

    def watch_requests(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` (which must not block) when an operator requests a publication or announces a push."""
        self.session.watch(paths.REQUEST, changed)
        self.session.watch(paths.NOTICE, changed)

    def request(self) -> PublicationRequest | None:
        """Read the operator's request for a publication that is not answered yet; ``None`` without one."""
        request = read_request(self.session)
        return None if request is None or request.error is not None else request

    def report(
        self, message: str, interval: float, fetched: float | None, waiting: Sequence[CommitSummary] = ()
    ) -> None:
        """Publish this syncer's heartbeat.

        ``message`` is the outcome of the last cycle, ``interval`` the seconds until the next one, and ``fetched``
        when the repository was last read (seconds since the epoch; ``None``: not yet by this process). ``waiting``
        are the commits that are not published yet, newest first.
        """
        report = SyncerReport(self._identity, message, interval, 0.0, fetched, tuple(waiting))
        write_report(self.session, report, time.time())


def _logging_errors(clean_up: Callable[[], T]) -> T | None:
    """Return the result of a part of the clean-up; ``None`` after an error, which is logged.

    A publication does not fail because of its clean-up: the clean-up of the next publication tries again.
    """
    try:
        return clean_up()
    except ZkdeploymentError as error:
        get_logger().warning("leftovers-not-removed", reason=str(error))
        return None
