"""The acts on an intent: which of them are possible in its state, and the consequences that their forms show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.documents.intents.values import ClusterIntents, UpdateRule, subject_text
from zkdeployment.intents.life_cycle import IntentAct, IntentRefusal, perform, signature_hint
from zkdeployment.model.user import ActKind, act_refusal
from zkdeployment.web.views.acts import ActForm
from zkdeployment.web.views.links import act_page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.documents.intents.values import Intent
    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.model.user import User

#: The acts of groups and of clusters in the order of the life cycle.
_GROUP_ACTS = (IntentAct.APPROVE, IntentAct.INSTANTIATE, IntentAct.TERMINATE)
_CLUSTER_ACTS = (IntentAct.APPLY, IntentAct.TERMINATE)

#: The style of each button.
_KINDS = {
    IntentAct.APPROVE: "primary",
    IntentAct.INSTANTIATE: "primary",
    IntentAct.APPLY: "primary",
    IntentAct.TERMINATE: "danger",
}

#: The acts by the names of their forms.
FORM_ACTS: Mapping[str, IntentAct] = {f"intent-{act.value}": act for act in _KINDS}

#: The last consequence of each act on an intent.
COMMITTED = "The act is a commit on the branch. It takes effect when the syncer publishes that commit."


@dataclass(frozen=True, slots=True)
class OfferedAct:
    """An act, with the address of its form, or with the ``objection`` to it."""

    label: str
    href: str
    kind: str
    objection: str = ""


def intent_paths(intent: Intent) -> tuple[str, ...]:
    """Return the paths that an intent governs, sorted."""
    return tuple(sorted({path for paths in intent.apps.values() for path in paths}))


def intent_objection(record: IntentRecord, act: IntentAct, *, signed: bool) -> str:
    """Return why an act is not possible in the published state of an intent, or an empty text.

    ``signed`` is whether approvals need a signature, which no page can make. The approval of a change in place
    depends on the tip of the branch, which is not known here.
    """
    outcome = perform(record.snapshot, act, approved=record.approved)
    is_update = act is IntentAct.APPROVE and record.state.is_active and record.intent.update is UpdateRule.APPROVE
    if isinstance(outcome, IntentRefusal) and not is_update:
        return str(outcome)
    return signature_hint(record.intent.subject) if signed and act is IntentAct.APPROVE else ""


def offered_acts(record: IntentRecord, user: User, back: str, *, signed: bool) -> tuple[OfferedAct, ...]:
    """Return the acts on an intent, with the reasons why some are not possible now, or not for this user.

    ``signed`` is whether approvals need a signature.
    """
    acts = _CLUSTER_ACTS if isinstance(record.intent, ClusterIntents) else _GROUP_ACTS
    forbidden = act_refusal(user, ActKind.ACT_ON_INTENT, *intent_paths(record.intent))
    subject = subject_text(record.intent.subject)
    return tuple(
        OfferedAct(
            act.value.capitalize(),
            act_page(f"intent-{act.value}", back, subject=subject),
            _KINDS[act],
            forbidden or intent_objection(record, act, signed=signed),
        )
        for act in acts
    )


def intent_form(record: IntentRecord, act: IntentAct, *, signed: bool) -> ActForm:
    """Return the form of an act on an intent; ``signed`` is whether approvals need a signature."""
    subject = subject_text(record.intent.subject)
    return ActForm(
        title=f"{act.value.capitalize()} {subject}",
        consequences=(*_consequences(record, act), COMMITTED),
        button=act.value.capitalize(),
        kind=_KINDS[act],
        fields=(("subject", subject),),
        objection=intent_objection(record, act, signed=signed),
    )


def intent_rollback_form(record: IntentRecord, instance: int, *, signed: bool) -> ActForm:
    """Return the form that restores the content of an instance; ``signed`` is as in ``intent_form``."""
    subject = subject_text(record.intent.subject)
    is_update = record.state.is_active and record.intent.update is UpdateRule.APPROVE
    effect = "Hosts deploy it in place." if is_update else "Nothing is deployed before the group is instantiated."
    command = f"zkdeployment intent rollback {subject} --instance {instance} --key FILE"
    hint = f"this fleet needs signed approvals; use '{command}' at a terminal"
    return ActForm(
        title=f"Roll {subject} back to instance {instance}",
        consequences=(
            f"The apps, profile and nodes of instance {instance} are restored. {effect}",
            COMMITTED,
        ),
        button="Roll back",
        kind="danger",
        fields=(("subject", subject), ("instance", str(instance))),
        objection=hint if signed else "",
    )


def _consequences(record: IntentRecord, act: IntentAct) -> Iterator[str]:
    if act is IntentAct.APPROVE and record.state.is_active:
        yield "Hosts deploy the change in place when the syncer publishes it with the approval."
    elif act is IntentAct.APPROVE:
        yield "Nothing is deployed before the group is instantiated. A change of the content ends the approval."
    elif act is IntentAct.TERMINATE:
        yield "All hosts undeploy the governed services. Other services of these hosts stay."
        yield f"Governed are {', '.join(intent_paths(record.intent))}."
    else:
        yield f"The governed services are deployed as a new instance: {', '.join(intent_paths(record.intent))}."
        yield "Until it is terminated, neither the document nor the content can change."
