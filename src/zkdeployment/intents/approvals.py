"""Approvals that need a signature: what is signed, and which signatures count.

A signature covers the subject and the digest of the content. It counts if one of the approvers made it who is not
the signer of the content: two people look at what is deployed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.documents.intents.values import subject_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.intents.life_cycle import IntentSnapshot

#: The namespace of signatures of approvals, as ``ssh-keygen -Y sign -n`` takes it.
APPROVAL_NAMESPACE = "zkdeployment-approval"


@dataclass(frozen=True, slots=True)
class KeyOwner:
    """The owner of a key that signed: the name in the file of allowed keys, and the fingerprint of the key."""

    name: str
    fingerprint: str

    def is_same(self, other: KeyOwner) -> bool:
        """Whether both are one person: the same name or the same key."""
        return self.name == other.name or self.fingerprint == other.fingerprint


def approval_statement(subject: IntentSubject, content: str) -> str:
    """Return the text that an approver signs; ``content`` is the digest of the approved content."""
    return f"zkdeployment approval v1\n{subject_text(subject)}\n{content}\n"


def own_content_objection(approver: KeyOwner, signer: KeyOwner | None) -> str | None:
    """Return why an approval does not count whose approver also signed the content; ``None`` if it counts."""
    if signer is None or not approver.is_same(signer):
        return None
    return f"{approver.name} signed the approval and also the commit that brought the content; another person must"


def uncounted_approval(subject: IntentSubject, objection: str) -> str:
    """Return why a group is not approved whose approval does not count, and what to do."""
    return f"its approval does not count: {objection}; {signature_hint(subject)}"


def signature_hint(subject: IntentSubject) -> str:
    """Return how a group is approved where approvals need a signature."""
    command = f"zkdeployment intent approve {subject_text(subject)} --key FILE"
    return f"this fleet needs signed approvals; use '{command}' at a terminal"


def with_objections(
    snapshots: Mapping[IntentSubject, IntentSnapshot],
    known: Mapping[IntentSubject, IntentRecord],
    objection: Callable[[IntentSnapshot], str | None],
) -> dict[IntentSubject, IntentSnapshot]:
    """Return the intents with the objections to their approvals.

    ``objection`` is asked for approvals of the present content only, and not for those that ``known`` records of
    publications have accepted.
    """
    return {
        subject: replace(snapshot, objection=objection(snapshot))
        if snapshot.is_approved and not _was_accepted(snapshot, known.get(subject))
        else snapshot
        for subject, snapshot in snapshots.items()
    }


def _was_accepted(snapshot: IntentSnapshot, record: IntentRecord | None) -> bool:
    return (
        record is not None
        and record.intent.approval == snapshot.intent.approval
        and record.approved is not None
        and record.approved.digest == snapshot.content.digest
    )
