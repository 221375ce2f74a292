"""The health of hosts from real instances and results, as a rollout asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.checked_fleet import CheckedFleet, ScriptedMonitor, check_document, system_document
from support.service import running_service
from zkdeployment.adapters.zookeeper.checks.instances import ZooKeeperCheckInstances
from zkdeployment.adapters.zookeeper.checks.sources import ZooKeeperCheckSources
from zkdeployment.adapters.zookeeper.checks.systems import ZooKeeperMonitoringSystems
from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.checks.health import HostHealth
from zkdeployment.daemons.checks.check_health import CheckHealth
from zkdeployment.daemons.checks.check_job import CheckJob
from zkdeployment.model.user import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.publishing import Publishing


@pytest.fixture
def fleet(publishing: Publishing, zookeeper: str) -> Iterator[CheckedFleet]:
    with Session(zookeeper, session_timeout=6) as session:
        yield CheckedFleet(publishing, session)


@pytest.fixture
def monitor(zookeeper: str) -> Iterator[ScriptedMonitor]:
    with running_service(zookeeper) as service:
        yield ScriptedMonitor(service.url, service.add_user(Role.MONITORING, "nagios1"))


def test_a_host_is_healthy_when_its_new_check_runs_and_is_ok(fleet: CheckedFleet, monitor: ScriptedMonitor):
    sequence = fleet.publish(system_document("nagios1") + check_document("tcp", "nagios1"), web=80)
    fleet.report()
    since = {"h1": 5.0, "h2": 5.0}
    name = "check tcp of /shop/web 0"
    with fleet.lead() as node:
        instances, systems = (
            ZooKeeperCheckInstances(fleet.session, lambda: node),
            ZooKeeperMonitoringSystems(fleet.session),
        )
        job = CheckJob(instances, ZooKeeperCheckSources(fleet.session), fleet.clock)
        health = CheckHealth(job, instances, systems)
        uncomputed = dict.fromkeys(since, "its checks were not computed yet")
        assert health.read(since, sequence).unchecked == uncomputed
        job.run()
        assert health.read(since, sequence + 1).unchecked == uncomputed
        assert health.read(since, sequence).unchecked == dict.fromkeys(since, f"{name} is awaiting_computation")

        fleet.report("web")
        job.run()
        assert monitor.work() == {"h1": "rollout 80", "h2": "rollout 80"}
        assert health.read(since, sequence).unchecked == dict.fromkeys(
            since, f"{name} has no result since the deployment"
        )
        ids = {host: found.id for host, found in fleet.instances().items()}
        results = {
            ids["h1"]: {"state": "ok", "output": "fine", "since": 6},
            ids["h2"]: {"state": "critical", "output": "refused", "since": 6},
        }
        assert monitor.request("PUT", "monitoring/nagios1/results", results).status_code == 200
        found = health.read(since, sequence)
        assert found.unchecked == {}
        assert found.unhealthy == {"h2": f"{name} is critical: refused"}
        assert health.read({"h1": 5.0}, sequence) == HostHealth()
        assert health.read({"h9": 5.0}, sequence).unchecked == {"h9": "its checks were not computed yet"}

        fleet.publish("", web=81)
        job.run()
        assert health.read({"h1": 5.0}, sequence) == HostHealth()  # nothing is checked any more
