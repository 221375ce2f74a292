"""Acts on intents at a tip that the syncer refuses: in which states the acts find an intent.

The published state and the tip then differ for good: no publication brings them together. An act may start from
either of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.documents.intents.values import DeploymentIntentGroup, IntentState, UpdateRule
from zkdeployment.intents.judge import judge_change

if TYPE_CHECKING:
    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.intents.life_cycle import IntentSnapshot


def is_refused(record: IntentRecord | None, tip: IntentSnapshot | None) -> bool:
    """Whether the life cycle forbids the change of a published intent to the one at the tip.

    Signatures of approvals, and whether hosts still undeploy an instance, do not count here.
    """
    if record is None:
        return False
    subject = record.intent.subject
    return bool(judge_change({subject: record.snapshot}, {} if tip is None else {subject: tip}).refusals)


def starting_points(record: IntentRecord | None, tip: IntentSnapshot) -> tuple[IntentSnapshot, ...]:
    """Return the intent as acts on a refused tip find it: in its published state, then in that of the tip.

    The content and the document are those of the tip.
    """
    published = IntentState.CREATED if record is None else record.intent.state
    return replace(tip, intent=replace(tip.intent, state=published)), tip


def is_refused_update(record: IntentRecord | None, tip: IntentSnapshot) -> bool:
    """Whether the content of an instantiated group changed that may be updated in place, without an approval."""
    if record is None or not record.intent.state.is_active or tip.is_approved:
        return False
    before, after = record.intent, tip.intent
    return (
        isinstance(before, DeploymentIntentGroup)
        and isinstance(after, DeploymentIntentGroup)
        and before.update is after.update is UpdateRule.APPROVE
        and after.state.is_active
    )
