"""The section of a publication about governance: which services are deployed, withheld and left, and why.

A feature brings this section, with documents that govern services. Without such a feature, no service is governed:
the classes of this module implement that case, and the feature's classes derive from them. The syncer, ``lint``,
plans and acts know only these classes. ``LeftService`` is a service that left governance.
"""

# ruff: noqa: ARG002  the methods of an empty section ignore their arguments

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from zkdeployment.base.features import installed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.publication import LeftService, Published, Targets
    from zkdeployment.base.source_files import Problem, SourceFile
    from zkdeployment.config.sections import SyncSettings
    from zkdeployment.documents.collection import Documents, PublishedDocuments
    from zkdeployment.fleet.feed.feed import ZooKeeperFeed
    from zkdeployment.publishing.records import Publication
    from zkdeployment.publishing.rules.changes import Draft
    from zkdeployment.publishing.rules.review import Review
    from zkdeployment.publishing.signing.standing import SigningRecord
    from zkdeployment.publishing.sources.git.source import GitSource
    from zkdeployment.publishing.store.store import ZooKeeperPublications
    from zkdeployment.publishing.targets.compilation import Compilation
    from zkdeployment.publishing.targets.compiler import ServiceTarget
    from zkdeployment.tree.values import Tree
    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session
    from zkdeployment.zookeeper.transactions import Operation


@dataclass(frozen=True, slots=True)
class Governor:
    """The document that withholds a service: its subject, its state, and the participle of the act to come."""

    subject: tuple[str, ...]
    state: str
    act: str


class Governance:
    """Documents that govern services, and services that ``left`` their governance; this class has neither."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    @property
    def left(self) -> tuple[LeftService, ...]:
        """The services that left governance."""
        return ()

    @property
    def size(self) -> int:
        """The number of documents that govern services."""
        return 0

    def withheld(self, whole: Targets) -> frozenset[ServiceTarget]:
        """Return the services of the ``whole`` tree's targets that are not deployed."""
        return frozenset()

    def with_groups(self, targets: Targets) -> Targets:
        """Return the targets with the groups that failures stop instead of the fleet."""
        return targets

    def ungoverned_problems(self, paths: Collection[str], whole: Targets) -> Iterable[Problem]:
        """Return an error for each service at or below one of the paths that lacks governance for some target."""
        return ()

    def kept(self) -> GovernanceChange:
        """Return the change of a publication that keeps this governance."""
        return GovernanceChange(self)


NO_GOVERNANCE = Governance()


@dataclass(frozen=True, slots=True)
class FormerGovernance:
    """A published state: its governance, its tree, its targets, and the services withheld from these.

    ``tree`` is the tree of all files, from which contents are read; an interrupted publication may have changed
    the live tree.
    """

    governance: Governance
    tree: Tree
    targets: Targets
    withheld: frozenset[ServiceTarget] = frozenset()

    @property
    def services(self) -> Iterator[ServiceTarget]:
        """The path and the target of each service of the tree."""
        yield from self.withheld
        for target, assignments in self.targets.items():
            for assignment in assignments:
                yield assignment.path, target


@dataclass(frozen=True, slots=True)
class GovernanceChange:
    """The governance ``after`` a change."""

    after: Governance = NO_GOVERNANCE

    def problems(
        self, before: Governance, had: Targets, compilation: Compilation, reviewed: Review
    ) -> Iterable[Problem]:
        """Return the problems of services that leave governance, stay left, or come under it.

        The change leads from the governance ``before``, under which hosts had the targets ``had``, to the
        ``compilation`` of a reviewed tree.
        """
        return ()


@dataclass(frozen=True, slots=True)
class StandingGovernance:
    """The present governance: the documents of ``revision``, and the services that left governance."""

    revision: Revision | None = None
    left: tuple[LeftService, ...] = ()


def standing_list(published: Published, signed: SigningRecord | None) -> tuple[Revision | None, str | None]:
    """Return the revision of the publication that stands, and the digest of its left services if it is known."""
    if signed is not None and signed.sequence:
        return signed.revision, signed.left
    return published.revision or published.ordered, published.left


@dataclass(frozen=True, slots=True)
class SectionReads:
    """The reads of a section: the data of ``nodes``, the children of ``lists``, and all nodes ``below`` others."""

    nodes: Collection[str] = ()
    lists: Collection[str] = ()
    below: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Before:
    """ZooKeeper before a publication: the nodes and the names of children that the sections read, by path.

    ``None`` is a node that does not exist.
    """

    session: Session
    nodes: Mapping[str, Node | None]
    children: Mapping[str, Sequence[str]]

    def under(self, directory: str) -> dict[str, Node]:
        """Return the existing nodes below a directory that were read, by path."""
        return {path: node for path, node in self.nodes.items() if node and path.startswith(f"{directory}/")}


@dataclass(frozen=True, slots=True)
class After:
    """A publication under its final sequence.

    ``since`` is the sequence of the last publication that changed something for hosts.
    """

    publication: Publication
    sequence: int
    since: int


@dataclass(frozen=True, slots=True)
class SectionOperations:
    """Operations that write a section.

    The ``parts`` may be in earlier transactions than the ``closing`` ones, which count. If they are, the
    ``opening`` ones precede them.
    """

    parts: Sequence[Operation] = ()
    closing: Sequence[Operation] = ()
    opening: Sequence[Operation] = ()


class SectionWriter:
    """Writes one section of a publication; this class has nothing to write.

    ``needs`` are the reads for every publication.
    """

    needs: ClassVar[SectionReads] = SectionReads()

    def reads(self, publication: Publication) -> SectionReads:
        """Return the reads whose answers ``concerns_hosts`` and ``operations`` need."""
        return self.needs

    def concerns_hosts(self, before: Before, publication: Publication) -> bool:
        """Whether the section of the publication changes something for hosts."""
        return False

    def operations(self, before: Before, after: After) -> SectionOperations:
        """Return the operations that lead from the state before a publication to the section after it."""
        return SectionOperations()


NO_CHANGE = SectionWriter()


class SectionKeeper:
    """The part of a syncer that judges the section and remembers its decisions; this class accepts everything."""

    def standing(self, published: Published, signed: SigningRecord | None) -> StandingGovernance:
        """Return the state that governs until the next publication.

        ``signed`` is the signed publication that stands, with sequence 0 if it is not known; ``None`` if
        publications are not signed. Raises ``UntrustedError`` and ``TreeError`` if ZooKeeper does not hold the
        list of left services of the last publication.
        """
        return StandingGovernance(standing_list(published, signed)[0])

    def judge(self, draft: Draft, published: Published) -> SectionWriter:
        """Return the changes by a draft; raises ``RefusedError`` if it breaks the rules of the section."""
        return NO_CHANGE

    def complete_records(self, published: Published) -> None:
        """Add the facts to the last publication's records that are known only after hosts have deployed it."""

    def accept(self, change: SectionWriter, publication: Publication, published: Published) -> None:
        """Record durably the forms that a publication is about to accept; raises ``HostFilesError``.

        ``published`` is the publication that stands. Call ``settle`` when the coming one was written.
        """

    def settle(self) -> None:
        """Record that the publication of the last ``accept`` was written."""


class ApprovalVerifier:
    """Verifies the approvals of documents in the commits of a repository; this class accepts each approval.

    A ``snapshot`` is a document with the content that its approvals are for.
    """

    __slots__ = ()

    def objection(self, snapshot: Any, revision: Revision) -> str | None:
        """Return why an approval in a revision does not count; ``None`` if all count and are enough."""
        return None

    def missing(self, snapshot: Any) -> str | None:
        """Return a sentence with the approvals that the document lacks; ``None`` if it has enough."""
        return None

    def counted(self, snapshot: Any) -> tuple[Any, ...]:
        """Return the counts of approvals in a document; empty without rules."""
        return ()

    def expiry(self, snapshot: Any) -> str | None:
        """Return why the date of an approval permits no instance and no update; ``None`` if it permits them."""
        return None


#: Returns why an approval does not count in a commit, ``None`` if it counts. Without such a function (``None``),
#: approvals need no signature.
ApprovalObjection: TypeAlias = "Callable[[Any], str | None] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBasis:
    """The published state with which a change of files is judged.

    ``known`` are records of governing documents, whose approvals were accepted, by subject. ``left`` are the
    services that left governance, ``deployed`` the published targets. ``files`` reads the published files.
    """

    known: Mapping[Any, Any] = field(default_factory=dict)
    left: Sequence[LeftService] = ()
    deployed: Targets | None = None
    files: Callable[[], Sequence[SourceFile]] | None = None


NO_BASIS = ChangeBasis()


@dataclass(frozen=True, slots=True)
class ChangeFindings:
    """Why a change of files breaks the life cycle of governing documents, and the other problems of the change."""

    refusals: tuple[Problem, ...] = ()
    problems: tuple[Problem, ...] = ()


class PublicationSection:
    """The section of a publication that a feature brings; this one is empty."""

    def governance(
        self, documents: Documents | PublishedDocuments, left: Iterable[LeftService] = ()
    ) -> Governance:
        """Return the governance by documents, with the services that left earlier governance."""
        return NO_GOVERNANCE

    def change(
        self, former: FormerGovernance, documents: Documents, text: Tree, tree: Tree, revision: Revision
    ) -> GovernanceChange:
        """Return the governance after a change to ``tree`` that is published with ``documents`` as ``revision``.

        ``text`` is the tree of all files, from which contents are read; ``tree`` also has nodes that are in no
        file.
        """
        return GovernanceChange()

    def judge_files(
        self,
        before: Sequence[SourceFile],
        reviewed: Review,
        objection: ApprovalObjection,
        basis: ChangeBasis = NO_BASIS,
    ) -> ChangeFindings:
        """Return the objections to the change from the files ``before`` to a reviewed tree.

        ``objection`` is asked for approvals that were not accepted before.
        """
        return ChangeFindings()

    def expected_refusals(self, session: Session, reviewed: Review) -> Sequence[str]:
        """Return why the publication of a reviewed tree would be refused, as far as records in ZooKeeper tell."""
        return ()

    def governors(
        self, services: Iterable[ServiceTarget], records: Iterable[Any]
    ) -> Mapping[ServiceTarget, Governor]:
        """Return the documents that withhold services, by the published records; ``summaries`` returns these."""
        return {}

    def summaries(self, feed: ZooKeeperFeed) -> Iterable[Any]:
        """Return the published records in the last reading of the fleet; never waits."""
        return ()

    def records(self, session: Session) -> Iterable[Any]:
        """Read the published records."""
        return ()

    def read(self, session: Session, left: Iterable[LeftService]) -> Governance:
        """Read the governance of the last complete publication; raises ``TreeError`` if a record is damaged."""
        return NO_GOVERNANCE

    def keeper(
        self, store: ZooKeeperPublications, memory: Path | None = None, approvals: ApprovalVerifier | None = None
    ) -> SectionKeeper:
        """Return the keeper of a syncer that publishes to ``store``.

        The file ``memory`` contains the accepted forms; without the file, the keeper remembers these only in its
        process. With ``approvals``, a verifier, only approvals without an objection count.
        """
        return SectionKeeper()

    def mirror_approvals(self, sync: SyncSettings, source: GitSource) -> ApprovalVerifier | None:
        """Return the verifier of approvals in the mirror of a repository; ``None`` if they need no signature."""
        return None

    def local_approvals(
        self, approvers: Path | None, allowed_signers: Path | None, rules: Path | None
    ) -> ApprovalVerifier | None:
        """Return the verifier of approvals in the repository around this directory, also for pushed commits.

        ``None`` if approvals need no signature, as without ``approvers``.
        """
        return None


_EMPTY = PublicationSection()


def section() -> PublicationSection:
    """Return the section of the first feature that brings one; without such a feature, the empty section."""
    return next((found for feature in installed() if (found := feature.publication_section()) is not None), _EMPTY)
