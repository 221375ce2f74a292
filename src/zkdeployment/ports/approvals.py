"""The port that verifies approvals of intents, and the function that signs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.documents.intents.values import Approval, IntentSubject
    from zkdeployment.intents.approval_rules import ApprovalCount
    from zkdeployment.intents.approvals import ReleaseSnapshot
    from zkdeployment.intents.life_cycle import IntentSnapshot
    from zkdeployment.model.cluster import Revision


#: Signs the approval of a subject, and names the owner of the key in it. An approval without a signature has the
#: last instance, and gets the next one.
ApprovalSigner: TypeAlias = "Callable[[IntentSubject, Approval], Approval]"


class ApprovalVerifier(Protocol):
    """The signatures of approvals, and of the commits that brought what they approve."""

    def objection(self, snapshot: IntentSnapshot | ReleaseSnapshot, revision: Revision) -> str | None:
        """Return why the approval of an intent or a release in a revision does not count; ``None`` if it counts.

        Raises ``ConfigurationError`` if the file of approvers cannot be read, ``SourceError`` if the repository
        cannot.
        """

    def missing(self, snapshot: IntentSnapshot | ReleaseSnapshot) -> str | None:
        """Return whose approvals are missing besides those that the document names; ``None`` if none are."""

    def counted(self, snapshot: IntentSnapshot) -> tuple[ApprovalCount, ...]:
        """Return how many approvals the content of an intent has by its document; empty without rules.

        Raises ``ConfigurationError`` if the file of the rules cannot be read.
        """

    def expiry(self, snapshot: IntentSnapshot) -> str | None:
        """Return why an approval begins nothing any more, because of its age; ``None`` if it does."""
