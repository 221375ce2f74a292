"""Check configurations and wanted instances, as ``-o json`` and the service show them."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from zkdeployment.checks.basis import CheckScope
from zkdeployment.checks.spawning import wanted_instances

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.checks.basis import CheckBasis
    from zkdeployment.checks.spawning import WantedInstance
    from zkdeployment.documents.checks.on_call import OnCall
    from zkdeployment.documents.checks.values import CheckConfiguration, MonitoringSystem
    from zkdeployment.model.tree import Value


@dataclass(frozen=True, slots=True)
class CheckError:
    """A reason for which instances of a configuration are not made or changed: the service, and how many."""

    path: str
    message: str
    instances: int

    def to_json(self) -> dict[str, Value]:
        """Return the error as ``-o json`` prints it."""
        return {"path": self.path, "message": self.message, "instances": self.instances}


def check_errors(
    instances: Iterable[WantedInstance], unwritten: Mapping[str, str] = MappingProxyType({})
) -> tuple[CheckError, ...]:
    """Return the errors of wanted instances, by service.

    ``unwritten`` are the reasons for which instances could not be written, by the beginning of their identifiers.
    """
    counts: dict[tuple[str, str], int] = {}
    for wanted in instances:
        reasons = {reason for beginning, reason in unwritten.items() if wanted.id.startswith(beginning)}
        for fault in (*wanted.faults, *sorted(reasons)):
            key = (wanted.key.path, fault)
            counts[key] = counts.get(key, 0) + 1
    return tuple(CheckError(path, message, count) for (path, message), count in sorted(counts.items()))


def instances_of(basis: CheckBasis, name: str) -> tuple[WantedInstance, ...]:
    """Return the instances that a configuration wants."""
    return tuple(wanted_instances(basis, CheckScope(configurations=frozenset({name}))))


def preview_to_json(instances: Iterable[WantedInstance]) -> dict[str, Value]:
    """Return wanted instances as ``checks preview -o json`` prints them."""
    found = tuple(instances)
    return {
        "instances": [wanted_to_json(wanted) for wanted in found],
        "errors": [error.to_json() for error in check_errors(found)],
    }


def configurations_to_json(
    configurations: Iterable[CheckConfiguration], systems: Iterable[MonitoringSystem], duties: Iterable[OnCall]
) -> dict[str, Value]:
    """Return the configurations, the monitoring systems and the duties, as ``checks list -o json`` prints them."""
    return {
        "checks": [
            {
                "name": found.name,
                "object": found.path or "/",
                "inheritance": found.inheritance,
                "children_only": found.children_only,
                "monitoring": found.monitoring,
                "command": found.command,
                "interval": found.interval,
            }
            for found in sorted(configurations, key=lambda found: found.name)
        ],
        "monitoring": [
            {"name": found.name, "callback": found.callback}
            for found in sorted(systems, key=lambda found: found.name)
        ],
        "on_call": duties_to_json(sorted(duties, key=lambda duty: duty.path)),
    }


def duties_to_json(duties: Iterable[OnCall]) -> list[Value]:
    """Return on-call duties as ``checks on-call -o json`` lists them."""
    return [{**duty.to_json(), "object": duty.path or "/"} for duty in duties]


def check_to_json(
    content: Mapping[str, Any],
    instances: Iterable[WantedInstance],
    states: Mapping[str, int],
    unwritten: Mapping[str, str],
) -> dict[str, Value]:
    """Return a configuration as ``checks show -o json`` prints it.

    ``content`` is its document, ``instances`` are the instances that it wants, and ``states`` has the number of
    existing instances in each state. ``unwritten``: see ``check_errors``.
    """
    found = tuple(instances)
    return {
        "name": content["metadata"]["name"],
        "document": dict(content),
        "wanted": len(found),
        "states": dict(states),
        "errors": [error.to_json() for error in check_errors(found, unwritten)],
    }


def wanted_to_json(wanted: WantedInstance) -> dict[str, Value]:
    """Return a wanted instance with its details, or the reasons for which it has none."""
    key, identity = wanted.key, wanted.host.identity
    return {
        "id": wanted.id,
        "check": key.check,
        "path": key.path,
        "number": key.number,
        "host": {"id": identity.id, "name": identity.name, "address": wanted.host.address},
        "attributes": dict(key.attributes),
        "monitoring": wanted.system,
        "details": None if wanted.faults else dict(wanted.details()),
        "errors": list(wanted.faults),
    }
