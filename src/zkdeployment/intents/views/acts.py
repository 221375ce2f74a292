"""The acts on intents on pages: the possible ones, their forms, and the begin and end of governance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import short
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.intents.documents.kinds import CLUSTER_SCHEMA, GROUP_SCHEMA, intent_of_document
from zkdeployment.intents.documents.values import ClusterIntents, UpdateRule, subject_text
from zkdeployment.intents.rules.life_cycle import IntentAct, IntentRefusal, perform, signature_hint
from zkdeployment.service.users.user import ActKind, act_refusal
from zkdeployment.service.views.acts import ActForm
from zkdeployment.service.views.frame import act_page, service_page

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from zkdeployment.intents.documents.values import Intent, IntentSubject
    from zkdeployment.intents.rules.instances import IntentRecord
    from zkdeployment.publishing.left_service import LeftService
    from zkdeployment.service.users.user import User


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


#: The most left services that a page lists.
_MOST_LEFT = 200

#: The fields of a form that describe a new intent.
_DESCRIPTION = ("apps", "profile")


@dataclass(frozen=True, slots=True)
class LeftServiceRow:
    """A service that left governance; ``release`` is the form that releases it, or empty."""

    path: str
    href: str
    target: str
    former: str
    revision: str
    state: str
    release: str


@dataclass(frozen=True, slots=True)
class LeftServicesView:
    """The services that left governance, and how many ``more`` there are."""

    rows: tuple[LeftServiceRow, ...]
    more: int = 0


def left_services_view(left: Collection[LeftService], user: User | None) -> LeftServicesView:
    """Return the services that left governance, sorted; ``user`` may act on them, if given."""
    ordered = sorted(left, key=lambda one: (one.path, one.target or ""))
    rows = tuple(_left_row(one, user) for one in ordered[:_MOST_LEFT])
    return LeftServicesView(rows, max(0, len(ordered) - _MOST_LEFT))


def _left_row(one: LeftService, user: User | None) -> LeftServiceRow:
    may_release = user is not None and user.may_act(ActKind.ACT_ON_INTENT, one.path)
    return LeftServiceRow(
        one.path,
        service_page(one.path),
        one.target or "all targets",
        subject_text(one.former),
        short(one.revision),
        "not deployed" if one.is_withheld else "stays as deployed",
        act_page("intent-release", "/intents", path=one.path) if may_release else "",
    )


def service_release_form(left: Sequence[LeftService]) -> ActForm:
    """Return the form that releases the service at one path, which left governance for these targets."""
    path = left[0].path
    return ActForm(
        title=f"Release {path}",
        consequences=(
            *dict.fromkeys(
                f"It left the governance of {subject_text(one.former)} with {short(one.revision)}"
                f"{'' if one.target is None else f' for {one.target}'}, and"
                f" {'is not deployed' if one.is_withheld else 'stays as deployed'} until now."
                for one in left
            ),
            "Hosts deploy it as the tip of the branch has it, without an approval from now on.",
            COMMITTED,
        ),
        button="Release",
        kind="danger",
        fields=(("path", path),),
    )


def requested_adoption(subject: IntentSubject, values: Mapping[str, str]) -> Intent | None:
    """Return the new intent that a form describes; ``None`` if its document should be in the branch.

    Raises ``ConfigurationError`` if the description is not valid.
    """
    text = values.get("apps", "").strip()
    if not text:
        return None
    apps: dict[str, list[str]] = {}
    for part in text.split():
        name, _, paths = part.partition("=")
        apps.setdefault(name, []).extend(paths.split(","))
    try:
        return intent_of_document(_document(subject, apps, values.get("profile", "").strip() or "default"))
    except ValueError as error:
        raise ConfigurationError(
            f"apps: {error}; expected APP=PATH[,PATH…], as in front=/p1/shop/front"
        ) from error


def _document(subject: IntentSubject, apps: Mapping[str, list[str]], profile: str) -> dict[str, object]:
    if len(subject) == 2:
        provider, name = subject
        return {
            "schema": CLUSTER_SCHEMA,
            "metadata": {"provider": provider, "name": name},
            "data": {"network-intents": apps, "state": "Created"},
        }
    keys = ("project", "composite-app", "version", "name")
    return {
        "schema": GROUP_SCHEMA,
        "metadata": dict(zip(keys, subject, strict=True)),
        "data": {"composite-profile": profile, "apps": apps, "state": "Created"},
    }


def adoption_form(intent: Intent, values: Mapping[str, str]) -> ActForm:
    """Return the form that puts deployed services under an intent; ``values`` describe a new one."""
    subject = subject_text(intent.subject)
    becomes = "Applied" if isinstance(intent, ClusterIntents) else "Instantiated"
    fields = [("subject", subject), *((name, values[name]) for name in _DESCRIPTION if values.get(name))]
    return ActForm(
        title=f"Adopt the services of {subject}",
        consequences=(
            f"The intent becomes {becomes}, and hosts change nothing.",
            "From now on, the services and the content do not change without an approval.",
            COMMITTED,
        ),
        button="Adopt",
        fields=tuple(fields),
    )
