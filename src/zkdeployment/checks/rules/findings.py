"""The findings of checks on hosts, services and groups, and the reading that lists and rollouts share."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

from zkdeployment.base.records import APART, Key, Record, shown
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass
from zkdeployment.checks.documents import CheckGroup, GroupLevel
from zkdeployment.checks.rules.instance import CheckInstance, CheckState, InstanceKey
from zkdeployment.checks.rules.listing import (
    CheckInstanceView,
    CheckSummary,
    SystemBacklog,
    host_name,
    instance_view,
    is_failed,
    shown_configuration,
    shown_state,
    unheard_since,
    waiting_since,
)
from zkdeployment.checks.rules.monitoring_system import CheckResult, ResultState, SystemContact, is_stale
from zkdeployment.checks.rules.workflow import is_open
from zkdeployment.fleet.views.status import HostState
from zkdeployment.strategies.criteria import HostHealth
from zkdeployment.tree.values import is_below

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zkdeployment.base.act import Maintenance


#: The states in which no configuration of an instance is deployed, so that its last result does not count.
_GONE = frozenset({CheckState.DEPROVISIONED, CheckState.AWAITING_DELETION})

#: The word for the findings of hosts in maintenance, which neither succeed nor fail.
_AWAY = HostState.MAINTENANCE.value

#: The words for findings, the worst first.
FINDING_WORDS = ("failed", "critical", "unknown", "warning", "pending", _AWAY, "ok")


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """A check instance with its last result; the result is unknown if its monitoring system is silent.

    ``maintenance`` is the maintenance of its host, if there is one.
    """

    instance: CheckInstance
    result: CheckResult | None = None
    maintenance: Maintenance | None = None

    @property
    def word(self) -> str:
        """The finding in a word: the state of the result, ``failed`` if the check cannot run, else ``pending``.

        Nothing counts while the host is in maintenance.
        """
        if self.maintenance is not None:
            return _AWAY
        if is_failed(self.instance):
            return "failed"
        if self.result is None or shown_state(self.instance) is not CheckState.ACTIVE:
            return "pending"
        return self.result.state.value

    @property
    def subject(self) -> str:
        """The check, and the deployment that it concerns."""
        key = self.instance.key
        chosen = "".join(f", {name} {value}" for name, value in key.attributes)
        return f"{key.check} of {key.path} {key.number}{chosen}"

    @property
    def host(self) -> str:
        """The name of the host."""
        return host_name(self.instance)

    @property
    def detail(self) -> str:
        """The output of the check, the reason of a failure, or the obstacle of a check without a result.

        Of a host in maintenance, it is that maintenance.
        """
        if self.maintenance is not None:
            return str(self.maintenance)
        configuration = shown_configuration(self.instance)
        if self.word == "failed" and configuration is not None:
            return f"{configuration.state.value}: {configuration.reason}".removesuffix(": ")
        if self.word == "pending" or self.result is None:
            state = shown_state(self.instance)
            return "no result yet" if state is CheckState.ACTIVE else state.value
        return self.result.output.partition("\n")[0]

    def to_json(self) -> dict[str, Any]:
        """Return the finding as one of the instances that ``checks instances -o json`` prints."""
        return instance_view(self.instance, self.result, self.maintenance).to_json()


def known_results(
    instances: Mapping[str, CheckInstance],
    results: Mapping[str, CheckResult],
    contacts: Mapping[str, SystemContact],
    now: float,
) -> dict[str, CheckResult]:
    """Return the results of instances, all by identifier; those of a silent monitoring system are unknown.

    An instance that is no longer deployed has no result, and a result counts only for the current configuration.
    ``contacts`` are keyed by monitoring system.
    """
    systems = {found.system for found in instances.values()}
    silent = {system for system in systems if is_stale(contacts.get(system), now)}
    return {
        instance_id: _unknown(results[instance_id]) if found.system in silent else results[instance_id]
        for instance_id, found in instances.items()
        if instance_id in results and shown_state(found) not in _GONE and _is_current(results[instance_id], found)
    }


def check_findings(
    instances: Mapping[str, CheckInstance],
    results: Mapping[str, CheckResult],
    maintenance: Mapping[str, Maintenance] = MappingProxyType({}),
) -> tuple[CheckFinding, ...]:
    """Return the findings of wanted instances, the worst first; ``results`` are the known results.

    ``maintenance`` is that of hosts, by host id.
    """
    findings = (
        CheckFinding(found, results.get(instance_id), maintenance.get(found.key.host))
        for instance_id, found in instances.items()
        if not found.deleted
    )
    return tuple(sorted(findings, key=lambda finding: (FINDING_WORDS.index(finding.word), finding.subject)))


def _is_current(result: CheckResult, instance: CheckInstance) -> bool:
    configuration = shown_configuration(instance)
    return configuration is None or result.is_of(configuration.config_id)


def _unknown(result: CheckResult) -> CheckResult:
    return replace(result, state=ResultState.UNKNOWN, output="its monitoring system reports no results any more")


#: The limits of deployments that a sentence names, and that the JSON form lists.
_NAMED = 3
_LISTED = 100


def _listed(deployments: tuple[str, ...]) -> list[str]:
    return [*deployments[:_LISTED]]


@dataclass(frozen=True, slots=True)
class CheckGroupState(Record):
    """A group with its deployments: how many are OK, which have no result yet, and which are not OK.

    A deployment is OK if all its checks that count are OK. Deployments on hosts ``in_maintenance`` are away by
    intention: they are neither OK nor failing.
    """

    group: Annotated[CheckGroup, APART]
    ok: int = 0
    pending: Annotated[tuple[str, ...], Key(write=_listed)] = ()
    failing: Annotated[tuple[str, ...], Key(write=_listed)] = ()
    in_maintenance: Annotated[tuple[str, ...], Key(write=_listed)] = ()

    @property
    @shown("total")
    def total(self) -> int:
        """The number of deployments."""
        return self.ok + sum(map(len, (self.pending, self.failing, self.in_maintenance)))

    @property
    @shown("state")
    def state(self) -> Literal["ok", "pending", "in maintenance", "warning", "critical"]:
        """``ok``; ``pending``, if the state depends on checks without a result; or the level of the group.

        A group that only lacks deployments in maintenance is ``in maintenance``.
        """
        if self.ok >= self.group.at_least:
            return "ok"
        if self.ok + len(self.pending) >= self.group.at_least:
            return "pending"
        is_away = not self.failing and self.total >= self.group.at_least
        return "in maintenance" if is_away else self.group.level.value

    @property
    def sentence(self) -> str:
        """The state in a sentence."""
        group = self.group
        counted = f"deployments of {group.path or '/'} that are OK: {self.ok} of {self.total}"
        named = listing([*self.failing, *self.pending], _NAMED)
        away = listing(self.in_maintenance, _NAMED)
        others = (f"; not OK: {named}" if named else "") + (f"; in maintenance: {away}" if away else "")
        return f"{counted}, expected at least {group.at_least}{others}"

    @shown("name")
    def _name(self) -> str:
        return self.group.name

    @shown("object")
    def _object(self) -> str:
        return self.group.path or "/"

    @shown("at_least")
    def _at_least(self) -> int:
        return self.group.at_least

    @shown("level")
    def _level(self) -> GroupLevel:
        return self.group.level


_OK, _PENDING = "ok", "pending"


def group_states(groups: Iterable[CheckGroup], findings: Collection[CheckFinding]) -> tuple[CheckGroupState, ...]:
    """Return the states of groups by name; ``findings`` has those of all instances of the groups."""
    return tuple(_state(group, findings) for group in sorted(groups, key=lambda group: group.name))


def belongs_to(group: CheckGroup, path: str, check: str) -> bool:
    """Whether the results of a check of the service at a path count for a group."""
    return is_below(path, group.path) and (not group.checks or check in group.checks)


def _state(group: CheckGroup, findings: Iterable[CheckFinding]) -> CheckGroupState:
    words: dict[str, set[str]] = {}
    for finding in findings:
        key = finding.instance.key
        if belongs_to(group, key.path, key.check):
            words.setdefault(f"{key.path} {key.number} on {finding.host}", set()).add(finding.word)
    pending = tuple(
        sorted(name for name, found in words.items() if found <= {_OK, _PENDING} and _PENDING in found)
    )
    away = tuple(sorted(name for name, found in words.items() if _AWAY in found))
    failing = tuple(sorted(name for name, found in words.items() if not found <= {_OK, _PENDING, _AWAY}))
    return CheckGroupState(group, len(words) - len(pending) - len(failing) - len(away), pending, failing, away)


@dataclass(frozen=True, slots=True)
class CheckReading:
    """The listed parts of all instances, and the known results, both by identifier.

    ``findings`` has the findings of wanted instances, the worst first. ``maintenance`` is keyed by host id.
    """

    instances: Mapping[str, CheckInstance] = field(default_factory=dict)
    results: Mapping[str, CheckResult] = field(default_factory=dict)
    findings: tuple[CheckFinding, ...] = ()
    summary: CheckSummary = field(default_factory=CheckSummary)
    maintenance: Mapping[str, Maintenance] = field(default_factory=dict)

    def view(self, instance: CheckInstance) -> CheckInstanceView:
        """Return an instance with its known result and the maintenance of its host."""
        return instance_view(instance, self.results.get(instance.id), self.maintenance.get(instance.key.host))


@dataclass(frozen=True, slots=True)
class SystemRecord:
    """The records of a monitoring system; ``results`` are keyed by instance."""

    callback: str | None = None
    contact: SystemContact = field(default_factory=SystemContact)
    results: Mapping[str, CheckResult] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SystemIndex:
    """The instances of a monitoring system that concern operators; the fields are those of ``SystemBacklog``."""

    flagged: frozenset[str] = frozenset()
    open: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, instances: Mapping[str, CheckInstance]) -> SystemIndex:
        """Return the index of all instances of a system."""
        return cls(
            frozenset(key for key, found in instances.items() if found.update_available),
            frozenset(key for key, found in instances.items() if is_open(found)),
            frozenset(key for key, found in instances.items() if is_failed(found)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryBasis:
    """The facts of a summary.

    ``systems`` and ``indexes`` are keyed by monitoring system, ``maintenance`` by host id. ``instances`` has some
    of the waiting ones, all of silent systems, and the failed ones if a host is in maintenance. ``findings`` has
    those of all instances of the ``groups``. ``unwritten`` is that of the summary.
    """

    systems: Mapping[str, SystemRecord]
    indexes: Mapping[str, SystemIndex]
    instances: Mapping[str, CheckInstance]
    findings: Collection[CheckFinding] = ()
    groups: Iterable[CheckGroup] = ()
    unwritten: Mapping[str, str] = field(default_factory=dict)
    maintenance: Mapping[str, Maintenance] = field(default_factory=dict)


def check_reading(
    instances: Mapping[str, CheckInstance],
    systems: Mapping[str, SystemRecord],
    now: float,
    *,
    unwritten: Mapping[str, str] = MappingProxyType({}),
    groups: Iterable[CheckGroup] = (),
    maintenance: Mapping[str, Maintenance] = MappingProxyType({}),
) -> CheckReading:
    """Return the reading of all instances; the other arguments are as in ``SummaryBasis``."""
    reported = {name: system.results for name, system in systems.items()}
    last = {
        instance_id: result
        for instance_id, found in instances.items()
        if (result := reported.get(found.system, {}).get(instance_id)) is not None
    }
    contacts = {name: system.contact for name, system in systems.items()}
    results = known_results(instances, last, contacts, now)
    findings = check_findings(instances, results, maintenance)
    basis = SummaryBasis(
        systems=systems,
        indexes={name: SystemIndex.of(found) for name, found in _by_system(instances).items()},
        instances=instances,
        findings=findings,
        groups=groups,
        unwritten=unwritten,
        maintenance=maintenance,
    )
    return CheckReading(instances, results, findings, check_summary(basis, now), maintenance)


def silent_systems(systems: Mapping[str, SystemRecord], now: float) -> frozenset[str]:
    """Return the monitoring systems whose results are unknown because they reported nothing for too long."""
    return frozenset(name for name, system in systems.items() if is_stale(system.contact, now))


def check_summary(basis: SummaryBasis, now: float) -> CheckSummary:
    """Return the monitoring systems, with what waits for them, and the groups.

    Failed instances of hosts in maintenance are omitted.
    """
    instances = basis.instances
    away = {key for key, found in instances.items() if found.key.host in basis.maintenance}
    by_system = _by_system(instances)
    backlogs = (
        SystemBacklog(
            name,
            system.callback,
            system.contact.fetched,
            system.contact.reported,
            index.flagged,
            index.open,
            index.failed - away,
            waiting_since(instances[key] for key in index.flagged | index.open if key in instances),
            unheard_since(system.contact, by_system[name].values(), now),
        )
        for name, system in sorted(basis.systems.items())
        for index in (basis.indexes.get(name, SystemIndex()),)
    )
    return CheckSummary(tuple(backlogs), basis.unwritten, group_states(basis.groups, basis.findings))


def _by_system(instances: Mapping[str, CheckInstance]) -> Mapping[str, Mapping[str, CheckInstance]]:
    found: dict[str, dict[str, CheckInstance]] = defaultdict(dict)
    for instance_id, instance in instances.items():
        found[instance.system][instance_id] = instance
    return found


#: The most characters of an output that a reason quotes.
_LONGEST_OUTPUT = 80


def host_health(
    wanted: Iterable[InstanceKey],
    instances: Mapping[str, CheckInstance],
    results: Mapping[str, CheckResult],
    since: Mapping[str, float],
) -> HostHealth:
    """Return the health of hosts.

    ``wanted`` are the keys of the checks that the publication wants on these hosts. ``instances`` and ``results``
    are keyed by identifier. ``since`` is the time of each host's deployment, by id.
    """
    unhealthy: dict[str, str] = {}
    unchecked: dict[str, str] = {}
    for key in wanted:
        instance, result = instances.get(key.id), results.get(key.id)
        obstacle = _obstacle(instance, result, since[key.host])
        if obstacle is not None:
            unchecked.setdefault(key.host, f"check {_name(key)} {obstacle}")
        elif result is not None and result.state is not ResultState.OK:
            output = result.output[:_LONGEST_OUTPUT].partition("\n")[0]
            unhealthy.setdefault(key.host, f"check {_name(key)} is {result.state.value}: {output}")
    return HostHealth(unhealthy, unchecked)


def _obstacle(instance: CheckInstance | None, result: CheckResult | None, since: float) -> str | None:
    """Return why the result of a check does not count for the deployment; ``None`` if it counts."""
    newest = None if instance is None else instance.newest
    if newest is None:
        return "was not computed yet"
    if newest.state is not CheckState.ACTIVE:
        return f"is {newest.state.value}" + (f": {newest.reason[:_LONGEST_OUTPUT]}" if newest.reason else "")
    if result is None or not result.is_of(newest.config_id) or not result.is_newer(since, newest.changed):
        return "has no result since the deployment"
    return None


def _name(key: InstanceKey) -> str:
    values = "".join(f", {name} {value}" for name, value in key.attributes)
    return f"{key.check} of {key.path} {key.number}{values}"
