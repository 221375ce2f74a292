"""Check instances and monitoring systems as operators see them, and the drift of their checks."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated, Any

from zkdeployment.base.act import Maintenance
from zkdeployment.base.durations import age
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.records import APART, Key, Record, shown
from zkdeployment.base.text import counted, listing
from zkdeployment.base.values import dataclass
from zkdeployment.checks.rules.instance import (
    CheckDetails,
    CheckInstance,
    CheckState,
    InstanceConfiguration,
    InstanceKey,
    is_kept,
)
from zkdeployment.checks.rules.monitoring_system import CheckResult, SystemContact, is_stale
from zkdeployment.fleet.views.health import Health
from zkdeployment.tree.values import is_below

if TYPE_CHECKING:
    from zkdeployment.checks.rules.findings import CheckGroupState
    from zkdeployment.fleet.views.fleet_health import AlarmTimes

#: The states that an operator may retry.
_FAILED = frozenset({CheckState.ROLLOUT_FAILED, CheckState.DEPROVISION_FAILED})


@dataclass(frozen=True, slots=True)
class InstanceFilter:
    """The instances that a request selects: all that match each given value.

    ``host`` is the id or the name of a host, ``path`` a node of the tree: services at and below it are selected.
    """

    state: CheckState | None = None
    host: str | None = None
    path: str | None = None
    check: str | None = None
    system: str | None = None

    def selects(self, instance: CheckInstance) -> bool:
        """Whether the filter selects an instance."""
        key = instance.key
        return (
            self.state in {None, shown_state(instance)}
            and self.host in {None, key.host, host_name(instance)}
            and (self.path is None or is_below(key.path, self.path.rstrip("/")))
            and self.check in {None, key.check}
            and self.system in {None, instance.system}
        )


def read_state(text: str | None) -> CheckState | None:
    """Return the state that a request names, ``None`` without one; raises ``ConfigurationError``."""
    names = [state.value for state in CheckState]
    if text is None:
        return None
    if text not in names:
        raise ConfigurationError(
            f"unknown state of a check: expected one of {', '.join(names)}, found {text[:100]!a}"
        )
    return CheckState(text)


def read_instance_id(text: str) -> str:
    """Return the stored form of an identifier; raises ``ConfigurationError`` unless it is a UUID."""
    with contextlib.suppress(ValueError):
        found = str(uuid.UUID(text))
        if found == text.lower():
            return found
    raise ConfigurationError(f"malformed identifier of a check instance: expected a UUID, found {text[:100]!a}")


def shown_configuration(instance: CheckInstance) -> InstanceConfiguration | None:
    """Return the configuration that represents an instance: the current one, else the last one."""
    last = instance.configurations[-1] if instance.configurations else None
    return instance.current_configuration or instance.newest or last


def shown_state(instance: CheckInstance) -> CheckState:
    """Return the state of an instance: the state of the configuration that represents it."""
    configuration = shown_configuration(instance)
    return CheckState.AWAITING_COMPUTATION if configuration is None else configuration.state


def is_failed(instance: CheckInstance) -> bool:
    """Whether the monitoring system failed to deploy or to undeploy an instance."""
    current = instance.current_configuration
    return current is not None and current.state in _FAILED


def host_name(instance: CheckInstance) -> str:
    """Return the name of the host of an instance; its id while the name is not known."""
    configuration = shown_configuration(instance)
    host = None if configuration is None else configuration.details.get("host")
    name = host.get("name") if isinstance(host, dict) else None
    return name if isinstance(name, str) else instance.key.host


def selected(instances: Iterable[CheckInstance], wanted: InstanceFilter) -> tuple[CheckInstance, ...]:
    """Return the instances that a filter selects, by check, service, host and number."""
    found = [instance for instance in instances if wanted.selects(instance)]
    return tuple(sorted(found, key=_order))


def listed_part(instance: CheckInstance) -> CheckInstance:
    """Return an instance as lists need it: its details have only the host, and former versions are omitted."""
    shown, host = shown_configuration(instance), host_name(instance)
    details: CheckDetails = {"host": {"name": host}}
    return replace(
        instance,
        configurations=tuple(
            replace(found, details=details)
            for found in instance.configurations
            if is_kept(found) or found is shown
        ),
    )


@dataclass(frozen=True, slots=True)
class CheckInstanceView(Record):
    """A check instance; ``changed`` is when it entered its state, in seconds since the epoch.

    ``maintenance`` is the maintenance of its host, if there is one. The answers of acts on many instances have
    neither results nor maintenance.
    """

    id: str
    check: str
    path: str
    number: int
    host: str
    name: str
    attributes: Mapping[str, Any]
    monitoring: str
    state: CheckState
    version: int | None
    reason: str
    changed: float | None
    update_available: bool
    deleted: bool
    result: CheckResult | None
    maintenance: Maintenance | None


def instance_view(
    instance: CheckInstance, result: CheckResult | None, maintenance: Maintenance | None = None
) -> CheckInstanceView:
    """Return an instance as one of those that ``checks instances -o json`` prints.

    ``maintenance`` is that of its host.
    """
    key, configuration = instance.key, shown_configuration(instance)
    return CheckInstanceView(
        instance.id,
        key.check,
        key.path,
        key.number,
        key.host,
        host_name(instance),
        dict(key.attributes),
        instance.system,
        shown_state(instance),
        None if configuration is None else configuration.version,
        "" if configuration is None else configuration.reason,
        None if configuration is None else configuration.changed,
        instance.update_available,
        instance.deleted,
        result,
        maintenance,
    )


def instance_to_view(
    instance: CheckInstance, result: CheckResult | None, maintenance: Maintenance | None
) -> dict[str, Any]:
    """Return one instance with all its versions, as ``checks instances UUID -o json`` prints it."""
    return {
        **instance_view(instance, result, maintenance).to_json(),
        "current": instance.current,
        "notified": instance.notified,
        "configurations": [_version(found) for found in instance.configurations],
    }


def _version(configuration: InstanceConfiguration) -> dict[str, Any]:
    value = configuration.to_json()
    value["monitoring"] = value.pop("system")
    return value


def waiting_since(instances: Iterable[CheckInstance]) -> float | None:
    """Return the earliest time at which an instance entered its state; ``None`` without instances."""
    shown = (shown_configuration(instance) for instance in instances)
    return min((found.changed for found in shown if found is not None), default=None)


def unheard_since(contact: SystemContact | None, instances: Iterable[CheckInstance], now: float) -> float | None:
    """Return the time of the last report of a silent monitoring system with active instances.

    ``instances`` are the instances of the system. ``None`` means that the system is not silent, or has no active
    instance.
    """
    if not is_stale(contact, now):
        return None
    current = (instance.current_configuration for instance in instances)
    active = min(
        (found.changed for found in current if found is not None and found.state is CheckState.ACTIVE),
        default=None,
    )
    reported = None if contact is None else contact.reported
    return active if active is None or reported is None else max(active, reported)


def state_counts(instances: Iterable[CheckInstance]) -> dict[str, int]:
    """Return the number of instances in each state; states without instances are omitted."""
    counts = dict.fromkeys(CheckState, 0)
    for instance in instances:
        counts[shown_state(instance)] += 1
    return {state.value: count for state, count in counts.items() if count}


@dataclass(frozen=True, slots=True)
class SystemBacklog(Record):
    """A monitoring system: its callback, its last contacts, and the instances that wait for it.

    ``flagged`` are the instances with an update of which the system was not notified, ``open`` the instances that
    wait to be deployed or undeployed, and ``failed`` the instances that the system could not deploy or undeploy.
    ``waiting_since`` is when the first of the waiting instances entered its state; ``None`` without waiting
    instances. ``unheard_since`` is when a silent system last reported results; ``None`` if the system reports, or
    has no active check. Times are in seconds since the epoch.
    """

    name: str
    callback: str | None = None
    fetched: float | None = None
    reported: float | None = None
    flagged: Annotated[frozenset[str], Key(write=len, form=int)] = frozenset()
    open: Annotated[frozenset[str], Key(write=len, form=int)] = frozenset()
    failed: Annotated[frozenset[str], Key(write=len, form=int)] = frozenset()
    waiting_since: float | None = None
    unheard_since: float | None = None

    @property
    def waiting(self) -> frozenset[str]:
        """The instances that wait for the system."""
        return self.flagged | self.open

    def silent_for(self, now: float) -> float:
        """Return the number of seconds for which instances have waited without a fetch; 0 if no instance waits."""
        if self.waiting_since is None:
            return 0.0
        return max(0.0, now - max(self.waiting_since, self.fetched or 0.0))

    def waiting_for(self, now: float) -> float:
        """Return the number of seconds for which the first waiting instance has waited; 0 if no instance waits."""
        return 0.0 if self.waiting_since is None else max(0.0, now - self.waiting_since)

    def unheard_for(self, now: float) -> float:
        """Return the seconds without a report of the system while checks are active; 0 if the system reports."""
        return 0.0 if self.unheard_since is None else max(0.0, now - self.unheard_since)

    @shown("backlog")
    def _backlog(self) -> int:
        return len(self.waiting)


@dataclass(frozen=True, slots=True)
class CheckSummary:
    """All monitoring systems and check groups, by name.

    ``unwritten`` are the reasons for which instances could not be written, by the beginning of their identifiers.
    """

    systems: tuple[SystemBacklog, ...] = ()
    unwritten: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[CheckGroupState, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the summary as ``checks summary -o json`` prints it."""
        return {
            "monitoring": [system.to_json() for system in self.systems],
            "unwritten": dict(self.unwritten),
            "groups": [group.to_json() for group in self.groups],
        }


def _order(instance: CheckInstance) -> tuple[str, str, str, int, str]:
    key = instance.key
    return key.check, key.path, key.host, key.number, instance.id


#: Seconds without a report after which a drift of a check has ended.
_REMEMBERED = 3600.0

#: Seconds after which a repeated drift is recorded again, and the most recorded drifts.
_PACE = 60.0
_MOST = 500


@dataclass(frozen=True, slots=True)
class DroppedResult(Record):
    """Results of an instance that were dropped because they are of another configuration.

    ``config_id`` is that configuration; empty if the monitoring system named none. Results of it have been dropped
    from ``since`` until ``seen``, in seconds since the epoch.
    """

    config_id: str
    since: float
    seen: float


def _or_none(text: str) -> str | None:
    return text or None


@dataclass(frozen=True, slots=True)
class CheckDrift(Record):
    """A check that a monitoring system runs in the configuration ``reported`` instead of ``expected``.

    ``instance`` is ``None`` if it does not exist, and ``expected`` if the system should not run the check.
    """

    id: str
    system: Annotated[str, Key("monitoring")]
    reported: Annotated[str, Key(write=_or_none, form=str | None)]
    expected: str | None
    since: float
    seen: float
    instance: Annotated[CheckInstance | None, APART] = None

    @property
    def _key(self) -> InstanceKey | None:
        return None if self.instance is None else self.instance.key

    @shown("check")
    def _check(self) -> str | None:
        return None if self._key is None else self._key.check

    @shown("path")
    def _path(self) -> str | None:
        return None if self._key is None else self._key.path

    @shown("number")
    def _number(self) -> int | None:
        return None if self._key is None else self._key.number

    @shown("host")
    def _host(self) -> str | None:
        return None if self._key is None else self._key.host

    @shown("name")
    def _name(self) -> str | None:
        return None if self.instance is None else host_name(self.instance)


def expected_configuration(instance: CheckInstance | None, system: str) -> str | None:
    """Return the configuration that a monitoring system has to run; ``None`` for an instance of another system."""
    current = None if instance is None or instance.system != system else instance.current_configuration
    return None if current is None else current.config_id


def with_report(
    known: Mapping[str, DroppedResult], dropped: Mapping[str, str], kept: Collection[str], now: float
) -> dict[str, DroppedResult]:
    """Return the records of a monitoring system after it reported results.

    ``dropped`` are the configurations of dropped results, and ``kept`` the instances whose results count.
    """
    records = {
        instance: record
        for instance, record in known.items()
        if instance not in kept and now - record.seen < _REMEMBERED
    }
    for instance, config_id in dropped.items():
        former = records.get(instance)
        if former is None or former.config_id != config_id:
            records[instance] = DroppedResult(config_id, now, now)
        elif abs(now - former.seen) >= _PACE:
            records[instance] = DroppedResult(config_id, former.since, now)
    return dict(sorted(records.items(), key=lambda item: (-item[1].seen, item[0]))[:_MOST])


def check_drift(
    records: Mapping[str, Mapping[str, DroppedResult]], instances: Mapping[str, CheckInstance], now: float
) -> tuple[CheckDrift, ...]:
    """Return the present drift; ``records`` is keyed by monitoring system and instance."""
    return tuple(
        CheckDrift(instance_id, system, record.config_id, expected, record.since, record.seen, found)
        for system, dropped in sorted(records.items())
        for instance_id, record in sorted(dropped.items())
        for found in (instances.get(instance_id),)
        for expected in (expected_configuration(found, system),)
        if now - record.seen < _REMEMBERED and expected != record.config_id
    )


#: The limit of reasons that an alarm names.
_NAMED = 2

#: The severities of the states of groups that are reported; a group that lacks hosts in maintenance is no problem.
_SEVERITIES = {"in maintenance": Health.OK, "warning": Health.WARNING, "critical": Health.CRITICAL}


def check_alarms(checks: CheckSummary, times: AlarmTimes) -> Iterator[tuple[Health, str]]:
    """Yield the problems of monitoring systems with their severity.

    The limits apply to the time for which the first instance has waited, and to the time without a report.
    """
    now, limits = times.now, times.limits
    for system in checks.systems:
        waited, silent = system.waiting_for(now), system.silent_for(now)
        health, _ = limits.judge(waited / 60)
        waiting = counted(len(system.waiting), "check instance")
        if health is not Health.OK and limits.judge(silent / 60)[0] is not Health.OK:
            yield (
                health,
                f"monitoring system {system.name} has fetched nothing for {age(silent)}: {waiting} waiting",
            )
        elif health is not Health.OK:
            yield health, f"monitoring system {system.name}: {waiting} waiting, the first for {age(waited)}"
        unheard = system.unheard_for(now)
        health, _ = limits.judge(unheard / 60)
        if health is not Health.OK:
            yield health, f"monitoring system {system.name} has reported no results for {age(unheard)}"
        if system.failed:
            failed = counted(len(system.failed), "check instance")
            yield Health.WARNING, f"monitoring system {system.name} could not deploy or remove {failed}"
    for found in checks.groups:
        if found.state in _SEVERITIES:
            yield _SEVERITIES[found.state], f"check group {found.group.name}: {found.sentence}"
    if checks.unwritten:
        reasons = listing(sorted({*checks.unwritten.values()}), _NAMED)
        yield Health.WARNING, f"check instances cannot be written: {reasons}"
