"""Instances: the services of each instantiation of an intent, its events, and the history of an intent.

The history shows who approved each deployed content. Publications write it, so the lengths of texts and the
numbers of events are limited.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from zkdeployment.base.act import sanitize
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.errors import NotFoundError, RefusedError
from zkdeployment.base.records import APART, Key, Record, invalid
from zkdeployment.intents.documents import Approval, Intent, IntentState, IntentSubject, subject_text
from zkdeployment.intents.rules.content import IntentContent
from zkdeployment.intents.rules.life_cycle import IntentEffect, IntentSnapshot
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

    ``content`` is the published content. ``approved`` is the content that the approval in the document covers, if
    it was ever published. ``stamp`` is the version of the record, which changes with each write; ``None``
    if it is not known.
    """

    intent: Intent
    state: IntentState
    instances: tuple[IntentInstance, ...] = ()
    content: IntentContent = EMPTY_CONTENT
    approved: IntentContent | None = None
    stamp: int | None = field(default=None, compare=False)

    @property
    def snapshot(self) -> IntentSnapshot:
        """The intent with its published content."""
        return IntentSnapshot(self.intent, self.content)

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
