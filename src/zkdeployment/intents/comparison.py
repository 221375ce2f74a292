"""The content of a group beside the content that was approved last: what an approval would cover."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zkdeployment.documents.intents.values import ClusterIntents, DeploymentIntentGroup, subject_text
from zkdeployment.errors import RefusedError
from zkdeployment.intents.difference import content_difference, difference_to_json
from zkdeployment.intents.instances import EMPTY_CONTENT
from zkdeployment.intents.overview import IntentOverview

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.documents.intents.values import Approval, IntentSubject
    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.intents.life_cycle import IntentSnapshot
    from zkdeployment.planning.targets.content import IntentContent


@dataclass(frozen=True, slots=True)
class ContentComparison:
    """A content, and the one ``before`` with which people compare it.

    ``approval`` is the last approval. ``remark`` is why the whole content counts as new, or empty.
    """

    subject: IntentSubject
    content: IntentContent
    before: IntentContent
    approval: Approval | None
    is_approved: bool
    remark: str = ""

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
            "approved": None if self.approval is None else self.approval.content,
            "content": self.content.digest,
            "is_approved": self.is_approved,
            **difference_to_json(self.before, self.content),
        }


def compare_content(overview: IntentOverview) -> ContentComparison:
    """Compare the content of a group with the one that was approved last; raises ``RefusedError`` for a cluster.

    A content without a published approval is compared with nothing.
    """
    intent, content = overview.intent, overview.snapshot.content
    if isinstance(intent, ClusterIntents):
        raise RefusedError(
            f"{subject_text(intent.subject)} is a cluster: clusters are applied without an approval; expected a"
            " group, PROJECT/APP/VERSION/NAME"
        )
    approved, remark = overview.approved_content, ""
    if overview.snapshot.is_approved:
        approved = content
    elif overview.approval is None:
        remark = f"{subject_text(intent.subject)} was never approved: the whole content is new"
    elif approved is None:
        remark = "the approved content was never published, so that the whole content is shown"
    return ContentComparison(
        intent.subject,
        content,
        approved or EMPTY_CONTENT,
        overview.approval,
        overview.snapshot.is_approved,
        remark,
    )


def compare_before_approval(record: IntentRecord | None, snapshot: IntentSnapshot) -> ContentComparison:
    """Compare a content that is to be approved with the one that the published approval covers.

    The document of the snapshot may have the new approval already.
    """
    intent, published = snapshot.intent, None if record is None else record.intent.approval
    if isinstance(intent, DeploymentIntentGroup):
        snapshot = replace(snapshot, intent=replace(intent, approval=published))
    return compare_content(IntentOverview(record, snapshot))
