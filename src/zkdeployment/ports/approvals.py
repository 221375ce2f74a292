"""The port that verifies approvals of intents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zkdeployment.intents.approvals import ReleaseSnapshot
    from zkdeployment.intents.life_cycle import IntentSnapshot
    from zkdeployment.model.cluster import Revision


class ApprovalVerifier(Protocol):
    """The signatures of approvals, and of the commits that brought what they approve."""

    def objection(self, snapshot: IntentSnapshot | ReleaseSnapshot, revision: Revision) -> str | None:
        """Return why the approval of an intent or a release in a revision does not count; ``None`` if it counts.

        Raises ``ConfigurationError`` if the file of approvers cannot be read, ``SourceError`` if the repository
        cannot.
        """
