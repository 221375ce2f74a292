"""The syncer: publishes the tip of the tree's branch to ZooKeeper, or raises the reason why not.

One run reads the published state, decides, prepares the publication and writes it: over the last published text if
possible, else over the live tree. When runs happen is decided in ``follower``.
"""

from __future__ import annotations

import functools
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import tenacity

from zkdeployment.base.cluster import Cluster, ClusterState, Revision
from zkdeployment.base.errors import (
    AllStopError,
    ConflictError,
    LockHeldError,
    NotConvergedError,
    RefusedError,
    RevisionError,
    SourceError,
    TreeError,
    ZkdeploymentError,
    without_secrets,
)
from zkdeployment.base.log import get_logger
from zkdeployment.base.publication import Published, next_sequence
from zkdeployment.base.text import printable
from zkdeployment.base.values import dataclass
from zkdeployment.documents.collection import PublishedDocuments
from zkdeployment.publishing.daemon.keeper import SectionKeeper, section_keeper
from zkdeployment.publishing.daemon.signing import SignedSequences, StandingSignature
from zkdeployment.publishing.records import (
    MAX_PROBLEM_LENGTH,
    MOST_PROBLEMS,
    MOST_WAITING,
    CommitSummary,
    PublicationRequest,
    Refusal,
    SyncOptions,
)
from zkdeployment.publishing.rules.changes import (
    Baseline,
    Draft,
    PreparedPublication,
    draft,
    drift,
    has_foreign_children,
    is_repetition_of,
    ordered_revision,
    ordered_targets,
    require_publishable,
)
from zkdeployment.publishing.rules.convergence import PublicationSnapshot, PublishedState
from zkdeployment.publishing.rules.decision import (
    Ancestry,
    PublicationFacts,
    Publish,
    Refuse,
    Wait,
    decide,
    draft_refusal,
    request_refusal,
)
from zkdeployment.publishing.rules.review import Review, place, review
from zkdeployment.publishing.section import section
from zkdeployment.publishing.signing.standing import (
    SigningRecord,
    StandingPublication,
    is_plausible,
    sequence_to_sign,
)
from zkdeployment.publishing.signing.statement import left_digest
from zkdeployment.publishing.store.cluster import read_stops
from zkdeployment.publishing.store.documents import (
    NO_CHANGE,
    SectionWriter,
    read_published_documents,
    read_strategy,
)
from zkdeployment.publishing.store.reboots import expire_reboots
from zkdeployment.publishing.store.requests import write_refusal
from zkdeployment.publishing.watermark import Watermark
from zkdeployment.strategies.documents import strategy_in_force
from zkdeployment.strategies.store.records import read_rollout
from zkdeployment.zookeeper.server_time import server_time

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.base.machine.files import JsonFile
    from zkdeployment.publishing.acts.containment import Containment
    from zkdeployment.publishing.governance import Governance, StandingGovernance
    from zkdeployment.publishing.ports import PublicationSigner, PublisherKeys, TreeSource
    from zkdeployment.publishing.store.store import ZooKeeperPublications
    from zkdeployment.strategies.strategy import Strategy

    CheckPackages = Callable[[PublicationSnapshot, Revision, Draft], None]


#: The number of reviewed revisions that are cached: the published one and the tip.
_CACHED_REVIEWS = 2


@dataclass(frozen=True, slots=True)
class _Texts:
    """The text of the ``tip``, and the text that the ``live`` tree is known to be exactly, if there is one."""

    tip: Review
    live: Review | None


class PublicationBuilder:
    """Reads trees from ``source``, and live nodes and the published strategy from ``store``.

    ``signed``: publications are signed. Services at and below the ``governed`` paths need an intent.
    """

    def __init__(
        self,
        source: TreeSource,
        store: ZooKeeperPublications,
        *,
        signed: bool = False,
        governed: Collection[str] = (),
    ) -> None:
        self._signed = signed
        self._governed = governed
        self._source = source
        self._store = store
        self._reviews: dict[Revision, Review] = {}

    def read(self, decision: Publish, standing: StandingGovernance) -> _Texts:
        """Return the texts of the tip and of the live tree; raises ``TreeError`` with all errors of the tip.

        ``standing`` is the governance before the publication.
        """
        tip, published = decision.tip, decision.snapshot.published
        last = None if decision.whole else self._exact_text(published)
        if standing.revision != published.revision:
            last = None  # ZooKeeper names another publication than the one whose governance is known
        reviewed = self._review(tip, reread=True)
        governance, whole = section().governance(reviewed.documents), reviewed.compilation.whole
        problems = governance.ungoverned_problems(self._governed, whole)
        ungoverned = (place(one, reviewed.linted) for one in problems)
        require_publishable((*reviewed.problems, *ungoverned), tip)
        return _Texts(reviewed, last)

    def prepare(
        self, texts: _Texts, decision: Publish, standing: StandingGovernance, *, sequence: int
    ) -> PreparedPublication:
        """Return the publication of the tip over the live tree; raises ``TreeError`` with all errors.

        ``sequence`` is the one that the publication will probably have: its signature is begun at once.

        The whole live tree is read if the decision asks for it, if the live tree is not known to be the last
        published text, or if the nodes that change are not as that text has them.
        """
        reviewed, last = texts.tip, texts.live
        tip, snapshot, may_repeat = decision.tip, decision.snapshot, decision.may_repeat
        published = snapshot.published
        if self._signed:
            repeats = may_repeat and last is not None and last.linted.tree == reviewed.linted.tree
            since = published.effective_since if repeats else sequence
            strategy, left = strategy_in_force(reviewed.documents), standing.left
            coming = StandingPublication(
                tip, sequence, since, targets=reviewed.targets, strategy=strategy, left=left
            )
            self._store.start_signing(coming)
        prepared = None if last is None else self._prepare_over_text(reviewed, last, standing, snapshot, tip)
        if prepared is not None:
            return replace(prepared, repeats=prepared.repeats and may_repeat)
        strategy, live = self._published_strategy(), self._store.tree.live_tree()
        documents = read_published_documents(self._store.session)
        text = self._standing_text(standing)
        governance = self._governance(text, published, standing)
        baseline = Baseline.of_live_tree(live, strategy, documents, governance, with_properties=self._signed)
        ordered = ordered_revision(published)
        ordered_text = None if ordered is None else self._text_of(ordered)
        completed = ordered_targets(published, snapshot.cluster, baseline.targets, reviewed, ordered_text)
        baseline = replace(baseline, completed=completed, text=None if text is None else text.linted.tree)
        drafted = draft(reviewed, baseline, snapshot, revision=tip, prune=decision.options.prune)
        before = last or self.published_text(published)
        repeats = may_repeat and is_repetition_of(before, reviewed, drafted, snapshot)
        return PreparedPublication(drafted, live.versions, repeats=repeats)

    def _prepare_over_text(
        self,
        reviewed: Review,
        last: Review,
        standing: StandingGovernance,
        snapshot: PublicationSnapshot,
        tip: Revision,
    ) -> PreparedPublication | None:
        """Return the publication over the last text; ``None`` if a live node to be changed has drifted."""
        try:
            baseline = Baseline.of_text(last, standing.left)
            drafted = draft(reviewed, baseline, snapshot, revision=tip)
        except TreeError:
            return None  # other live nodes may resolve the conflict
        change, tree = drafted.change, drafted.baseline.live.tree
        nodes = self._store.tree.nodes(change.paths)
        differences = list(drift(change, tree, nodes))
        for difference in differences:
            get_logger().warning("tree-drifted", found=difference)
        if differences or has_foreign_children(change, tree, nodes):
            return None
        versions = {path: node.version for path, node in nodes.items()}
        repeats = is_repetition_of(last, reviewed, drafted, snapshot)
        return PreparedPublication(drafted, versions, partial=True, repeats=repeats)

    def _standing_text(self, standing: StandingGovernance) -> Review | None:
        """Return the text of the revision that governs; ``None`` if it is unknown or no longer readable."""
        return None if standing.revision is None else self._text_of(standing.revision)

    def _governance(self, text: Review | None, published: Published, standing: StandingGovernance) -> Governance:
        """Return the standing governance: by the ``text``, or, without a valid one, by what ZooKeeper holds."""
        if text is not None and not text.documents.errors:
            return section().governance(text.documents, standing.left)
        if published.intents is None:
            return section().governance(PublishedDocuments(), standing.left)
        return section().read(self._store.session, standing.left)

    def _exact_text(self, published: Published) -> Review | None:
        """Return the text that the live tree is known to be exactly, if there is one."""
        last = None if published.exact is None else self.published_text(published)
        return last if last is not None and last.fingerprint == published.exact else None

    def published_text(self, published: Published) -> Review | None:
        """Return the text of the published revision, not of the live tree; ``None`` if it cannot be read."""
        return None if published.revision is None else self._text_of(published.revision)

    def _text_of(self, revision: Revision) -> Review | None:
        try:
            return self._review(revision)
        except SourceError:
            return None  # history was rewritten, or the tree has moved to another repository

    def _published_strategy(self) -> Strategy | None:
        """Return the published strategy; a damaged one counts as none and is replaced."""
        try:
            return read_strategy(self._store.session)
        except TreeError as error:
            get_logger().warning("strategy-damaged", reason=str(error))
            return None

    def _review(self, revision: Revision, *, reread: bool = False) -> Review:
        """Return the review of a revision's tree, from the cache if possible.

        With ``reread`` the source always reads the revision again, which verifies its signature: a key that signed
        the revision may have been revoked since.
        """
        cached = self._reviews.get(revision)
        if cached is None or reread:
            last = cached or next(reversed(self._reviews.values()), None)
            self._reviews[revision] = review(self._source.files(revision), last, signed=self._signed)
            for old in list(self._reviews)[:-_CACHED_REVIEWS]:
                del self._reviews[old]
        return self._reviews[revision]


class RefusalRecorder:
    """Writes refusals of tips of ``source`` to ``store``.

    A write that fails is logged, and the next cycle writes again.
    """

    def __init__(self, source: TreeSource, store: ZooKeeperPublications, clock: Clock) -> None:
        self._source = source
        self._store = store
        self._clock = clock

    @contextmanager
    def judging(self, tip: Revision, refused: Revision | None) -> Iterator[None]:
        """Record whether the block refuses ``tip``; ``refused`` is the tip that is recorded as refused.

        The problems of a tree, of its signature and of the guards are refusals. Other errors leave the tip
        unjudged: then only a refusal of another tip is withdrawn, because that is no longer the tip.
        """
        try:
            yield
        except ZkdeploymentError as error:
            if is_refusal(error):
                self._write(self._refusal(tip, _problems(error)))
            elif refused not in {None, tip}:
                self._write(None)
            raise
        if refused is not None:
            self._write(None)

    def _refusal(self, tip: Revision, problems: tuple[str, ...]) -> Refusal:
        refusal = Refusal(tip, problems, self._clock.now())
        try:
            origin = self._source.origin(tip)
        except ZkdeploymentError as error:
            get_logger().warning("refused-commit-not-read", reason=str(error))
            return refusal
        return replace(refusal, author=origin.author, subject=origin.subject)

    def _write(self, refusal: Refusal | None) -> None:
        try:
            write_refusal(self._store.session, refusal)
        except ZkdeploymentError as error:
            get_logger().warning("refusal-not-recorded", reason=str(error))


def is_refusal(error: ZkdeploymentError) -> bool:
    """Whether an error means that the tip itself is not acceptable, rather than the state of the fleet."""
    # The subclasses of RefusedError are about the fleet: all stop, not converged, the lock, the store.
    return type(error) is RefusedError or isinstance(error, TreeError | RevisionError)


def _problems(error: ZkdeploymentError) -> tuple[str, ...]:
    """Return the problems that an error lists, one on each line; the heading of a list is omitted."""
    heading, *lines = without_secrets(str(error)).splitlines() or ["unknown"]
    listed = [printable(line.strip())[:MAX_PROBLEM_LENGTH] for line in (lines or [heading])]
    return tuple(listed[:MOST_PROBLEMS])


#: Attempts of one run while other writers cause conflicts.
_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The publication of a run, or of a preview; ``draft`` is ``None`` if there was nothing to publish.

    ``rollout`` is the id of the rollout that was under way and continues; ``None`` without one.
    """

    revision: Revision
    draft: Draft | None = None
    rollout: str | None = None

    @property
    def sentence(self) -> str:
        """The report for people."""
        if self.draft is None:
            return f"nothing to do: {self.revision} is published"
        continued = ""
        if self.rollout is not None:
            continued = f"; its rollout {self.rollout} is under way and continues"
        return f"published {self.revision} ({self.draft.sentence}){continued}"


@dataclass(frozen=True, slots=True)
class _Candidate:
    """The ``decision`` to publish, and the basis of the publication.

    ``standing`` is the governance before the publication. ``sequence`` is above all sequences that ZooKeeper and
    this syncer know.
    """

    decision: Publish
    standing: StandingGovernance
    sequence: int


class Syncer:
    """Publishes the tip of ``source`` to ``store``.

    ``memory`` is the record that shows whether ZooKeeper was reset to an older state. With a ``signer``, which the
    store has as well, publications are signed: ``signing`` records the signatures of this syncer, and
    ``publishers`` are the keys of all syncers. With ``signed``, ``preview`` judges as with a signer.
    ``check_packages`` raises ``RefusedError`` if hosts could not install the packages that a draft of a revision
    newly wants. The ``keeper`` judges the section of governance (default: one that remembers what it accepted
    while it lives, and verifies no approvals). Services at and below the ``governed`` paths need governance. With
    a ``containment``, only commits of another branch and rollbacks are published. ``fetched`` is when the source
    was last read, in seconds since the epoch; ``unpublished`` is its unpublished tip, with the published revision.
    """

    def __init__(  # noqa: PLR0913  the adapters a syncer depends on
        self,
        source: TreeSource,
        store: ZooKeeperPublications,
        clock: Clock,
        memory: JsonFile[Published] | None = None,
        signer: PublicationSigner | None = None,
        *,
        signed: bool = False,
        check_packages: CheckPackages | None = None,
        keeper: SectionKeeper | None = None,
        signing: JsonFile[SigningRecord] | None = None,
        publishers: PublisherKeys | None = None,
        governed: Collection[str] = (),
        containment: Containment | None = None,
    ) -> None:
        self._source = source
        self._containment = containment
        self._store = store
        self._clock = clock
        self._watermark = Watermark(memory)
        self._builder = PublicationBuilder(source, store, signed=signed or signer is not None, governed=governed)
        self._signer = signer
        self._sequences = SignedSequences(signing)
        self._keeper = keeper or section_keeper(store)
        self._signature = StandingSignature(
            store, self._builder, signer, self._sequences, self._keeper, clock=clock, publishers=publishers
        )
        self._check_packages = check_packages
        self._refusals = RefusalRecorder(source, store, clock)
        self._newer = functools.lru_cache(maxsize=1)(
            lambda tip, published: source.newer(tip, published or "", MOST_WAITING)
        )
        self.unpublished: tuple[Revision, Revision | None] | None = None
        self.fetched: float | None = None

    def sync(self, options: SyncOptions | None = None) -> SyncReport:
        """Publish the tip unless it is published already, and return the report.

        A request among the options is removed in the transaction that publishes; a request that was withdrawn, has
        expired or refers to another state of the fleet is refused. Raises ``StalePublicationError``,
        ``AllStopError``, ``NotConvergedError``, ``LockHeldError``, ``RefusedError`` (by a guard), ``SourceError``,
        ``TreeError`` with all errors of the tree, ``ConflictError`` if others keep writing, ``UnreachableError``.
        After an error nothing is published, or the beginning of a large publication, which the next run finishes.
        """
        options = options or SyncOptions()
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(_ATTEMPTS),
            retry=tenacity.retry_if_exception_type(ConflictError),
            reraise=True,
        )
        try:
            return self._sync(options)
        except ConflictError:
            return retrying(self._sync, replace(options, whole=True))

    def waiting(self) -> Sequence[CommitSummary]:
        """Return the commits that the last run found and did not publish, newest first; raises ``SourceError``."""
        return () if self.unpublished is None else self._newer(*self.unpublished)

    def preview(self, options: SyncOptions | None = None, tip: Revision | None = None) -> SyncReport:
        """Return the publication that ``sync`` would write, or raise its error; nothing is locked or written.

        ``tip`` is another revision in the place of the tip of the branch; the repository has to have it.
        """
        options = options or SyncOptions()
        state = self._store.published_state()
        self._check_state(state, options)
        found = self._fetch()
        tip = found if tip is None else tip
        candidate = self._decide(state, tip, options)
        if candidate is None:
            return SyncReport(tip)
        texts = self._builder.read(candidate.decision, candidate.standing)
        prepared, _ = self._prepare(candidate, texts)
        if prepared is None:
            return SyncReport(tip)
        return SyncReport(tip, prepared.draft, candidate.decision.rollout if prepared.repeats else None)

    def refusals(self, revision: Revision) -> tuple[str, ...]:
        """Return the reasons for which ``sync`` would refuse a revision of the repository as the tip.

        The state of the fleet has no influence: it may be stopped, or not converged. Nothing is locked or written.
        Raises ``UnknownRevisionError``, and ``ZkdeploymentError`` if the revision cannot be judged now.
        """
        try:
            self.preview(SyncOptions(force=True), revision)
        except ZkdeploymentError as error:
            if not is_refusal(error):
                raise
            return _problems(error)
        return ()

    def _sync(self, options: SyncOptions) -> SyncReport:
        expire_reboots(self._store.session, self._clock.now())
        state = self._store.published_state()
        try:
            self._check_state(state, options)
        except AllStopError:
            self._signature.ensure_stopped(state, self._fetch)
            raise
        tip = self._fetch()
        self.unpublished = None if tip == state.published.ordered else (tip, state.published.ordered)
        self._keeper.complete_records(state.published)
        with self._refusals.judging(tip, state.refused):
            stands = self._signature.ensure(state, tip)
            candidate = self._decide(state, tip, options, stands=stands)
            self._note(state.published)
            report = SyncReport(tip) if candidate is None else self._act(candidate)
        self.unpublished = None
        return report

    def _check_state(self, state: PublishedState, options: SyncOptions) -> None:
        """Raise the reason why no tip is published; the repository is not contacted then."""
        if options.request is not None:
            self._check_request(options.request, state)
        if options.force:
            return
        self._watermark.check(state.published)
        if state.cluster is not None and state.cluster.state is ClusterState.STOPPED:
            raise AllStopError(
                "ALL STOP: the cluster version is null, so nothing is published; see zkdeployment status"
            )

    def _fetch(self) -> Revision:
        tip = self._source.fetch()
        self.fetched = self._clock.now()
        return tip

    def _check_request(self, request: PublicationRequest, state: PublishedState) -> None:
        """Refuse a request that was withdrawn, has expired or refers to another state of the fleet."""
        current = self._store.request()
        if current is None or current.id != request.id:
            raise RefusedError(f"the request of {request.by} was taken back")
        _refuse(request_refusal(current, state, server_time(self._store.session)))

    def _decide(
        self, state: PublishedState, tip: Revision, options: SyncOptions, *, stands: bool = True
    ) -> _Candidate | None:
        """Return the tip as a candidate, ``None`` if it is up to date; raises why it must wait or is refused.

        ``stands``: if the tip is published, it needs no other publication.
        """
        facts = PublicationFacts(
            state,
            tip,
            read_snapshot=lambda: self._snapshot(state),
            read_ancestry=lambda before: self._ancestry(tip, before),
            stands=stands,
            is_last=self._signer is None or self._sequences.known.covers(state.published),
        )
        match decide(facts, options):
            case Wait(reason):
                raise NotConvergedError(reason)
            case Refuse(reason):
                raise RefusedError(reason)
            case Publish() as decision:
                _refuse(None if self._containment is None else self._containment.refusal(str(tip)))
                standing = self._keeper.standing(state.published, self._signature.record)
                return _Candidate(decision, standing, self._next_sequence(state.published))
        return None

    def _snapshot(self, published_state: PublishedState) -> PublicationSnapshot:
        """Read the hosts and the rollout of the published revision."""
        cluster, published = published_state.cluster, published_state.published
        session, hosts = self._store.session, self._store.hosts(published.effective_since)
        return PublicationSnapshot(
            cluster=cluster,
            published=published,
            stops=published_state.stops,
            hosts=hosts.registered,
            absent=hosts.absent,
            rollout=None if published.strategy is None else read_rollout(session, published.effective_since),
            unfinished=hosts.unfinished,
            maintenance=hosts.maintenance,
            reboots=hosts.reboots,
            held_by_operator=cluster == Cluster(False) and any(stop.is_hold for stop in read_stops(session)),
        )

    def _ancestry(self, tip: Revision, before: Revision | None) -> Ancestry:
        """Read the origin of the tip and its relation to the revision ``before``, from which it has to descend."""
        origin = self._source.origin(tip)
        if before is None:
            return Ancestry(origin)
        if not self._source.descends(tip, before):
            returns = self._containment is not None and self._containment.returns(str(tip), str(before))
            return Ancestry(origin, descends=returns)
        return Ancestry(origin, previous=None if origin.signer is None else self._source.origin(before))

    def _act(self, candidate: _Candidate) -> SyncReport:
        """Publish a candidate under the lock, unless its change is empty and therefore not worth a publication."""
        decision = candidate.decision
        tip, origin = decision.tip, decision.origin
        with self._expected_signature(), self._locking(tip) as lock:
            texts = self._builder.read(decision, candidate.standing)
            lock()
            prepared, change = self._prepare_to_sign(candidate, texts)
            if prepared is None:
                return SyncReport(tip)
            since = self._publish(prepared, change, candidate)
        draft = prepared.draft
        rollout = decision.rollout if since == decision.snapshot.published.effective_since else None
        get_logger().info(
            "revision-published",
            revision=tip,
            author=origin.author,
            subject=origin.subject,
            signer=origin.signer,
            forced=decision.options.force,
            changes=draft.sentence,
            rollout=rollout,
        )
        for problem in draft.warnings:
            get_logger().warning("tree-warning", revision=tip, problem=str(problem))
        return SyncReport(tip, draft, rollout)

    @contextmanager
    def _expected_signature(self) -> Iterator[None]:
        """Have the signer prepared while the lock is acquired and the publication is made."""
        if self._signer is None:
            yield
            return
        self._signer.expect()
        try:
            yield
        finally:
            self._signer.abandon()

    @contextmanager
    def _locking(self, tip: Revision) -> Iterator[Callable[[], None]]:
        """Ask for the lock and yield the function that waits for it; that one raises ``LockHeldError``."""
        lock = self._store.lock()

        def acquire() -> None:
            """Hold the lock of publications from now on."""
            if not lock.try_acquire():
                raise LockHeldError(
                    f"{tip} is not published: /hosts-lock is held by {lock.holder() or 'another syncer'}"
                )

        try:
            lock.request()
            yield acquire
        finally:
            lock.release()

    def _prepare_to_sign(
        self, candidate: _Candidate, texts: _Texts
    ) -> tuple[PreparedPublication | None, SectionWriter]:
        """Do as ``_prepare``, while the sequence is recorded and the signature is made."""
        if self._signer is None:
            return self._prepare(candidate, texts)
        before = self._sequences.reserve(candidate.sequence)
        is_ready = False
        try:
            prepared, change = self._prepare(candidate, texts)
            self._sequences.settle()
            is_ready = prepared is not None
        finally:
            if not is_ready:
                self._sequences.withdraw(before)
        return prepared, change

    def _prepare(self, candidate: _Candidate, texts: _Texts) -> tuple[PreparedPublication | None, SectionWriter]:
        """Return the publication and its change of the section; no publication if the published tip stays."""
        decision, standing = candidate.decision, candidate.standing
        prepared = self._builder.prepare(texts, decision, standing, sequence=candidate.sequence)
        draft = prepared.draft
        if decision.optional and not draft.change:
            return None, NO_CHANGE
        change = self._keeper.judge(draft, decision.snapshot.published)
        if not decision.options.overrides.mass_removal:
            _refuse(draft_refusal(draft, decision.snapshot))
        if self._check_packages is not None and not decision.options.overrides.package_problems:
            self._check_packages(decision.snapshot, draft.revision, draft)
        return prepared, change

    def _publish(self, prepared: PreparedPublication, change: SectionWriter, candidate: _Candidate) -> int:
        """Write the publication; return the sequence of the last one that changed something for hosts."""
        publication = prepared.build(candidate.decision, sequence=candidate.sequence, now=self._clock.now())
        coming = Published(revision=publication.revision, sequence=publication.sequence)
        published = candidate.decision.snapshot.published
        self._keeper.accept(change, publication, published)
        since = self._store.publish(publication, change)
        self._keeper.settle()
        if self._signer is not None:
            # If this record is lost, the next run takes the numbers from the statement and verifies its signature.
            left = left_digest(publication.left)
            self._sequences.record(publication.sequence, since, publication.revision, left)
        self._watermark.note(coming)
        return since

    def _note(self, published: Published) -> None:
        """Remember the publication in ZooKeeper, unless another program may have invented it."""
        known = self._sequences.known.sequence
        if (
            published.sequence == known
            if self._signer is not None
            else is_plausible(published.sequence, self._clock.now())
        ):
            self._watermark.note(published)

    def _next_sequence(self, published: Published) -> int:
        last = max(published.sequence, self._watermark.known.sequence)
        if self._signer is not None:
            return sequence_to_sign(self._sequences.known.reserved, last, self._clock.now())
        return next_sequence(last, self._clock.now())


def _refuse(reason: str | None) -> None:
    if reason is not None:
        raise RefusedError(reason)
