"""The syncer: from the tip of the tree's branch to ZooKeeper, or a reason why not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import tenacity

from zkdeployment.daemons.syncer.publication_builder import PublicationBuilder
from zkdeployment.daemons.watermark import Watermark
from zkdeployment.errors import AllStopError, ConflictError, LockHeldError, NotConvergedError, RefusedError
from zkdeployment.log import get_logger
from zkdeployment.model.cluster import Cluster
from zkdeployment.model.history import PublicationRecord
from zkdeployment.model.publication import GuardOverrides, Published, next_sequence
from zkdeployment.planning.convergence import count_excluded, refusal
from zkdeployment.planning.guards import (
    date_refusal,
    predecessor,
    removal_refusal,
    request_refusal,
    rewind_refusal,
)
from zkdeployment.planning.publishing import (
    Draft,
    PublicationVerdict,
    PublishedState,
    is_stopped,
    is_up_to_date,
    judge,
)

if TYPE_CHECKING:
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.history import ForcedBy
    from zkdeployment.model.origin import Origin
    from zkdeployment.model.publication import PublicationRequest
    from zkdeployment.ports.memory import PublicationMemory
    from zkdeployment.ports.process import Clock
    from zkdeployment.ports.publication import PublicationStore, TreeSource

#: How often somebody else may get in between reading and writing.
_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What was published, or in a preview would be; without a draft there was nothing to do."""

    revision: Revision
    draft: Draft | None = None

    @property
    def sentence(self) -> str:
        """The report for people."""
        if self.draft is None:
            return f"nothing to do: {self.revision} is published"
        return f"published {self.revision} ({self.draft.sentence})"


@dataclass(frozen=True, slots=True)
class _Order:
    """What is asked for; with ``whole`` the whole live tree is read in any case."""

    force: bool
    prune: bool
    whole: bool
    overrides: GuardOverrides
    forced: ForcedBy | None = None
    request: PublicationRequest | None = None


class Syncer:
    """Publishes the tip of ``source`` to ``store``, of which ``memory`` tells if it went back.

    ``fetched`` is when the source could be read last, in seconds since the epoch.
    """

    def __init__(
        self, source: TreeSource, store: PublicationStore, clock: Clock, memory: PublicationMemory | None = None
    ) -> None:
        self._source = source
        self._store = store
        self._clock = clock
        self._watermark = Watermark(memory)
        self._builder = PublicationBuilder(source, store)
        self.fetched: float | None = None

    def sync(
        self,
        *,
        force: bool = False,
        prune: bool = False,
        overrides: GuardOverrides | None = None,
        forced: ForcedBy | None = None,
        request: PublicationRequest | None = None,
    ) -> SyncReport:
        """Publish the tip if it may be and is not yet; ``force`` does so whatever the fleet is doing.

        A ``request`` is removed in the moment in which it is carried out; one that was taken back, is too old, or
        answers to another state of the fleet is refused. ``forced`` tells the history who wants that, and why.
        ``prune`` removes top-level nodes whose file is gone; without ``overrides``, guards hold even with
        force. Raises ``StalePublicationError``, ``AllStopError``, ``NotConvergedError``, ``LockHeldError``,
        ``RefusedError`` (something is not permitted), ``SourceError``, ``TreeError`` with all errors of the tree,
        ``ConflictError`` when others write all the time, ``UnreachableError``. Then nothing was published, or the
        beginning of a large publication that the next call finishes.
        """
        order = _Order(
            force,
            prune,
            whole=force or prune,
            overrides=overrides or GuardOverrides(),
            forced=forced,
            request=request,
        )
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(_ATTEMPTS),
            retry=tenacity.retry_if_exception_type(ConflictError),
            reraise=True,
        )
        try:
            return self._sync(order)
        except ConflictError:
            return retrying(self._sync, replace(order, whole=True))

    def preview(
        self, *, force: bool = False, prune: bool = False, overrides: GuardOverrides | None = None
    ) -> SyncReport:
        """Return what ``sync`` would publish, or raise what it would raise; takes no lock and writes nothing."""
        order = _Order(force, prune, whole=force or prune, overrides=overrides or GuardOverrides())
        published_state, tip, verdict = self._judge(order)
        if verdict is PublicationVerdict.UP_TO_DATE:
            return SyncReport(tip)
        self._check_history(published_state, tip, self._source.origin(tip), order)
        return SyncReport(tip, self._draft(published_state, tip, order))

    def _sync(self, order: _Order) -> SyncReport:
        published_state, tip, verdict = self._judge(order)
        self._watermark.note(published_state.published)
        if verdict is PublicationVerdict.UP_TO_DATE:
            return SyncReport(tip)
        origin = self._source.origin(tip)
        self._check_history(published_state, tip, origin, order)
        lock = self._store.lock()
        if not lock.try_acquire():
            raise LockHeldError(
                f"{tip} is not published: /hosts-lock is held by {lock.holder() or 'another syncer'}"
            )
        try:
            drafted = self._draft(published_state, tip, order)
            if drafted is None:
                return SyncReport(tip)
            now = self._clock.now()
            sequence = next_sequence(max(published_state.published.sequence, self._watermark.known.sequence), now)
            excluded = count_excluded(drafted.publication.strategy, published_state.hosts)
            record = PublicationRecord(tip, now, origin=origin, forced=order.forced, excluded=excluded)
            asked = None if order.request is None else order.request.id
            self._store.publish(replace(drafted.publication, sequence=sequence, record=record, request=asked))
            self._watermark.note(Published(revision=tip, sequence=sequence))
        finally:
            lock.release()
        get_logger().info(
            "published",
            revision=tip,
            author=origin.author,
            subject=origin.subject,
            signer=origin.signer,
            forced=order.force,
            changes=drafted.sentence,
        )
        for problem in drafted.warnings:
            get_logger().warning("tree-warning", revision=tip, problem=str(problem))
        return SyncReport(tip, drafted)

    def _draft(self, published_state: PublishedState, tip: Revision, order: _Order) -> Draft | None:
        """Work out the publication; ``None`` if the tip is published and there was nothing to prune."""
        drafted = self._builder.draft(published_state, tip, whole=order.whole, prune=order.prune)
        if is_up_to_date(published_state, tip) and not order.force and not drafted.publication.change:
            return None
        if not order.overrides.mass_removal and not _is_begun(published_state, tip):
            made = drafted.publication
            _refuse(removal_refusal(tip, drafted.before, made.targets, published_state.known, made.change.delete))
        return drafted

    def _check_history(
        self, published_state: PublishedState, tip: Revision, origin: Origin, order: _Order
    ) -> None:
        """Raise ``RefusedError`` unless the tip comes after what is published, or need not."""
        before = predecessor(published_state)
        if order.overrides.rewind or before is None or before == tip:
            return
        _refuse(rewind_refusal(tip, before, descends=self._source.descends(tip, before)))
        if origin.signer is not None:
            _refuse(date_refusal(tip, origin, self._source.origin(before)))

    def _check_request(self, request: PublicationRequest, published_state: PublishedState) -> None:
        """Raise ``RefusedError`` unless a request still stands and answers to the state of the fleet."""
        found = self._store.request()
        if found is None or found.id != request.id:
            raise RefusedError(f"the request of {request.by} was taken back")
        _refuse(request_refusal(found, published_state, self._store.server_time()))

    def _judge(self, order: _Order) -> tuple[PublishedState, Revision, PublicationVerdict]:
        """Read the world and decide; while all is stopped not even the repository is asked."""
        published_state = self._store.published_state()
        cluster, published = published_state.cluster, published_state.published
        if order.request is not None:
            self._check_request(order.request, published_state)
        if not order.force:
            self._watermark.check(published)
        if is_stopped(cluster, force=order.force):
            raise AllStopError(
                "ALL STOP: the cluster version is null, so nothing is published; see zkdeployment status"
            )
        tip = self._source.fetch()
        self.fetched = self._clock.now()
        if order.whole or not is_up_to_date(published_state, tip):
            rollout = self._store.rollout(published.sequence) if published.strategy is not None else None
            hosts = self._store.hosts()
            published_state = replace(
                published_state, hosts=hosts, absent=self._store.absent(hosts), rollout=rollout
            )
        firm = cluster == Cluster(False) and self._store.is_held_by_operator()
        verdict = judge(published_state, tip=tip, force=order.force, prune=order.prune, firm=firm)
        if verdict is PublicationVerdict.NOT_CONVERGED:
            raise NotConvergedError(refusal(published_state, tip))
        return published_state, tip, verdict


def _is_begun(published_state: PublishedState, tip: Revision) -> bool:
    """Whether a publication of the tip was interrupted: what it is about to remove was looked at then."""
    return published_state.cluster is not None and published_state.cluster.importing == tip


def _refuse(words: str | None) -> None:
    if words is not None:
        raise RefusedError(words)
