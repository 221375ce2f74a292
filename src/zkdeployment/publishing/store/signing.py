"""Signs publications: the operations that write the statement and the changed buckets."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.signing.standing import (
    SignedTargets,
    StandingPublication,
    coming_publication,
    implausible,
)
from zkdeployment.publishing.signing.statement import (
    BUCKETS,
    SignedStatement,
    Statement,
    digest_of,
    left_digest,
    strategy_digest,
)
from zkdeployment.publishing.store.assignments import encode_targets, writing
from zkdeployment.publishing.store.documents import (
    After,
    Before,
    SectionOperations,
    SectionReads,
    SectionWriter,
)
from zkdeployment.publishing.targets.services import node_of_target
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.shared_nodes import FollowedNodes
from zkdeployment.zookeeper.transactions import Create, Delete, Operation, Set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from zkdeployment.base.publication import Targets
    from zkdeployment.publishing.ports import PublicationSigner
    from zkdeployment.publishing.records import Publication
    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session


class FollowedBuckets:
    """The buckets through one session; watches report which of them have to be read again."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._nodes = FollowedNodes(session, lambda: None)
        self._compared: Mapping[str, str] = {}
        self._equal = False

    def have(self, digests: Mapping[str, str]) -> bool:
        """Return whether the buckets with these names have these digests; raises ``UnreachableError``.

        The buckets are at least as new as the last read of this session.
        """
        self._session.settle_watches()
        wanted = {name: Read(paths.bucket_path(name)) for name in digests}
        changed = self._nodes.refresh(wanted.values)
        if changed or digests != self._compared:
            self._equal = all(self._has(read, digests[name]) for name, read in wanted.items())
            self._compared = digests
        return self._equal

    def _has(self, read: Read, digest: str) -> bool:
        node = self._nodes.node(read.path)
        return node is not None and digest_of(node.data) == digest


class SignatureWriter(SectionWriter):
    """The signature of publications; without a key, that of an earlier publication is removed.

    ``encoded`` are the data of the nodes of those of the last targets that had changed, by path.
    """

    encoded: Mapping[str, bytes] = MappingProxyType({})

    needs = SectionReads([paths.SIGNED])

    def operations(self, before: Before, after: After) -> SectionOperations:  # noqa: ARG002
        """Return the operation that empties the statement of an earlier publication."""
        node = before.nodes[paths.SIGNED]
        return SectionOperations(closing=[] if node is None else [*writing(paths.SIGNED, b"", node)])


@dataclass(frozen=True, slots=True)
class StartedSignature:
    """A statement that is being signed; ``wait`` returns the signature."""

    statement: Statement
    digests: SignedTargets
    wait: Callable[[], str]


class PublicationSigning(SignatureWriter):
    """Signs publications with ``signer``.

    The object keeps the digests of the last targets, so that only changed ones are computed, and the data of the
    statement that it wrote last. Neither is ever taken from ZooKeeper.
    """

    def __init__(self, signer: PublicationSigner) -> None:
        self._signer = signer
        self._targets: Targets = {}
        self._digests = SignedTargets()
        self._written: tuple[bytes, SignedTargets] | None = None
        self._started: StartedSignature | None = None

    def has_written(self, data: bytes | None, buckets: int) -> bool:
        """Whether these are the data of the statement that was written last, and the number of its buckets."""
        return self._written is not None and (self._written[0], len(self._written[1].digests)) == (data, buckets)

    def start(self, publication: StandingPublication) -> StartedSignature:
        """Begin to sign a publication, unless the last call did."""
        digests = self._digests_of(publication.targets)
        statement = Statement(
            publication.sequence,
            publication.since,
            publication.revision,
            strategy_digest(publication.strategy),
            digests.digests,
            left_digest(publication.left),
        )
        if self._started is None or self._started.statement != statement:
            self._started = StartedSignature(statement, digests, self._signer.start(statement.to_text()))
        return self._started

    def reads(self, publication: Publication) -> SectionReads:
        """Begin to sign the publication; return the statement and the buckets that will change."""
        started = self.start(coming_publication(publication))
        return SectionReads([paths.SIGNED, *map(paths.bucket_path, self._changed(started))])

    def operations(self, before: Before, after: After) -> SectionOperations:
        """Return the operations that write the signed publication."""
        publication = after.publication
        if (
            after.sequence != publication.sequence
        ):  # it was recorded before as signed, and ZooKeeper cannot raise it
            raise implausible(after.sequence - 1, publication.sequence)
        started = self._restarted(self.start(coming_publication(publication)), after)
        known = None
        if publication.touched is not None:
            known = {name: before.nodes[paths.bucket_path(name)] for name in self._changed(started)}
        return self.renewal(before.session, started, before.nodes[paths.SIGNED], known)

    def _changed(self, started: StartedSignature) -> Sequence[str]:
        """Return the names of the buckets that differ from those that were written last; all if none were."""
        if self._written is None:
            return BUCKETS
        before, after = self._written[1].digests, started.digests.digests
        return [name for name in BUCKETS if before.get(name) != after.get(name)]

    def _restarted(self, started: StartedSignature, after: After) -> StartedSignature:
        """Return a signature for the final sequences: what was started, if it is for them."""
        statement = replace(started.statement, sequence=after.sequence, since=after.since)
        if statement == started.statement:
            return started
        return replace(started, statement=statement, wait=self._signer.start(statement.to_text()))

    def renewal(
        self,
        session: Session,
        started: StartedSignature,
        node: Node | None,
        known: Mapping[str, Node | None] | None = None,
        *,
        kept: bytes | None = None,
    ) -> SectionOperations:
        """Return the operations that write a signed publication.

        ``node`` is the present statement's, ``known`` are the nodes of the buckets that changed, by name. All
        buckets are compared if the present statement is not the one that was written last, or has another number
        of buckets. ``kept`` are the data of a statement by another key that is valid and stays.
        """
        nodes = known
        if nodes is None or node is None or not self.has_written(node.data, node.children):
            read = session.get_many(map(paths.bucket_path, BUCKETS)) if node is not None else ()
            nodes = dict(zip(BUCKETS, read, strict=True)) if read else dict.fromkeys(BUCKETS)
        buckets: list[Operation] = [] if node is not None else [Create(paths.SIGNED)]
        for name, present in nodes.items():
            buckets += _bucket_operations(name, present, started.digests.data.get(name))
        text = started.statement.to_text()
        data = SignedStatement(text, self._signature(started)).to_data()
        if (
            kept is not None
            and node is not None
            and node.data == kept
            and SignedStatement.from_data(kept).text == text
        ):
            data = kept
        self._written = data, started.digests
        if node is not None and node.data == data:
            return SectionOperations(buckets)
        return SectionOperations(buckets, [Set(paths.SIGNED, data, 0 if node is None else node.version)])

    def _signature(self, started: StartedSignature) -> str:
        try:
            return started.wait()
        except ZkdeploymentError:
            self._started = None  # the next call begins another signature
            raise

    def _digests_of(self, targets: Targets) -> SignedTargets:
        """Return the digests of targets; those that are the same values as in the last call are kept."""
        last = self._targets
        if targets is last:
            return self._digests
        changed = [name for name, assignments in targets.items() if last.get(name) is not assignments]
        changed += last.keys() - targets.keys()
        self.encoded = encoded = encode_targets(targets, changed)
        named = {_name(path): data for path, data in encoded.items()}
        gone = set(map(node_of_target, changed)) - named.keys()
        self._digests = self._digests.after(named, gone)
        self._targets = targets
        return self._digests


def _bucket_operations(name: str, node: Node | None, data: bytes | None) -> Iterator[Operation]:
    path = paths.bucket_path(name)
    if node is None:
        if data is not None:
            yield Create(path, data)
    elif data is None:
        yield Delete(path, node.version)
    elif node.data != data:
        yield Set(path, data, node.version)


def _name(path: str) -> str:
    return unquote(path.rpartition("/")[2])
