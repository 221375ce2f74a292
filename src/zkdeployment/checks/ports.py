"""The adapters of checks that have more than one implementation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from zkdeployment.base.errors import NotFoundError, RefusedError
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass
from zkdeployment.checks.documents import CHECK, CHECK_GROUP, SYSTEM, CheckGroup
from zkdeployment.checks.rules.findings import (
    CheckFinding,
    SummaryBasis,
    SystemIndex,
    SystemRecord,
    belongs_to,
    check_findings,
    check_summary,
    known_results,
    silent_systems,
)
from zkdeployment.checks.rules.listing import (
    CheckDrift,
    CheckSummary,
    InstanceFilter,
    check_drift,
    is_failed,
    listed_part,
    selected,
)
from zkdeployment.checks.rules.monitoring_system import REMOVAL_ALLOWED, CheckResult, SystemContact
from zkdeployment.checks.rules.spawning import CheckScope, CheckSnapshot, wanted_instances
from zkdeployment.checks.rules.workflow import CheckRefusal, abandon, retry
from zkdeployment.tree.values import is_below

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from zkdeployment.base.act import Act
    from zkdeployment.checks.nagios.batch import CheckAnswer, DeployedInstances, FetchedDetails
    from zkdeployment.checks.nagios.files import NagiosResult
    from zkdeployment.checks.rules.instance import CheckInstance
    from zkdeployment.checks.store.instances import ZooKeeperCheckInstances
    from zkdeployment.checks.store.systems import ZooKeeperMonitoringSystems
    from zkdeployment.fleet.store.audit import ZooKeeperActLog
    from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader


#: The limit of waiting instances of a monitoring system that are read to compute how long they have waited.
_SAMPLE = 1000

#: The limit of checks that a refusal names.
_NAMED = 5


class CheckSources(Protocol):
    """The sources from which check instances are computed. Only one thread may call the method."""

    def read(self, awaited: Collection[str] = ()) -> CheckSnapshot:
        """Return the present sources: the same value, without a read, as long as nothing has changed.

        ``awaited`` are the hosts (by id) whose deployments are needed; the deployments of other registered hosts
        may be missing. During a publication, the sources are those of the previous publication. Raises
        ``UnreachableError``, and ``ConflictError`` if the sources change all the time.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAdapters:
    """The adapters with which operators see check instances and act on them."""

    fleet: ZooKeeperFleetReader
    instances: ZooKeeperCheckInstances
    systems: ZooKeeperMonitoringSystems
    sources: CheckSources
    acts: ZooKeeperActLog

    def document(self, name: str) -> Mapping[str, Any]:
        """Return the published document of a configuration; raises ``NotFoundError``."""
        content = self.fleet.documents().contents.get((CHECK.name, (name,)))
        if content is None:
            raise NotFoundError(f"there is no published check {name}; 'zkdeployment checks list' lists all")
        return content

    def summary(self, now: float) -> CheckSummary:
        """Return the monitoring systems with their last contacts and the instances that wait for them.

        All instances are read only if a published monitoring system is silent.
        """
        contacts, documents = self.systems.contacts(), self.fleet.documents()
        maintenance = self.fleet.maintenance(now)
        systems = {
            name: SystemRecord(callback, contacts.get(name, SystemContact()))
            for name, callback in self.systems.callbacks().items()
        }
        indexes = {name: self._index(name) for name in systems}
        published = {found.name for found in documents.of(SYSTEM).values()}
        silent = published & silent_systems(systems, now)
        some = [key for each in indexes.values() for key in sorted(each.flagged | each.open)[:_SAMPLE]]
        needed = {*some, *(key for each in indexes.values() if maintenance for key in each.failed)}
        members = self._members(documents.of(CHECK_GROUP).values())
        basis = SummaryBasis(
            systems=systems,
            indexes=indexes,
            instances=self._scan(silent, needed) if silent else self.instances.find(needed),
            findings=check_findings(members, self.results(members.values(), now), maintenance),
            groups=documents.of(CHECK_GROUP).values(),
            unwritten=self.instances.unwritten(),
            maintenance=maintenance,
        )
        return check_summary(basis, now)

    def _members(self, groups: Collection[CheckGroup]) -> Mapping[str, CheckInstance]:
        """Return the instances of groups, by identifier; no other instances are read."""
        if not groups:
            return {}
        basis = self.sources.read().basis
        concerned = (path for path in basis.properties if any(is_below(path, group.path) for group in groups))
        ids = [
            found.id
            for found in wanted_instances(basis, CheckScope(paths=frozenset(concerned)))
            if any(belongs_to(group, found.key.path, found.key.check) for group in groups)
        ]
        return self.instances.find(ids)

    def _index(self, system: str) -> SystemIndex:
        """Return the index of a monitoring system."""
        read = self.instances
        return SystemIndex(
            frozenset(read.flagged(system)), frozenset(read.open(system)), frozenset(read.failed(system))
        )

    def _scan(self, systems: Collection[str], others: Collection[str]) -> dict[str, CheckInstance]:
        """Return the listed parts of the instances of monitoring systems, and of the ``others``."""
        scanned = self.instances.scan(skip_damaged=True)
        return {found.id: listed_part(found) for found in scanned if found.system in systems or found.id in others}

    def select(self, wanted: InstanceFilter) -> tuple[CheckInstance, ...]:
        """Return the instances that a filter selects, by check, service, host and number."""
        return selected(self.instances.scan(), wanted)

    def findings(self, hosts: Collection[str], now: float, path: str | None = None) -> tuple[CheckFinding, ...]:
        """Return the findings of the published checks of these hosts (by id), the worst first.

        With ``path``, only findings of one service are returned. The number of reads grows with the number of the
        hosts' checks.
        """
        if not self.fleet.documents().of(CHECK):
            return ()
        basis = self.sources.read().basis
        some = {host: found for host, found in basis.hosts.items() if host in hosts}
        wanted = wanted_instances(replace(basis, hosts=some))
        instances = self.instances.find([found.id for found in wanted if path in {None, found.key.path}])
        return check_findings(instances, self.results(instances.values(), now), self.fleet.maintenance(now))

    def drift(self, now: float) -> tuple[CheckDrift, ...]:
        """Return the checks that monitoring systems run in other configurations than the deployed ones."""
        records = self.systems.drift()
        ids = {instance for dropped in records.values() for instance in dropped}
        return check_drift(records, self.instances.find(ids), now)

    def find(self, instance_id: str) -> CheckInstance:
        """Return an instance; raises ``NotFoundError``."""
        found = self.instances.find([instance_id]).get(instance_id)
        if found is None:
            raise NotFoundError(
                f"there is no check instance {instance_id}; 'zkdeployment checks instances' lists all"
            )
        return found

    def results(self, instances: Collection[CheckInstance], now: float) -> dict[str, CheckResult]:
        """Return the last results of instances, by identifier; those of a silent monitoring system are unknown."""
        by_id = {instance.id: instance for instance in instances}
        by_system: dict[str, list[str]] = {}
        for instance_id, instance in by_id.items():
            by_system.setdefault(instance.system, []).append(instance_id)
        found: dict[str, CheckResult] = {}
        for system, ids in by_system.items():
            found |= self.systems.results(system, ids) if system else {}
        return known_results(by_id, found, self.systems.contacts(), now) if found else {}

    def retry(self, instances: Collection[CheckInstance], act: Act) -> tuple[CheckInstance, ...]:
        """Let monitoring systems try failed deployments and undeployments again; return the changed instances.

        Raises ``RefusedError`` if none of the instances has failed.
        """
        refusals: list[str] = []

        def change(instance_id: str, instance: CheckInstance | None) -> CheckInstance | None:
            outcome = CheckRefusal("it is gone") if instance is None else retry(instance, act.time)
            if isinstance(outcome, CheckRefusal):
                refusals.append(f"the check instance {instance_id} cannot be retried: {outcome.reason}")
                return instance
            return outcome

        outcomes = self.instances.change([instance.id for instance in instances], change)
        changed = tuple(after for before, after in outcomes.values() if after is not None and after != before)
        if not changed:
            raise RefusedError(
                refusals[0] if refusals else "no failed check instance is selected: nothing to retry"
            )
        self.acts.record(act)
        return changed

    def held(self, system: str) -> tuple[CheckInstance, ...]:
        """Return the instances that a monitoring system has in any configuration, or that wait for it."""
        scanned = self.instances.scan(skip_damaged=True)
        return tuple(found for found in scanned if abandon(found, system, 0.0) != found)

    def abandon(self, system: str, act: Act) -> tuple[CheckInstance, ...]:
        """End the instances of a monitoring system that is gone; return the changed ones.

        Raises ``RefusedError`` if published checks name the system, or if it has no instances.
        """
        checks = self.fleet.documents().of(CHECK).values()
        naming = sorted(found.name for found in checks if found.monitoring == system)
        if naming:
            raise RefusedError(
                f"the monitoring system {system} is not abandoned: published checks name it"
                f" ({listing(naming, _NAMED)}); delete them, or let them name another monitoring system first"
            )
        reason = f"abandoned: {act.reason}"
        outcomes = self.instances.change(
            [found.id for found in self.held(system)],
            lambda _, found: None if found is None else abandon(found, system, act.time, reason),
        )
        changed = tuple(after for before, after in outcomes.values() if after is not None and after != before)
        if not changed:
            raise RefusedError(f"no check instance waits for the monitoring system {system}: nothing to abandon")
        self.acts.record(act)
        return changed

    def allow_removal(self, system: str, act: Act) -> float:
        """Allow the bridge of a monitoring system to remove many unknown checks; return the end of the permission.

        Raises ``NotFoundError`` for an unknown system.
        """
        if system not in self.systems.callbacks():
            raise NotFoundError(
                f"there is no monitoring system {system} with checks; 'zkdeployment checks summary' lists all"
            )
        until = act.time + REMOVAL_ALLOWED
        self.systems.allow_removal(system, until)
        self.acts.record(act)
        return until

    def failed(self, wanted: InstanceFilter) -> tuple[CheckInstance, ...]:
        """Return the failed instances that a filter selects."""
        names = self.systems.callbacks() if wanted.system is None else [wanted.system]
        ids = [instance for name in names for instance in self.instances.failed(name)]
        return tuple(found for found in selected(self.instances.find(ids).values(), wanted) if is_failed(found))


class MonitoringService(Protocol):
    """The service, as a monitoring system sees it. All methods raise ``ServiceError``."""

    def list_flagged(self) -> frozenset[str]:
        """Return the instances that have changed since the last call; no other call returns these changes."""

    def list_pending(self) -> frozenset[str]:
        """Return the instances that wait to be rolled out or removed, or for the answer about that."""

    def list_deployed(self) -> DeployedInstances:
        """Return the instances that are rolled out, and those whose removal failed."""

    def fetch(self, instances: Sequence[str]) -> FetchedDetails:
        """Return the details of at most ``MOST_INSTANCES`` instances, which are in progress from now on."""

    def answer(self, answers: Sequence[CheckAnswer]) -> Mapping[str, str]:
        """Report the outcomes of deployments, at most ``MOST_INSTANCES``.

        A late answer changes nothing and is not an error. The result has the reasons why other answers were not
        recorded, by instance.
        """

    def report_results(self, results: Mapping[str, NagiosResult]) -> frozenset[str]:
        """Report results of checks, and that the monitoring system is alive.

        Return the instances whose results do not count, because they are not deployed in this configuration.
        """

    def list_working_hosts(self) -> frozenset[str]:
        """Return the ids of the hosts whose checks may fail: those in a deployment step or in maintenance."""
