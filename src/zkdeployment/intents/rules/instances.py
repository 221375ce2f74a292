"""Instances of intents: their services, events and history; and the effects of each act in each state.

The history shows who approved each deployed content. Publications write it, so the lengths of texts and the
numbers of events are limited. Verbs and the HTTP API derive each act from ``perform``; ``revisions`` judges whole
changes with the same table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from zkdeployment.base.act import ActRight, Decision, DecisionForm, sanitize
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.errors import NotFoundError, RefusedError
from zkdeployment.base.records import APART, Key, Record, invalid
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass
from zkdeployment.intents.documents import (
    Approval,
    ClusterIntents,
    Intent,
    IntentState,
    IntentSubject,
    UpdateRule,
    subject_text,
)
from zkdeployment.intents.rules.content import IntentContent, changed_paths, describe_services
from zkdeployment.publishing.targets.services import assignment_from_json

if TYPE_CHECKING:
    from zkdeployment.base.json_values import Properties
    from zkdeployment.intents.rules.governance import GovernedService

#: The most events of one instance: the first, and the last ones.
KEPT_EVENTS = 30

#: The most characters of a text of an event.
_LONGEST = 300


def _bounded(text: object) -> str:
    """Return a text of an event; raises ``ValueError`` for other values."""
    if not isinstance(text, str):
        raise invalid("text", text)
    return sanitize(text)[:_LONGEST]


#: A text of an event.
ShortText: TypeAlias = Annotated[str, Key(read=_bounded)]


class InstanceEventKind(Enum):
    """The kind of an event of an instance."""

    INSTANTIATED = "instantiated"
    UPDATED = "updated"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True)
class InstanceEvent(Record):
    """The effect of a publication on an instance.

    ``sequence``, ``time`` and ``revision`` are those of the publication, ``by`` is the author and ``reason`` the
    first line of the message of its commit. ``content`` is the digest of the content. ``approved_by`` approved
    that content, with ``approval_reason``; ``is_verified`` is whether the syncer verified the signature, so that
    ``approved_by`` is the owner of the key.
    """

    kind: Annotated[InstanceEventKind, Key("event")]
    sequence: int
    time: float
    by: ShortText
    revision: ShortText = ""
    reason: ShortText = ""
    content: ShortText = ""
    approved_by: ShortText | None = None
    approval_reason: ShortText = ""
    is_verified: bool = False


@dataclass(frozen=True, slots=True)
class InstanceChange:
    """A publication: its sequence, its time in seconds since the epoch, and the author of the revision.

    ``reason`` is the first line of the commit message. ``content`` and ``approval`` are those of the intent in
    this revision; ``is_verified`` is whether the syncer verified the signature of the approval.
    """

    sequence: int
    time: float
    by: str
    revision: str = ""
    reason: str = ""
    content: str = ""
    approval: Approval | None = None
    is_verified: bool = False

    def event(self, kind: InstanceEventKind) -> InstanceEvent:
        """Return the event of this publication."""
        approval = self.approval if self.approval is not None and self.approval.content == self.content else None
        return InstanceEvent(
            kind,
            self.sequence,
            self.time,
            _bounded(self.by),
            _bounded(self.revision),
            _bounded(self.reason),
            self.content,
            None if approval is None else _bounded(approval.by),
            "" if approval is None else _bounded(approval.reason),
            approval is not None and approval.signature is not None and self.is_verified,
        )


def approved_event(instance: int, events: Iterable[InstanceEvent]) -> InstanceEvent:
    """Return the event with the last approved content of an instance; raises ``RefusedError`` without one."""
    begun = [event for event in events if event.kind is not InstanceEventKind.TERMINATED]
    if not begun:
        raise RefusedError(
            f"nothing is known of the content of instance {instance}: none of its events is recorded; restore the"
            " content by hand, then approve it"
        )
    if begun[-1].approved_by is None:
        raise RefusedError(f"the content of instance {instance} was never approved; restore it by hand")
    return begun[-1]


def with_event(events: tuple[InstanceEvent, ...], event: InstanceEvent) -> tuple[InstanceEvent, ...]:
    """Return the events of an instance with a new one; the first event and the last ones are kept."""
    after = (*events, event)
    return after if len(after) <= KEPT_EVENTS else (after[0], *after[-KEPT_EVENTS + 1 :])


def events_from_json(value: Any) -> tuple[InstanceEvent, ...]:
    """Return the events that ``to_json`` encoded, without those that are damaged."""
    entries: Iterable[Any] = value[-KEPT_EVENTS:] if isinstance(value, list) else ()
    return tuple(filter(None, map(InstanceEvent.if_valid, entries)))


EMPTY_CONTENT = IntentContent({})

#: The objection to an approval that did not count in the last publication.
_UNCOUNTED = "the last publication did not accept it"

#: The number of instances that the history keeps.
KEPT_INSTANCES = 20


@dataclass(frozen=True, slots=True)
class InstanceService(Record):
    """A service that an instance has on a target.

    The assignment is the last wanted one, with the largest number of instances that the target ever had to run.
    ``wanted`` is the number of instances that it has to run now. ``properties`` are those of the service node,
    with links resolved.
    """

    app: str
    target: str
    assignment: Annotated[Assignment, Key(read=assignment_from_json)]
    wanted: int
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IntentInstance(Record):
    """One instantiation of an intent; its JSON form has the values that lists show.

    ``id`` is the sequence of the publication that began it, ``changed`` of the one that changed it last.
    ``instantiated`` and ``terminated`` are seconds since the epoch, ``by`` is the author. ``target`` is the only
    target of a cluster's instance. ``final`` is the status of its resources after its end, once it is recorded.
    ``events`` record who began, changed and ended it, and who approved each content.
    """

    id: int
    instantiated: float
    by: str
    changed: int
    apps: Annotated[Mapping[str, tuple[str, ...]], APART]
    services: Annotated[tuple[InstanceService, ...], APART]
    terminated: float | None = None
    target: Annotated[str | None, APART] = None
    final: Annotated[tuple[Mapping[str, Any], ...] | None, APART] = None
    events: Annotated[tuple[InstanceEvent, ...], APART] = ()

    @property
    def awaits_final_status(self) -> bool:
        """Whether the instance is terminated, and its final status is not recorded yet."""
        return self.terminated is not None and self.final is None


@dataclass(frozen=True, slots=True)
class IntentRecord:
    """The records of publications about an intent: its document, its state, and its instances, oldest first.

    ``content`` is the published content. ``approved`` is the last content whose approval counted, if it was ever
    published. ``stamp`` is the version of the record, which changes with each write; ``None`` if it is not known.
    """

    intent: Intent
    state: IntentState
    instances: tuple[IntentInstance, ...] = ()
    content: IntentContent = EMPTY_CONTENT
    approved: IntentContent | None = None
    stamp: int | None = field(default=None, compare=False)

    @property
    def snapshot(self) -> IntentSnapshot:
        """The intent with its published content, and an objection if its approval did not count."""
        snapshot = IntentSnapshot(self.intent, self.content)
        is_uncounted = self.state is IntentState.CREATED and snapshot.state is IntentState.APPROVED
        return replace(snapshot, objection=_UNCOUNTED) if is_uncounted else snapshot

    def approved_before(self, snapshot: IntentSnapshot) -> IntentContent | None:
        """Return the content that was approved last before the present content of a ``snapshot`` of the intent.

        An approval with an objection does not count. ``None`` without an approval, or if no publication had the
        content of an approval that counts.
        """
        approval = snapshot.intent.approval
        if approval is None or self.approved is None:
            return None
        is_last = snapshot.objection is not None or approval == self.intent.approval
        return self.approved if is_last or approval.content == self.approved.digest else None

    def instance(self, number: int | None = None) -> IntentInstance | None:
        """Return the instance with this id, by default the newest; ``None`` if the record has no such instance."""
        found = [each for each in self.instances if number in {None, each.id}]
        return found[-1] if found else None

    @property
    def awaits_final_status(self) -> bool:
        """Whether the last instance is terminated, and its final status is not recorded yet."""
        return bool(self.instances) and self.instances[-1].awaits_final_status


def advance_instances(
    instances: tuple[IntentInstance, ...],
    effects: Collection[IntentEffect],
    publication: InstanceChange,
    intent: Intent,
    services: Iterable[GovernedService],
    properties: Mapping[str, Properties],
) -> tuple[IntentInstance, ...]:
    """Return the instances of an intent after a publication, oldest first.

    ``services`` are the services that the intent governs now, ``properties`` their resolved properties by path.
    """
    if IntentEffect.BEGIN_INSTANCE in effects:
        begun = IntentInstance(
            publication.sequence,
            publication.time,
            publication.by,
            publication.sequence,
            intent.apps,
            _services((), services, properties),
            target=intent.target,
            events=(publication.event(InstanceEventKind.INSTANTIATED),),
        )
        return (*instances, begun)[-KEPT_INSTANCES:]
    if not instances:
        return instances
    *former, last = instances
    if IntentEffect.UPDATE_INSTANCE in effects:
        updated = _services(last.services, services, properties)
        events = with_event(last.events, publication.event(InstanceEventKind.UPDATED))
        changed = replace(last, changed=publication.sequence, apps=intent.apps, services=updated, events=events)
        return (*former, changed)
    if IntentEffect.END_INSTANCE in effects:
        ended = _services(last.services, (), {})
        return (
            *former,
            replace(
                last,
                changed=publication.sequence,
                terminated=publication.time,
                services=ended,
                events=with_event(last.events, publication.event(InstanceEventKind.TERMINATED)),
            ),
        )
    return instances


def _services(
    last: Iterable[InstanceService], services: Iterable[GovernedService], properties: Mapping[str, Properties]
) -> tuple[InstanceService, ...]:
    """Return the services of an instance: the services wanted now, and those wanted before."""
    before = {(service.app, service.target, service.assignment.path): service for service in last}
    merged = {key: replace(service, wanted=0) for key, service in before.items()}
    for service in services:
        path = service.assignment.path
        key = (service.app, service.target, path)
        most = max(service.assignment.n, before[key].assignment.n if key in before else 0)
        merged[key] = InstanceService(
            service.app,
            service.target,
            replace(service.assignment, n=most),
            service.assignment.n,
            properties.get(path, {}),
        )
    return tuple(merged[key] for key in sorted(merged))


def instances_body(instances: Iterable[IntentInstance]) -> dict[str, Any]:
    """Return the list of instances as the API and the verb print it, newest first."""
    listed = sorted(instances, key=lambda instance: -instance.id)
    keys = ("id", "instantiated", "terminated", "by")
    return {"instances": [{key: getattr(instance, key) for key in keys} for instance in listed]}


@dataclass(frozen=True, slots=True)
class InstanceHistory(Record):
    """An instance in the history; the times are seconds since the epoch."""

    id: int
    instantiated: float
    terminated: float | None
    by: str
    events: Annotated[tuple[InstanceEvent, ...], Key(read=events_from_json)]

    @classmethod
    def of(cls, instance: IntentInstance) -> InstanceHistory:
        """Return the part of an instance that the history keeps."""
        return cls(instance.id, instance.instantiated, instance.terminated, instance.by, instance.events)


def merged_history(*parts: Iterable[InstanceHistory]) -> tuple[InstanceHistory, ...]:
    """Return the last instances of several records of one intent, oldest first; later records take precedence."""
    by_id = {instance.id: instance for part in parts for instance in part}
    return tuple(by_id[number] for number in sorted(by_id))[-KEPT_INSTANCES:]


def history_from_json(value: Any) -> tuple[InstanceHistory, ...]:
    """Return the instances that ``to_json`` encoded, without those that are damaged."""
    entries = value[-KEPT_INSTANCES:] if isinstance(value, list) else ()
    return tuple(filter(None, map(InstanceHistory.if_valid, entries)))


def intent_history(
    subject: IntentSubject, record: IntentRecord | None, archived: Iterable[InstanceHistory]
) -> tuple[InstanceHistory, ...]:
    """Return the instances of an intent, newest first; raises ``NotFoundError`` for a subject without a record.

    ``archived`` are the instances of removed documents of the subject.
    """
    former = tuple(archived)
    if record is None and not former:
        raise NotFoundError(
            f"no publication has an intent {subject_text(subject)}, and none had one with instances: expected one"
            " of those that 'zkdeployment intent list' shows, or one that was removed"
        )
    present = () if record is None else record.instances
    return merged_history(former, map(InstanceHistory.of, present))[::-1]


#: The most paths, and the most services, that a refusal names.
_SHOWN_PATHS = 20
_SHOWN_SERVICES = 5

#: The right to the acts on intents.
ACT_ON_INTENT = ActRight("change intents of services")


class IntentAct(Enum):
    """An act of a person on an intent; each value is the manual's term for the act."""

    APPROVE = "approve"
    INSTANTIATE = "instantiate"
    APPLY = "apply"
    ADOPT = "adopt"
    TERMINATE = "terminate"
    MODIFY = "change the content or the document"
    UPDATE = "change the content of a group with update: approve, with its approval"
    REMOVE = "remove the document"


class IntentEffect(Enum):
    """An effect of an act besides the new state."""

    WRITE_APPROVAL = "the approval of the content is written into the document"
    BEGIN_INSTANCE = "the governed services are deployed, as a new instance"
    UPDATE_INSTANCE = "the instance gets the new content, in place"
    END_INSTANCE = "the governed services are undeployed"


class IntentGuard(Enum):
    """A further condition of an act."""

    APPROVED_CONTENT = "the content is the approved one"
    TERMINATION_COMPLETE = "no host has a deployment of the last instance any more"


@dataclass(frozen=True, slots=True)
class LifeCycleStep:
    """The result of an act: the new state (``None``: the intent is gone), effects, and what the act requires."""

    state: IntentState | None
    effects: frozenset[IntentEffect] = frozenset()
    guard: IntentGuard | None = None


#: The reason why an act is refused in a state.
RefusalReason: TypeAlias = str

_NOTHING_DEPLOYED = "nothing of it is deployed"
_DEPLOYED = "its services are deployed; terminate it first"
_INSTANTIATED_ALREADY = "it is instantiated already; terminate it first"
_APPLIED_ALREADY = "it is applied already; terminate it first"
_UNAPPROVED_UPDATE = (
    "its new content must be approved in the same change, by 'zkdeployment intent approve', or it must be"
    " terminated first"
)

#: The reasons that advise a termination, which takes services down.
_OUTAGES = frozenset({_DEPLOYED, _INSTANTIATED_ALREADY, _APPLIED_ALREADY, _UNAPPROVED_UPDATE})

_CREATED, _APPROVED = IntentState.CREATED, IntentState.APPROVED
_INSTANTIATED, _APPLIED, _TERMINATED = IntentState.INSTANTIATED, IntentState.APPLIED, IntentState.TERMINATED

_APPROVE = LifeCycleStep(_APPROVED, frozenset({IntentEffect.WRITE_APPROVAL}))
_INSTANTIATE = LifeCycleStep(_INSTANTIATED, frozenset({IntentEffect.BEGIN_INSTANCE}), IntentGuard.APPROVED_CONTENT)
_ADOPT = LifeCycleStep(_INSTANTIATED, frozenset({IntentEffect.WRITE_APPROVAL, IntentEffect.BEGIN_INSTANCE}))
_APPLY = LifeCycleStep(_APPLIED, frozenset({IntentEffect.BEGIN_INSTANCE}))
_TERMINATE = LifeCycleStep(_TERMINATED, frozenset({IntentEffect.END_INSTANCE}))
_REMOVE = LifeCycleStep(None, guard=IntentGuard.TERMINATION_COMPLETE)

#: The effects of each act in each state, or why it is refused. Groups are never Applied, clusters neither Approved
#: nor Instantiated. A group whose document has the state Approved, but whose content differs from the approved
#: one, is Created.
LIFE_CYCLE: Mapping[tuple[IntentState, IntentAct], LifeCycleStep | RefusalReason] = {
    (_CREATED, IntentAct.APPROVE): _APPROVE,
    (_APPROVED, IntentAct.APPROVE): LifeCycleStep(_APPROVED),
    (_INSTANTIATED, IntentAct.APPROVE): _DEPLOYED,
    (_TERMINATED, IntentAct.APPROVE): _APPROVE,
    (_CREATED, IntentAct.INSTANTIATE): "it must be approved first",
    (_APPROVED, IntentAct.INSTANTIATE): _INSTANTIATE,
    (_INSTANTIATED, IntentAct.INSTANTIATE): _INSTANTIATED_ALREADY,
    (_TERMINATED, IntentAct.INSTANTIATE): _INSTANTIATE,
    (_CREATED, IntentAct.APPLY): _APPLY,
    (_APPLIED, IntentAct.APPLY): _APPLIED_ALREADY,
    (_TERMINATED, IntentAct.APPLY): _APPLY,
    (_CREATED, IntentAct.ADOPT): _ADOPT,
    (_APPROVED, IntentAct.ADOPT): _ADOPT,
    (_INSTANTIATED, IntentAct.ADOPT): "it is instantiated already",
    (_APPLIED, IntentAct.ADOPT): "it is applied already",
    (_TERMINATED, IntentAct.ADOPT): _ADOPT,
    (_CREATED, IntentAct.TERMINATE): _NOTHING_DEPLOYED,
    (_APPROVED, IntentAct.TERMINATE): _NOTHING_DEPLOYED,
    (_INSTANTIATED, IntentAct.TERMINATE): _TERMINATE,
    (_APPLIED, IntentAct.TERMINATE): _TERMINATE,
    (_TERMINATED, IntentAct.TERMINATE): "it is terminated already",
    (_CREATED, IntentAct.MODIFY): LifeCycleStep(_CREATED),
    (_APPROVED, IntentAct.MODIFY): LifeCycleStep(_CREATED),
    (_INSTANTIATED, IntentAct.MODIFY): _DEPLOYED,
    (_APPLIED, IntentAct.MODIFY): _DEPLOYED,
    (_TERMINATED, IntentAct.MODIFY): LifeCycleStep(_TERMINATED),
    (_INSTANTIATED, IntentAct.UPDATE): LifeCycleStep(
        _INSTANTIATED, frozenset({IntentEffect.UPDATE_INSTANCE}), IntentGuard.APPROVED_CONTENT
    ),
    (_CREATED, IntentAct.REMOVE): _REMOVE,
    (_APPROVED, IntentAct.REMOVE): _REMOVE,
    (_INSTANTIATED, IntentAct.REMOVE): _DEPLOYED,
    (_APPLIED, IntentAct.REMOVE): _DEPLOYED,
    (_TERMINATED, IntentAct.REMOVE): _REMOVE,
}


#: The acts that only groups, and only clusters, have.
_GROUP_ACTS = frozenset({IntentAct.APPROVE, IntentAct.INSTANTIATE, IntentAct.UPDATE})
_CLUSTER_ACTS = frozenset({IntentAct.APPLY})


@dataclass(frozen=True, slots=True)
class IntentSnapshot:
    """An intent and its content in one revision; ``objection`` is the reason why the approval does not count."""

    intent: Intent
    content: IntentContent
    objection: str | None = None

    @property
    def is_approved(self) -> bool:
        """Whether the content is the approved one."""
        approval = self.intent.approval
        return approval is not None and approval.content == self.content.digest and self.objection is None

    @property
    def state(self) -> IntentState:
        """The state: that of the document, but Created if the content differs from the approved one."""
        if self.intent.state is IntentState.APPROVED and not self.is_approved:
            return IntentState.CREATED
        return self.intent.state


@dataclass(frozen=True, slots=True)
class IntentRefusal:
    """The refusal of an act or a change: the subject with its state and approver, and the changed nodes.

    ``outage`` states what the termination that the reason demands takes down.
    """

    subject: IntentSubject
    state: IntentState
    reason: str
    approved_by: str | None = None
    paths: tuple[str, ...] = ()
    outage: str = ""

    def __str__(self) -> str:
        """Return the refusal as one sentence without repetitions."""
        is_said = self.approved_by is None or self.approved_by in self.reason
        approved = "" if is_said else f", approved by {self.approved_by}"
        more = len(self.paths) - _SHOWN_PATHS
        shown = [*self.paths[:_SHOWN_PATHS], *([f"and {more} more"] if more > 0 else [])]
        changed = f" (changed: {', '.join(shown)})" if shown else ""
        is_repeated = self.reason.startswith(f"it is {self.state.value.lower()} already")
        state = "" if is_repeated else f" is {self.state.value}"
        outage = self.outage and f"; {self.outage}"
        return f"{subject_text(self.subject)}{state}{approved}: {self.reason}{changed}{outage}"


def perform(
    snapshot: IntentSnapshot,
    act: IntentAct,
    *,
    changed: IntentSnapshot | None = None,
    is_terminating: bool = False,
    approved: IntentContent | None = None,
) -> LifeCycleStep | IntentRefusal:
    """Return the step of an act on an intent, or the refusal of the act.

    ``changed`` is the intent after an update of an instantiated group. ``is_terminating`` is whether hosts still
    have deployments of the last instance. ``approved`` is the content that was approved, if it is known: a refusal
    then names the nodes that have changed since.
    """
    state, intent = snapshot.state, snapshot.intent
    is_cluster = isinstance(intent, ClusterIntents)
    step = None if act in (_GROUP_ACTS if is_cluster else _CLUSTER_ACTS) else LIFE_CYCLE[state, act]
    if isinstance(step, LifeCycleStep):
        reason = _guard_reason(step.guard, changed or snapshot, act, is_terminating=is_terminating)
        if reason is None:
            return step
    elif step is None:
        kind, instead = ("clusters", "apply it") if is_cluster else ("groups", "approve and instantiate it")
        reason = f"there is no act '{act.value}' for {kind}; {instead}"
    else:
        # A group whose document has the state Approved is Created if its content differs.
        is_changed = state is not intent.state and act is IntentAct.INSTANTIATE
        reason = _not_approved(snapshot) if is_changed else step
    is_beginning = act is IntentAct.INSTANTIATE and not state.is_active
    paths = changed_paths(approved, snapshot.content) if is_beginning and approved is not None else ()
    approver = None if intent.approval is None else intent.approval.by
    outage = _outage(snapshot, act) if state.is_active and reason in _OUTAGES else ""
    return IntentRefusal(intent.subject, state, reason, approver, paths, outage)


def _outage(snapshot: IntentSnapshot, act: IntentAct) -> str:
    """Return the services that a termination takes down, and how the content changes without a termination."""
    intent = snapshot.intent
    services = listing(describe_services(intent, snapshot.content), _SHOWN_SERVICES)
    down = f"the termination takes down {services or 'no service'}"
    is_change = act in {IntentAct.APPROVE, IntentAct.MODIFY}
    if not is_change or isinstance(intent, ClusterIntents) or intent.update is UpdateRule.APPROVE:
        return down
    return f"{down}; a group that is instantiated with 'update: approve' changes in place"


def _guard_reason(
    guard: IntentGuard | None, snapshot: IntentSnapshot, act: IntentAct, *, is_terminating: bool
) -> str | None:
    """Return why the guard of an act does not hold, or ``None`` if it holds."""
    if guard is IntentGuard.TERMINATION_COMPLETE and is_terminating:
        return "hosts still undeploy its last instance; wait until they are done"
    if guard is IntentGuard.APPROVED_CONTENT and not snapshot.is_approved:
        if act is IntentAct.UPDATE and snapshot.objection is None:
            return _UNAPPROVED_UPDATE
        return _not_approved(snapshot)
    return None


def _not_approved(snapshot: IntentSnapshot) -> str:
    intent = snapshot.intent
    if intent.approval is None:
        return "it must be approved first"
    if snapshot.objection is not None:
        return uncounted_approval(intent, snapshot.objection)
    return f"its content has changed since it was approved by {intent.approval.by}; approve it again"


class MissingApprovals(str):
    """An objection to approvals that count, but are too few."""

    __slots__ = ()


def uncounted_approval(intent: Intent, objection: str, act: IntentAct = IntentAct.APPROVE) -> str:
    """Return the message that the approval of a group by an act does not count, with the reason and advice.

    An approval of the state Instantiated is that of an update or of an adoption.
    """
    is_update = intent.state.is_active and intent.update is UpdateRule.APPROVE
    if intent.approval is not None and intent.approval.state == IntentState.INSTANTIATED.value and not is_update:
        act = IntentAct.ADOPT
    in_files = isinstance(objection, MissingApprovals) and (is_update or act is IntentAct.ADOPT)
    hint = signature_hint(intent.subject, act, in_files=in_files)
    return f"its approval does not count: {objection}; {hint}"


def missing_approval(approval: Approval | None, digest: str | None) -> str:
    """Return why a group that is Created needs an approval; ``digest`` is that of its present content."""
    if approval is None:
        return "it is not approved, so nothing of it is deployed"
    if approval.content == digest:
        return f"its approval by {approval.by} does not suffice"
    return f"its content has changed since it was approved by {approval.by}"


def due_approval(intent: Intent, state: IntentState, digest: str | None, since: float) -> Decision | None:
    """Return the decision for which an intent in a state waits: the approval of a group that is Created.

    ``digest`` is that of the present content, ``since`` the time of the last change, in seconds since the epoch.
    """
    if state is not IntentState.CREATED or isinstance(intent, ClusterIntents):
        return None
    subject = subject_text(intent.subject)
    reason = missing_approval(intent.approval, digest)
    return Decision(
        f"intent {subject}",
        reason,
        since,
        f"zkdeployment intent approve {subject}",
        DecisionForm("intent-approve", f"Approve {subject}", {"subject": subject}),
        effect="approves it",
    )


def signature_hint(subject: IntentSubject, act: IntentAct = IntentAct.APPROVE, *, in_files: bool = False) -> str:
    """Return the hint how to approve a group by an act where approvals need a signature.

    A change in place and an adoption need the approvals of all people ``in_files``, before they are pushed.
    """
    approve, command = (f"zkdeployment intent {verb} {subject_text(subject)}" for verb in ("approve", act.value))
    if not in_files:
        return f"this fleet needs signed approvals; use '{command} --key FILE' at a terminal"
    first = f"use '{command} --work-tree DIRECTORY --key FILE', then " if act is IntentAct.ADOPT else ""
    return f"{first}each approver uses '{approve} --work-tree DIRECTORY --key FILE' before the change is pushed"
