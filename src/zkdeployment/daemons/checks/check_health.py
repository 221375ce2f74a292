"""The health of hosts for rollouts: reads the checks of a rollout's hosts, and their results."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.checks.health import HostHealth, host_health
from zkdeployment.checks.monitoring_system import is_stale
from zkdeployment.checks.spawning import wanted_instances

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.adapters.zookeeper.checks.instances import ZooKeeperCheckInstances
    from zkdeployment.adapters.zookeeper.checks.systems import ZooKeeperMonitoringSystems
    from zkdeployment.checks.monitoring_system import CheckResult
    from zkdeployment.daemons.checks.check_job import CheckJob


class CheckHealth:
    """Asks ``job`` which checks are wanted. Another thread may run the job."""

    def __init__(
        self, job: CheckJob, instances: ZooKeeperCheckInstances, systems: ZooKeeperMonitoringSystems
    ) -> None:
        self._job = job
        self._instances = instances
        self._systems = systems

    def read(self, since: Mapping[str, float], publication: int, now: float) -> HostHealth:
        """Return the health of hosts after a publication; ``since`` is the time of each host's deployment, by id.

        Results of a monitoring system that is silent do not count. Raises ``UnreachableError``.
        """
        computed = self._job.computed
        if computed is None or computed.publication < publication:
            return HostHealth(unchecked=dict.fromkeys(since, "its checks were not computed yet"))
        hosts = {host: found for host, found in computed.basis.hosts.items() if host in since}
        if not computed.basis.configurations:
            return HostHealth()
        basis = replace(computed.basis, hosts=hosts)
        wanted = [found.key for found in wanted_instances(basis) if not found.faults]
        instances = self._instances.find([key.id for key in wanted])
        by_system: dict[str, list[str]] = defaultdict(list)
        for found, instance in instances.items():
            by_system[instance.system].append(found)
        results: dict[str, CheckResult] = {}
        contacts = self._systems.contacts()
        for system, ids in by_system.items():
            results |= {} if is_stale(contacts.get(system), now) else self._systems.results(system, ids)
        health = host_health(wanted, instances, results, since)
        unknown = dict.fromkeys(since.keys() - hosts.keys(), "its checks were not computed yet")
        return replace(health, unchecked={**unknown, **health.unchecked})
