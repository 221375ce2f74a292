"""All check instances at one moment, as lists show them: one reading for many clients."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from zkdeployment.checks.findings import check_findings, known_results
from zkdeployment.checks.groups.evaluation import group_states
from zkdeployment.checks.monitoring_system import SystemContact, is_stale
from zkdeployment.checks.overview import CheckSummary, SystemBacklog, is_failed, unheard_since, waiting_since
from zkdeployment.checks.requests import is_open

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.checks.findings import CheckFinding
    from zkdeployment.checks.instance import CheckInstance
    from zkdeployment.checks.monitoring_system import CheckResult
    from zkdeployment.documents.checks.groups import CheckGroup


@dataclass(frozen=True, slots=True)
class CheckReading:
    """The listed parts of all instances, and the results that are known; both by identifier.

    ``findings`` are those of wanted instances, the worst first.
    """

    instances: Mapping[str, CheckInstance] = field(default_factory=dict)
    results: Mapping[str, CheckResult] = field(default_factory=dict)
    findings: tuple[CheckFinding, ...] = ()
    summary: CheckSummary = field(default_factory=CheckSummary)


@dataclass(frozen=True, slots=True)
class SystemRecord:
    """The records of a monitoring system; ``results`` are keyed by instance."""

    callback: str | None = None
    contact: SystemContact = field(default_factory=SystemContact)
    results: Mapping[str, CheckResult] = field(default_factory=dict)


def check_reading(
    instances: Mapping[str, CheckInstance],
    systems: Mapping[str, SystemRecord],
    now: float,
    unwritten: Mapping[str, str] = MappingProxyType({}),
    groups: Iterable[CheckGroup] = (),
) -> CheckReading:
    """Return the reading; ``systems`` are by name, ``unwritten`` as in the summary."""
    reported = {name: system.results for name, system in systems.items()}
    last = {
        instance_id: result
        for instance_id, found in instances.items()
        if (result := reported.get(found.system, {}).get(instance_id)) is not None
    }
    contacts = {name: system.contact for name, system in systems.items()}
    results = known_results(instances, last, contacts, now)
    states = group_states(groups, instances.values(), results)
    summary = replace(check_summary(instances, systems, now), unwritten=unwritten, groups=states)
    return CheckReading(instances, results, check_findings(instances, results), summary)


def silent_systems(systems: Mapping[str, SystemRecord], now: float) -> frozenset[str]:
    """Return the monitoring systems whose results are unknown, as they have reported nothing for so long."""
    return frozenset(name for name, system in systems.items() if is_stale(system.contact, now))


def check_summary(
    instances: Mapping[str, CheckInstance], systems: Mapping[str, SystemRecord], now: float
) -> CheckSummary:
    """Return the monitoring systems, by name, with their last contacts and what waits for them."""
    by_system: dict[str, dict[str, CheckInstance]] = defaultdict(dict)
    for instance_id, found in instances.items():
        by_system[found.system][instance_id] = found
    return CheckSummary(
        tuple(_backlog(name, system, by_system[name], now) for name, system in sorted(systems.items()))
    )


def _backlog(name: str, system: SystemRecord, instances: Mapping[str, CheckInstance], now: float) -> SystemBacklog:
    flagged = frozenset(key for key, found in instances.items() if found.update_available)
    waiting = frozenset(key for key, found in instances.items() if is_open(found))
    return SystemBacklog(
        name,
        system.callback,
        system.contact.fetched,
        system.contact.reported,
        flagged,
        waiting,
        frozenset(key for key, found in instances.items() if is_failed(found)),
        waiting_since(instances[key] for key in flagged | waiting),
        unheard_since(system.contact, instances.values(), now),
    )
