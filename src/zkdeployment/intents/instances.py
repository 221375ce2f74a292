"""Instances: what each instantiation of an intent has deployed, and since when.

The history of an intent changes with the effects of each publication. Its JSON form is what publications write.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from zkdeployment.intents.instance_events import InstanceEventKind, with_event
from zkdeployment.intents.life_cycle import IntentEffect, IntentSnapshot
from zkdeployment.planning.targets.content import IntentContent
from zkdeployment.planning.targets.encoding import assignment_from_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zkdeployment.documents.intents.values import Intent, IntentState
    from zkdeployment.intents.instance_events import InstanceChange, InstanceEvent
    from zkdeployment.model.deployment import Assignment
    from zkdeployment.model.tree import Properties
    from zkdeployment.planning.targets.governance import GovernedService

EMPTY_CONTENT = IntentContent({})

#: The number of instances that the history keeps.
KEPT_INSTANCES = 20


@dataclass(frozen=True, slots=True)
class InstanceService:
    """A service that an instance has on a target.

    The assignment is the last one that was wanted, with the most instances that the target ever had to run.
    ``wanted`` is the number of them that it has to run now. ``properties`` are those of the service node, with
    links resolved.
    """

    app: str
    target: str
    assignment: Assignment
    wanted: int
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IntentInstance:
    """One instantiation of an intent.

    ``id`` is the sequence of the publication that began it, ``changed`` of the one that changed it last.
    ``instantiated`` and ``terminated`` are seconds since the epoch, ``by`` is the author. ``target`` is the only
    target of a cluster's instance. ``final`` is the status of its resources after its end, once it is recorded.
    ``events`` tell who began, changed and ended it, and who approved that.
    """

    id: int
    instantiated: float
    by: str
    changed: int
    apps: Mapping[str, tuple[str, ...]]
    services: tuple[InstanceService, ...]
    terminated: float | None = None
    target: str | None = None
    final: tuple[Mapping[str, Any], ...] | None = None
    events: tuple[InstanceEvent, ...] = ()

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

    ``services`` are those that the intent governs now, ``properties`` the resolved ones by path.
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
    """Return the services of an instance: those that are wanted now, and those that were wanted before."""
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
    return {
        "instances": [
            {
                "id": instance.id,
                "instantiated": instance.instantiated,
                "terminated": instance.terminated,
                "by": instance.by,
            }
            for instance in sorted(instances, key=lambda instance: -instance.id)
        ]
    }


def services_to_json(services: Iterable[InstanceService]) -> list[dict[str, Any]]:
    """Return the services of an instance in the form that publications write."""
    return [
        {
            "app": service.app,
            "target": service.target,
            "assignment": service.assignment.to_json(),
            "wanted": service.wanted,
            "properties": dict(service.properties),
        }
        for service in services
    ]


def services_from_json(value: Iterable[Mapping[str, Any]]) -> tuple[InstanceService, ...]:
    """Return the services that ``services_to_json`` encoded; raises ``TreeError`` for an invalid assignment."""
    return tuple(
        InstanceService(
            service["app"],
            service["target"],
            assignment_from_json(service["assignment"]),
            service["wanted"],
            service["properties"],
        )
        for service in value
    )
