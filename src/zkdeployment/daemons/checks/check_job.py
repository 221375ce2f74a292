"""The job: it makes the check instances those that the published configurations, services and hosts want."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.checks.basis import changed_scope
from zkdeployment.checks.instance import CheckInstance, CheckState
from zkdeployment.checks.life_cycle import with_last_versions
from zkdeployment.checks.ordering import WantedConfiguration, delete, want
from zkdeployment.checks.spawning import deciding_instance, wanted_instances
from zkdeployment.daemons.checks.isolated_changes import IsolatedChanges
from zkdeployment.log import get_logger
from zkdeployment.model.deployment import Deployment

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zkdeployment.adapters.zookeeper.checks.instances import ChangedInstance, ZooKeeperCheckInstances
    from zkdeployment.checks.basis import CheckedHost
    from zkdeployment.checks.sources import CheckSnapshot
    from zkdeployment.checks.spawning import WantedInstance
    from zkdeployment.ports.checks import CheckSources
    from zkdeployment.ports.process import Clock


#: Seconds until all instances are compared again, if some of them could not be written.
_RETRY = 300.0


@dataclass(frozen=True, slots=True)
class _Awaited:
    """The deployment for which a configuration that awaits its computation waits."""

    host: str
    deployment: Deployment
    publication: int

    def is_completed(self, hosts: Mapping[str, CheckedHost]) -> bool:
        """Whether the host has completed the publication; its deployments may not be read yet."""
        host = hosts.get(self.host)
        return host is not None and host.completed >= self.publication

    def is_reported(self, hosts: Mapping[str, CheckedHost]) -> bool:
        host = hosts.get(self.host)
        return host is not None and host.has_reported(self.deployment, self.publication)


class CheckJob:
    """Computes and orders instances.

    The job keeps the sources that it computed last, but no instances: a change of the sources leads to the
    instances that it concerns, and only these are read. After ``forget``, the next run compares all of them.
    """

    def __init__(self, instances: ZooKeeperCheckInstances, sources: CheckSources, clock: Clock) -> None:
        self._instances = instances
        self._sources = sources
        self._clock = clock
        self._computed: CheckSnapshot | None = None
        self._compared_at = 0.0
        self._awaited: dict[str, _Awaited] = {}
        #: Instances that cannot be written do not delay others.
        self.changes = IsolatedChanges(instances)
        #: The hosts whose deployments are of interest: they have completed a publication that instances await.
        self._followed: frozenset[str] = frozenset()

    @property
    def computed(self) -> CheckSnapshot | None:
        """The sources of the instances that were written last; other threads may ask for them."""
        return self._computed

    def forget(self) -> None:
        """Read and compare all instances in the next run: others, or a run that failed, may have changed them."""
        self._computed = None
        self.changes.forget()

    def run(self) -> CheckSnapshot:
        """Compute the instances that changes of the sources concern; return the sources."""
        snapshot = self._sources.read(self._followed)
        if self._computed is None or (self.changes and self._clock.now() - self._compared_at >= _RETRY):
            self._compute_all(snapshot)
        elif snapshot is not self._computed:
            self._compute_changed(self._computed, snapshot)
        self._computed = snapshot
        self._followed = frozenset(
            awaited.host for awaited in self._awaited.values() if awaited.is_completed(snapshot.basis.hosts)
        )
        snapshot = self._sources.read(self._followed)
        self._compute_reported(snapshot)
        return snapshot

    def _compute_all(self, snapshot: CheckSnapshot) -> None:
        """Compare all instances with the wanted ones, and write those that differ."""
        self._awaited, self._compared_at = {}, self._clock.now()
        wanted, former = _by_id(wanted_instances(snapshot.basis)), set()
        now, different = self._clock.now(), []
        for instance in self._instances.scan(skip_damaged=True):
            former.add(instance.id)
            self._note(instance.id, instance)
            if _wanted(instance, deciding_instance(wanted, instance.key), snapshot, now) != instance:
                different.append(instance.id)
        missing = [found for found in wanted if found not in former and not wanted[found].faults]
        self._write([*different, *missing], wanted, snapshot)

    def _compute_changed(self, before: CheckSnapshot, after: CheckSnapshot) -> None:
        """Write the instances that a change of the sources concerns."""
        scope = changed_scope(before.basis, after.basis)
        if scope:
            former, wanted = (_by_id(wanted_instances(basis, scope)) for basis in (before.basis, after.basis))
            if any(found.check.is_overfull for found in former.values()):  # which instances exist is not known
                self._compute_all(after)
                return
            self._write(sorted(former.keys() | wanted.keys()), wanted, after)

    def _compute_reported(self, snapshot: CheckSnapshot) -> None:
        """Compute and order the configurations whose deployments were reported."""
        hosts = snapshot.basis.hosts
        reported = [instance for instance, awaited in self._awaited.items() if awaited.is_reported(hosts)]

        def compute(_: str, instance: CheckInstance | None) -> CheckInstance | None:
            return instance if instance is None else _reported(instance, hosts, self._clock.now())

        self._record("check-instances-computed", self.changes.change(reported, compute))

    def _write(
        self, instances: Collection[str], wanted: Mapping[str, WantedInstance], snapshot: CheckSnapshot
    ) -> None:
        def change(instance_id: str, instance: CheckInstance | None) -> CheckInstance | None:
            found = wanted.get(instance_id) if instance is None else deciding_instance(wanted, instance.key)
            return _wanted(instance, found, snapshot, self._clock.now())

        self._record("check-instances-changed", self.changes.change(instances, change))

    def _record(self, event: str, changes: Mapping[str, ChangedInstance]) -> None:
        for instance_id, (_, after) in changes.items():
            self._note(instance_id, after)
        changed = sum(1 for before, after in changes.values() if before != after)
        if changed:
            get_logger().info(event, instances=changed, awaited=len(self._awaited))

    def _note(self, instance_id: str, instance: CheckInstance | None) -> None:
        """Note what an instance waits for."""
        awaited = None if instance is None else _awaited(instance)
        if awaited is None:
            self._awaited.pop(instance_id, None)
        else:
            self._awaited[instance_id] = awaited


def _by_id(instances: Iterable[WantedInstance]) -> dict[str, WantedInstance]:
    return {instance.id: instance for instance in instances}


def _wanted(
    instance: CheckInstance | None, wanted: WantedInstance | None, snapshot: CheckSnapshot, now: float
) -> CheckInstance | None:
    """Return an instance in the state that the sources want; an instance with faults stays unchanged."""
    if wanted is None:
        return None if instance is None else delete(instance, now)
    if wanted.faults:
        return instance
    configuration = WantedConfiguration(wanted.details(), wanted.system, snapshot.publication)
    after = want(instance or CheckInstance(wanted.key), configuration, now, is_reported=False)
    return instance if after is instance else with_last_versions(after)


def _reported(instance: CheckInstance, hosts: Mapping[str, CheckedHost], now: float) -> CheckInstance:
    """Return an instance with its new configuration computed and ordered, if the deployment was reported."""
    awaited, newest = _awaited(instance), instance.newest
    if awaited is None or newest is None or not awaited.is_reported(hosts):
        return instance
    configuration = WantedConfiguration(newest.details, newest.system, newest.publication)
    return want(instance, configuration, now, is_reported=True)


def _awaited(instance: CheckInstance) -> _Awaited | None:
    newest = instance.newest
    if instance.deleted or newest is None or newest.state is not CheckState.AWAITING_COMPUTATION:
        return None
    return _Awaited(instance.key.host, Deployment(instance.key.path, instance.key.number), newest.publication)
