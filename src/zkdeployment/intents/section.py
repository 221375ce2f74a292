"""The section of a publication about intents: it governs services by the documents of groups and clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.intents.documents import ClusterIntents
from zkdeployment.intents.rules.governance import (
    IntentGovernance,
    IntentGovernanceChange,
    change_governance,
    governing_intents,
    read_intents,
)
from zkdeployment.publishing.governance import Governance, Governor
from zkdeployment.publishing.section import (
    NO_BASIS,
    ApprovalObjection,
    ChangeBasis,
    ChangeFindings,
    FormerGovernance,
    GovernanceChange,
    PublicationSection,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.publication import LeftService
    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.documents.collection import Documents, PublishedDocuments
    from zkdeployment.intents.rules.instances import IntentRecord
    from zkdeployment.intents.verification import GitApprovals
    from zkdeployment.publishing.rules.review import Review
    from zkdeployment.publishing.settings import SyncSettings
    from zkdeployment.publishing.sources.git.source import GitSource
    from zkdeployment.publishing.targets.compiler import ServiceTarget
    from zkdeployment.tree.values import Tree
    from zkdeployment.zookeeper.session import Session


class GovernanceByIntents(PublicationSection):
    """Imports modules for git and ZooKeeper at their use, because ``lint`` and plans need only the rules."""

    def governance(
        self, documents: Documents | PublishedDocuments, left: Iterable[LeftService] = ()
    ) -> Governance:
        """Return the governance by the intents of documents."""
        return IntentGovernance(read_intents(documents), tuple(left))

    def change(
        self, former: FormerGovernance, documents: Documents, text: Tree, tree: Tree, revision: Revision
    ) -> GovernanceChange:
        """Return the governance after a change to ``tree``, as ``change_governance`` does."""
        return change_governance(former, documents, text, tree, revision)

    def judge_files(
        self,
        before: Sequence[SourceFile],
        reviewed: Review,
        objection: ApprovalObjection,
        basis: ChangeBasis = NO_BASIS,
    ) -> ChangeFindings:
        """Return the objections to a change of files."""
        from zkdeployment.intents.rules.revisions import judge_files  # noqa: PLC0415

        return judge_files(before, reviewed, objection, basis)

    def expected_refusals(self, session: Session, reviewed: Review) -> Sequence[str]:
        """Return why the life cycle refuses a reviewed tree, by the records of the published intents."""
        from zkdeployment.intents.rules.revisions import expected_refusals, intent_snapshots  # noqa: PLC0415
        from zkdeployment.intents.store import read_records  # noqa: PLC0415

        snapshots = intent_snapshots(reviewed.documents, reviewed.linted.tree)
        return [str(refusal) for refusal in expected_refusals(read_records(session), snapshots)]

    def governors(
        self, services: Iterable[ServiceTarget], records: Iterable[IntentRecord]
    ) -> Mapping[ServiceTarget, Governor]:
        """Return the intents that withhold services."""
        inactive = {record.intent.subject: record for record in records if not record.state.is_active}
        governing = governing_intents([record.intent for record in inactive.values()], services)
        return {
            service: Governor(
                intent.subject,
                inactive[intent.subject].state.value,
                "applied" if isinstance(intent, ClusterIntents) else "instantiated",
            )
            for service, intent in governing.items()
        }

    def records(self, session: Session) -> Iterable[IntentRecord]:
        """Read the records of all intents."""
        from zkdeployment.intents.store import read_records  # noqa: PLC0415

        return read_records(session)

    def read(self, session: Session, left: Iterable[LeftService]) -> Governance:
        """Read the intents of the last complete publication."""
        from zkdeployment.intents.store import read_governance  # noqa: PLC0415

        return read_governance(session, left)

    def kept(self, governance: Governance) -> IntentGovernanceChange:
        """Return the change of a publication that keeps a governance."""
        return IntentGovernanceChange(governance)

    def mirror_approvals(self, sync: SyncSettings, source: GitSource) -> GitApprovals | None:
        """Return the verifier of approvals in a mirror."""
        from zkdeployment.intents.verification import mirror_approvals  # noqa: PLC0415

        return mirror_approvals(sync, source)

    def local_approvals(
        self, approvers: Path | None, allowed_signers: Path | None, rules: Path | None
    ) -> GitApprovals | None:
        """Return the verifier of approvals in the repository around this directory."""
        from zkdeployment.intents.verification import local_approvals  # noqa: PLC0415

        return None if approvers is None else local_approvals(approvers, allowed_signers, rules)


SECTION = GovernanceByIntents()
