"""Overviews: each intent as published and at the tip of the branch, and its content beside the approved one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zkdeployment.base.errors import NotFoundError, RefusedError
from zkdeployment.base.values import dataclass
from zkdeployment.intents.documents import (
    Approval,
    ClusterIntents,
    DeploymentIntentGroup,
    Intent,
    IntentState,
    IntentSubject,
    subject_text,
)
from zkdeployment.intents.rules.approvals import ApprovalCount, ApprovalRule, counted_approvals
from zkdeployment.intents.rules.content import IntentContent, changed_keys
from zkdeployment.intents.rules.instances import EMPTY_CONTENT, IntentInstance, IntentRecord, IntentSnapshot
from zkdeployment.tree.diff import describe_change, diff
from zkdeployment.tree.values import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class ListedIntent:
    """One intent: its record in the last publication, and its state at the tip of the branch.

    ``record`` is ``None`` for an intent that was never published, ``tip`` for an intent that is not at the tip, or
    if the tip was not read. At least one of them exists. ``rules`` are the rules of approvals; ``None`` if they
    are not known.
    """

    record: IntentRecord | None
    tip: IntentSnapshot | None
    rules: Sequence[ApprovalRule] | None = None

    @property
    def snapshot(self) -> IntentSnapshot:
        """The intent at the tip, else the published one; with an objection if its approval does not count."""
        if self.tip is not None:
            return replace(self.tip, objection=self._objection(self.tip))
        if self.record is None:
            raise ValueError("expected an intent that was published or is at the tip")
        return self.record.snapshot

    def _objection(self, tip: IntentSnapshot) -> str | None:
        """Return why the approval at the tip does not count, by the last publication, else by the rules."""
        if not tip.is_approved:
            return tip.objection
        published = None if self.record is None else self.record.snapshot
        is_same = published is not None and published.content.digest == tip.content.digest
        if published is not None and is_same and published.intent.approval == tip.intent.approval:
            return published.objection
        missing = [str(count) for count in counted_approvals(tip, self.rules) if count.missing]
        return "; ".join(missing) or None

    @property
    def intent(self) -> Intent:
        """The intent as its document describes it."""
        return self.snapshot.intent

    @property
    def approval(self) -> Approval | None:
        """The last approval, of any content."""
        return self.intent.approval

    @property
    def approvals(self) -> tuple[ApprovalCount, ...]:
        """The approvals that the present content has for each rule; empty without rules."""
        return counted_approvals(self.snapshot, self.rules)

    @property
    def approved_content(self) -> IntentContent | None:
        """The last content whose approval counts; ``None`` without one, or if that content was never published."""
        return None if self.record is None else self.record.approved_before(self.snapshot)

    @property
    def published_state(self) -> IntentState | None:
        """The state in the last publication."""
        return None if self.record is None else self.record.state

    @property
    def tip_state(self) -> IntentState | None:
        """The state at the tip of the branch."""
        return None if self.tip is None else self.snapshot.state

    @property
    def instance(self) -> IntentInstance | None:
        """The newest instance."""
        return None if self.record is None else self.record.instance()

    def to_json(self) -> dict[str, Any]:
        """Return the intent as ``-o json`` prints it."""
        published, tip, approval = self.published_state, self.tip_state, self.approval
        return {
            "subject": subject_text(self.intent.subject),
            "state": None if published is None else published.value,
            "tip_state": None if tip is None else tip.value,
            "content": self.snapshot.content.digest,
            "is_approved": self.snapshot.is_approved,
            "approval": None if approval is None else approval.to_json(),
            "approvals": [count.to_json() for count in self.approvals],
            "instance": None if self.instance is None else self.instance.id,
            "document": self.intent.to_document(),
        }


def listed_intents(
    records: Iterable[IntentRecord],
    tip: Mapping[IntentSubject, IntentSnapshot],
    rules: Sequence[ApprovalRule] | None = None,
) -> tuple[ListedIntent, ...]:
    """Return all intents that are published or at the tip, sorted: groups by project, then clusters."""
    published = {record.intent.subject: record for record in records}
    subjects = sorted({*published, *tip}, key=lambda subject: (-len(subject), subject))
    return tuple(ListedIntent(published.get(subject), tip.get(subject), rules) for subject in subjects)


def find_listed_intent(intents: Iterable[ListedIntent], subject: IntentSubject) -> ListedIntent:
    """Return the intent of a subject; raises ``NotFoundError`` if it does not exist."""
    for listed in intents:
        if listed.intent.subject == subject:
            return listed
    raise NotFoundError(
        f"there is no intent {subject_text(subject)}: expected one of those that 'zkdeployment intent list' shows"
    )


def content_difference(old: IntentContent, new: IntentContent) -> Iterator[str]:
    """Yield one line for each changed key of the document, then for each change of the nodes.

    The nodes have the values that their links lead to.
    """
    for key in changed_keys(old, new):
        was, becomes = (json.dumps(content.description.get(key)) for content in (old, new))
        yield f"change {key} from {was} to {becomes}"
    before = Tree(old.nodes)
    yield from describe_change(diff(before, Tree(new.nodes)), before)


def difference_to_json(old: IntentContent, new: IntentContent) -> dict[str, Any]:
    """Return the changed keys of the document with both values, and the created, updated and deleted nodes."""
    change = diff(Tree(old.nodes), Tree(new.nodes))
    return {
        "document": {
            key: {"before": old.description.get(key), "after": new.description.get(key)}
            for key in changed_keys(old, new)
        },
        "create": change.create,
        "update": change.update,
        "delete": sorted(change.delete),
    }


@dataclass(frozen=True, slots=True)
class ContentComparison:
    """A content, and the content ``approved`` last, with which people compare it.

    ``remark`` is the reason why the whole content counts as new, because ``approved`` is ``None``; else empty.
    """

    subject: IntentSubject
    content: IntentContent
    approved: IntentContent | None
    is_approved: bool
    remark: str = ""

    @property
    def before(self) -> IntentContent:
        """The content before the changes; empty if the whole content counts as new."""
        return self.approved or EMPTY_CONTENT

    def lines(self) -> Iterator[str]:
        """Yield one line for each difference."""
        yield from content_difference(self.before, self.content)

    def content_lines(self) -> Iterator[str]:
        """Yield the whole content, one line for each key of the document, each node and each property."""
        yield from content_difference(EMPTY_CONTENT, self.content)

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as ``intent diff -o json`` and the API print it."""
        return {
            "subject": subject_text(self.subject),
            "approved": None if self.approved is None else self.approved.digest,
            "content": self.content.digest,
            "is_approved": self.is_approved,
            **difference_to_json(self.before, self.content),
        }


def compare_content(listed: ListedIntent) -> ContentComparison:
    """Compare the content of a group with the last approved one; raises ``RefusedError`` for a cluster.

    Without a published approval that counts, the whole content counts as new.
    """
    intent, snapshot = listed.intent, listed.snapshot
    if isinstance(intent, ClusterIntents):
        raise RefusedError(
            f"{subject_text(intent.subject)} is a cluster: clusters are applied without an approval; expected a"
            " group, PROJECT/APP/VERSION/NAME"
        )
    approved, remark = listed.approved_content, ""
    if snapshot.is_approved:
        approved = snapshot.content
    elif listed.approval is None:
        remark = f"{subject_text(intent.subject)} was never approved: the whole content is new"
    elif approved is None:
        remark = "no content whose approval counts was published, so that the whole content is shown"
    return ContentComparison(intent.subject, snapshot.content, approved, snapshot.is_approved, remark)


def compare_before_approval(record: IntentRecord | None, snapshot: IntentSnapshot) -> ContentComparison:
    """Compare a content that awaits approval with the content of the published approval that counts.

    The document of the snapshot may already have the new approval.
    """
    intent, published = snapshot.intent, None if record is None else record.intent.approval
    if isinstance(intent, DeploymentIntentGroup):
        snapshot = replace(snapshot, intent=replace(intent, approval=published))
    return compare_content(ListedIntent(record, snapshot))
