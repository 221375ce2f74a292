"""Keeps the current publication in ZooKeeper signed, and records the signed sequences.

Numbers from ZooKeeper are never signed. Otherwise an attacker who can write to ZooKeeper could obtain a signed
publication that hosts prefer to all later ones, or that they mistake for the publication that they already have. A
new publication is signed when it is written. An existing publication is signed again here after the key was
changed or first configured, and after another program changed the signed nodes.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from zkdeployment.base.cluster import INITIAL, Cluster, Revision, is_revision
from zkdeployment.base.errors import HostFilesError, UntrustedError, ZkdeploymentError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.files import JsonFile
from zkdeployment.base.publication import is_sequence
from zkdeployment.publishing.section import section
from zkdeployment.publishing.signing.standing import SigningRecord, StandingPublication
from zkdeployment.publishing.signing.statement import SignedStatement, Statement, is_digest
from zkdeployment.strategies.documents import strategy_in_force

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.publishing.daemon.keeper import SectionKeeper
    from zkdeployment.publishing.daemon.syncer import PublicationBuilder
    from zkdeployment.publishing.ports import PublicationSigner, PublisherKeys
    from zkdeployment.publishing.rules.convergence import PublishedState
    from zkdeployment.publishing.store.store import ZooKeeperPublications


def signing_file(file: Path) -> JsonFile[SigningRecord]:
    """Return the file in which a syncer records its signatures; a damaged file is logged and counts as missing."""
    return JsonFile(file, _signing_record, asdict, expected="a record of signatures")


def _signing_record(value: Any) -> SigningRecord:
    reserved, sequence, since, revision, left = map(
        value.get, ("reserved", "sequence", "since", "revision", "left")
    )
    if not is_sequence(reserved):
        raise ValueError("not a record of signatures")
    if is_sequence(sequence) and is_sequence(since) and is_revision(revision) and is_digest(left):
        return SigningRecord(reserved, sequence, since, revision, left)
    return SigningRecord(reserved)


class SignedSequences:
    """Keeps the record in ``memory``; without ``memory``, only as long as this object lives.

    Records are written beside other work. ``settle`` waits until they are durable.
    """

    def __init__(self, memory: JsonFile[SigningRecord] | None) -> None:
        self._memory = memory
        self._known: SigningRecord | None = None
        self._writer = ThreadPoolExecutor(1, "signed-sequences")
        self._writing: Future[None] | None = None

    @property
    def known(self) -> SigningRecord:
        """The record, with sequence 0 if the current publication is not known."""
        if self._known is None:
            self._known = (None if self._memory is None else self._memory.load()) or SigningRecord()
        return self._known

    def reserve(self, sequence: int) -> SigningRecord:
        """Begin to record a sequence, and return the record before. ``settle`` before its signature is written.

        After that the current publication is unknown until ``withdraw`` or ``record`` is called.
        """
        before = self.known
        self._write(SigningRecord(sequence))
        return before

    def withdraw(self, before: SigningRecord) -> None:
        """Begin to record that nothing was written since ``reserve``: the last publication is still current."""
        self._write(replace(before, reserved=self.known.reserved))

    def record(self, sequence: int, since: int, revision: Revision, left: str | None) -> None:
        """Begin to record the current publication, unless a later one was signed."""
        if sequence >= self.known.reserved:
            self._write(SigningRecord(sequence, sequence, since, revision, left))

    def settle(self) -> None:
        """Wait until the record is durable; raises ``HostFilesError``."""
        writing, self._writing = self._writing, None
        if writing is None:
            return
        try:
            writing.result()
        except HostFilesError:
            self._known = None  # the content of the memory
            raise

    def _write(self, record: SigningRecord) -> None:
        if record == self.known:
            return
        self._known = record
        if self._memory is not None:
            self._writing = self._writer.submit(self._memory.save, record)


#: The sequence of the signature of the revision ``initial``: below that of every publication.
_FIRST = 1

#: Seconds between two replacements of a signature that cannot be verified. Another syncer may have made it, and do
#: the same.
_PAUSE = 3600.0


class StandingSignature:
    """Signs publications that ``builder`` reads from the repository, with the numbers of ``sequences``.

    The content of ZooKeeper is never signed. Only the tip is signed again, because otherwise an attacker who can
    write to ZooKeeper could have an old revision signed. A publication of an earlier revision keeps its signature
    until the tip is published. ``publishers`` are the keys of all syncers; ``None``: only this syncer's key is
    known.
    """

    def __init__(  # noqa: PLR0913  what a signature depends on
        self,
        store: ZooKeeperPublications,
        builder: PublicationBuilder,
        signer: PublicationSigner | None,
        sequences: SignedSequences,
        keeper: SectionKeeper,
        *,
        clock: Clock,
        publishers: PublisherKeys | None = None,
    ) -> None:
        self._store = store
        self._builder = builder
        self._signer = signer
        self._sequences = sequences
        self._keeper = keeper
        self._clock = clock
        self._publishers = publishers
        self._verified: tuple[bytes, Statement] | None = None
        self._is_own = False
        self._has_checked = False
        self._replaced: float | None = None
        self._reported: bytes | None = None
        self._found: Statement | None = None  # with a valid signature, by the last ``ensure``

    @property
    def record(self) -> SigningRecord | None:
        """The signed publication that stands, with sequence 0 if it is unknown; ``None`` without a signer.

        A publication that another syncer signed is known after ``ensure`` found its statement.
        """
        if self._signer is None:
            return None
        known, found = self._sequences.known, self._found
        if known.sequence or found is None:
            return known
        return SigningRecord(known.reserved, found.sequence, found.since, found.revision, found.left)

    def ensure(self, state: PublishedState, tip: Revision) -> bool:
        """Sign the current publication again if necessary; return ``False`` if ``tip`` must be published again.

        The tip must be published again if it is the published revision, and either the targets in ZooKeeper differ
        from its targets, or the publication has no valid signature and has other numbers than this syncer signed.
        """
        if self._signer is None:
            return True
        published = state.published
        statement = self._statement(self._signer, state)
        self._found = statement
        if statement is not None:
            self._sequences.record(statement.sequence, statement.since, statement.revision, statement.left)
            self._sequences.settle()
        if not published.sequence:
            return self._ensure_initial(state, statement)
        if published.revision is None or published.revision != tip:
            return True
        numbers = published.revision, published.sequence, published.effective_since
        settled = statement is not None and (self._is_own or self._has_checked)
        if statement is not None and (statement.revision, statement.sequence, statement.since) == numbers:
            if settled and self._has_buckets(state, statement):
                self._has_checked = True
                return True
        elif statement is None and self._waits(state):
            return True
        if not self._sequences.known.covers(published):
            return False
        reviewed = self._builder.published_text(published)
        if reviewed is None or reviewed.errors:
            return True
        left = self._keeper.standing(published, self._sequences.known).left
        targets = reviewed.compilation.under(section().governance(reviewed.documents, left)).targets
        standing = StandingPublication(
            *numbers, published.stamp, targets, strategy_in_force(reviewed.documents), left
        )
        return self._renew(standing, state.signed if settled else None)

    def ensure_stopped(self, state: PublishedState, fetch: Callable[[], Revision]) -> None:
        """Sign the publication of a stopped fleet again if another key signed it; ``fetch`` returns the tip.

        Hosts stop the fleet when that key is removed from their lists; a resume is then enough.
        """
        if self._signer is None or not state.signed:
            return
        try:
            if self._statement(self._signer, state) is None or not self._is_own:
                self.ensure(state, fetch())
        except ZkdeploymentError as error:
            get_logger().warning("publication-not-signed-again", reason=str(error))

    def _ensure_initial(self, state: PublishedState, statement: Statement | None) -> bool:
        """Sign the revision ``initial`` before the first publication."""
        is_new = state.cluster == Cluster(INITIAL) and self._sequences.known.reserved <= _FIRST
        if is_new and statement != Statement(_FIRST, _FIRST, INITIAL):
            self._renew(StandingPublication(INITIAL, _FIRST, _FIRST, state.published.stamp), None)
        return True

    def _renew(self, standing: StandingPublication, kept: bytes | None) -> bool:
        lock = self._store.lock()
        if not lock.try_acquire():
            return True  # the syncer that holds the lock publishes; the next cycle checks again
        try:
            signed = self._store.renew_signature(standing, kept=kept)
        finally:
            lock.release()
        if not signed:
            return standing.revision == INITIAL
        self._has_checked = True
        get_logger().info("publication-signed-again", revision=standing.revision, sequence=standing.sequence)
        return True

    def _has_buckets(self, state: PublishedState, statement: Statement) -> bool:
        return state.buckets == len(statement.buckets) and self._store.has_buckets(statement.buckets)

    def _waits(self, state: PublishedState) -> bool:
        """Whether an unverifiable signature stays for now, because another syncer's key may have made it."""
        if self._publishers is not None or not state.signed:
            return False
        try:
            statement = Statement.from_text(SignedStatement.from_data(state.signed).text)
        except UntrustedError:
            return False
        published = state.published
        if (statement.revision, statement.sequence) != (published.revision, published.sequence):
            return False
        if not self._sequences.known.covers(published):
            if self._reported != state.signed:
                self._reported = state.signed
                get_logger().warning(
                    "publication-signed-by-unknown-key",
                    revision=published.revision,
                    advice="name the keys of all syncers as publishers in [zkdeployment]",
                )
            return True
        now = self._clock.now()
        if self._replaced is not None and abs(now - self._replaced) < _PAUSE:
            return True
        self._replaced = now
        return False

    def _statement(self, signer: PublicationSigner, state: PublishedState) -> Statement | None:
        """Return the statement in ZooKeeper if its signature is valid, by this key or a publisher's."""
        if not state.signed:
            return None
        verified = self._verified
        if verified is not None and verified[0] != state.signed:
            verified = None
        if verified is not None and self._is_own:
            return verified[1]
        try:
            signed = SignedStatement.from_data(state.signed)
            is_own = verified is None and (
                self._store.has_signed(state.signed, state.buckets) or signer.made(signed)
            )
            if not is_own:  # the list of publishers may have changed
                if self._publishers is None:
                    return None
                self._publishers.verify(signed)
            statement = Statement.from_text(signed.text)
        except (HostFilesError, UntrustedError):
            return None
        self._verified, self._is_own = (state.signed, statement), is_own
        return statement
