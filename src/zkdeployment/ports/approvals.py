"""The port that verifies approvals of intents, and the function that signs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.documents.intents.values import Approval, IntentSubject
    from zkdeployment.intents.approvals import ReleaseSnapshot
    from zkdeployment.intents.life_cycle import IntentSnapshot
    from zkdeployment.model.cluster import Revision


#: Signs the approval of a subject, whose instance is the last one. The signed approval names the owner of the key
#: and the next instance.
ApprovalSigner: TypeAlias = "Callable[[IntentSubject, Approval], Approval]"


class ApprovalVerifier(Protocol):
    """The signatures of approvals, and of the commits that brought what they approve."""

    def objection(self, snapshot: IntentSnapshot | ReleaseSnapshot, revision: Revision) -> str | None:
        """Return why the approval of an intent or a release in a revision does not count; ``None`` if it counts.

        Raises ``ConfigurationError`` if the file of approvers cannot be read, ``SourceError`` if the repository
        cannot.
        """
