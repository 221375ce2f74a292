"""Overviews: each intent in the last publication and at the tip of the branch, as lists show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zkdeployment.documents.intents.kinds import approval_value, intent_document
from zkdeployment.documents.intents.values import IntentState, subject_text
from zkdeployment.errors import NotFoundError
from zkdeployment.intents.approvals import counted_approvals

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zkdeployment.documents.intents.values import Approval, Intent, IntentSubject
    from zkdeployment.intents.approval_rules import ApprovalCount, ApprovalRule
    from zkdeployment.intents.instances import IntentInstance, IntentRecord
    from zkdeployment.intents.life_cycle import IntentSnapshot
    from zkdeployment.planning.targets.content import IntentContent


@dataclass(frozen=True, slots=True)
class IntentOverview:
    """One intent: what the last publication recorded, and what the tip of the branch has.

    ``record`` is ``None`` for an intent that was never published, ``tip`` for one that is not at the tip, or if
    the tip was not read. One of them is there. ``rules`` are those of approvals; ``None`` if they are not known.
    """

    record: IntentRecord | None
    tip: IntentSnapshot | None
    rules: Sequence[ApprovalRule] | None = None

    @property
    def snapshot(self) -> IntentSnapshot:
        """The intent at the tip, else the published one."""
        if self.tip is not None:
            return self.tip
        if self.record is None:
            raise ValueError("expected an intent that was published or is at the tip")
        return self.record.snapshot

    @property
    def intent(self) -> Intent:
        """The intent as its document describes it."""
        return self.snapshot.intent

    @property
    def approval(self) -> Approval | None:
        """The last approval, of whatever content."""
        return self.intent.approval

    @property
    def approvals(self) -> tuple[ApprovalCount, ...]:
        """How many approvals the present content has for each rule; empty without rules."""
        return counted_approvals(self.snapshot, self.rules)

    @property
    def approved_content(self) -> IntentContent | None:
        """The content that was approved last; ``None`` without an approval, or if it was never published."""
        approved = None if self.record is None else self.record.approved
        is_last = approved is not None and self.approval is not None and approved.digest == self.approval.content
        return approved if is_last else None

    @property
    def published_state(self) -> IntentState | None:
        """The state in the last publication."""
        return None if self.record is None else self.record.state

    @property
    def tip_state(self) -> IntentState | None:
        """The state at the tip of the branch."""
        return None if self.tip is None else self.tip.state

    @property
    def instance(self) -> IntentInstance | None:
        """The newest instance."""
        return self.record.instances[-1] if self.record is not None and self.record.instances else None

    def to_json(self) -> dict[str, Any]:
        """Return the intent as ``-o json`` prints it."""
        published, tip, approval = self.published_state, self.tip_state, self.approval
        return {
            "subject": subject_text(self.intent.subject),
            "state": None if published is None else published.value,
            "tip_state": None if tip is None else tip.value,
            "content": self.snapshot.content.digest,
            "is_approved": self.snapshot.is_approved,
            "approval": None if approval is None else approval_value(approval),
            "approvals": [count.to_json() for count in self.approvals],
            "instance": None if self.instance is None else self.instance.id,
            "document": intent_document(self.intent),
        }


def intent_overviews(
    records: Iterable[IntentRecord],
    tip: Mapping[IntentSubject, IntentSnapshot],
    rules: Sequence[ApprovalRule] | None = None,
) -> tuple[IntentOverview, ...]:
    """Return all intents that were published or are at the tip, sorted: groups by project, then clusters."""
    published = {record.intent.subject: record for record in records}
    subjects = sorted({*published, *tip}, key=lambda subject: (-len(subject), subject))
    return tuple(IntentOverview(published.get(subject), tip.get(subject), rules) for subject in subjects)


def find_overview(overviews: Iterable[IntentOverview], subject: IntentSubject) -> IntentOverview:
    """Return the intent of a subject; raises ``NotFoundError`` if it does not exist."""
    for overview in overviews:
        if overview.intent.subject == subject:
            return overview
    raise NotFoundError(
        f"there is no intent {subject_text(subject)}: expected one of those that 'zkdeployment intent list' shows"
    )
