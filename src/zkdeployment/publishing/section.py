"""The section of a publication about governance, which a feature brings with documents that govern services.

Without such a feature, no service is governed: the classes of this module implement that case, and the feature's
classes derive from them. The syncer, ``lint``, plans and acts know only these classes.
"""

# ruff: noqa: ARG002  the methods of an empty section ignore their arguments

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from zkdeployment.base.features import installed
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.governance import NO_GOVERNANCE, Governance, Governor
from zkdeployment.publishing.places import PublishingPlaces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.publication import LeftService, Targets
    from zkdeployment.base.source_files import Problem, SourceFile
    from zkdeployment.documents.collection import Documents, PublishedDocuments
    from zkdeployment.publishing.rules.review import Review
    from zkdeployment.publishing.settings import SyncSettings
    from zkdeployment.publishing.sources.git.source import GitSource
    from zkdeployment.publishing.targets.compilation import Compilation
    from zkdeployment.publishing.targets.compiler import ServiceTarget
    from zkdeployment.tree.values import Tree
    from zkdeployment.zookeeper.session import Session


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
            for assignment in assignments if not target.startswith("/") else ():
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

    def rules_in_force(self) -> Sequence[Any] | None:
        """Return the rules of approvals; ``None`` without rules."""
        return None

    def expiry(self, snapshot: Any) -> str | None:
        """Return why the date of an approval permits no instance and no update; ``None`` if it permits them."""
        return None


@dataclass(frozen=True, slots=True)
class CommitObjection:
    """The objections of a verifier to approvals in one commit."""

    verifier: ApprovalVerifier
    commit: Revision

    def __call__(self, snapshot: Any) -> str | None:
        """Return why an approval does not count; ``None`` if it counts."""
        return self.verifier.objection(snapshot, self.commit)

    def expiry(self, snapshot: Any) -> str | None:
        """Return why the date of an approval permits no instance and no update; ``None`` if it permits them."""
        return self.verifier.expiry(snapshot)


#: The objections to approvals in a commit. Without them (``None``), approvals need no signature.
ApprovalObjection: TypeAlias = "CommitObjection | None"


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

    def kept(self, governance: Governance) -> GovernanceChange:
        """Return the change of a publication that keeps a governance."""
        return GovernanceChange(governance)

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
        """Return the documents that withhold services, by the published records."""
        return {}

    def records(self, session: Session) -> Iterable[Any]:
        """Read the published records."""
        return ()

    def read(self, session: Session, left: Iterable[LeftService]) -> Governance:
        """Read the governance of the last complete publication; raises ``TreeError`` if a record is damaged."""
        return NO_GOVERNANCE

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
    sections = (places.section() for places in installed(PublishingPlaces))
    return next((found for found in sections if found is not None), _EMPTY)
