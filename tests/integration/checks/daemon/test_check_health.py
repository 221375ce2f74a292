"""The health of hosts from real instances and results, as a rollout asks for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import httpx
import pytest

from support.checks.fleet import CheckedFleet, ScriptedMonitor, check_document, system_document
from support.commands import invoke
from support.service import RunningService, running_service
from support.waiting import wait_until
from zkdeployment.checks.daemon import CheckHealth, CheckJob
from zkdeployment.checks.opening import check_adapters
from zkdeployment.checks.rules.findings import HostHealth
from zkdeployment.checks.store.instances import ZooKeeperCheckInstances
from zkdeployment.checks.store.sources import ZooKeeperCheckSources
from zkdeployment.checks.store.systems import ZooKeeperMonitoringSystems
from zkdeployment.service.users.user import Role

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def service(zookeeper: str) -> Iterator[RunningService]:
    with running_service(zookeeper) as service:
        yield service


def test_a_host_is_healthy_when_its_new_check_runs_and_is_ok(
    fleet: CheckedFleet, service: RunningService, zookeeper: str
):
    monitor = ScriptedMonitor(service.url, service.add_user(Role.MONITORING, "nagios1"))
    viewer = service.add_user(Role.VIEWER)
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
        assert health.read(since, sequence, 1000.0).unchecked == uncomputed
        job.run()
        assert health.read(since, sequence + 1, 1000.0).unchecked == uncomputed
        assert health.read(since, sequence, 1000.0).unchecked == dict.fromkeys(
            since, f"{name} is awaiting_computation"
        )

        fleet.report("web")
        job.run()
        assert monitor.work() == {"h1": "rollout 80", "h2": "rollout 80"}
        assert health.read(since, sequence, 1000.0).unchecked == dict.fromkeys(
            since, f"{name} has no result since the deployment"
        )
        ids = {host: found.id for host, found in fleet.instances().items()}
        results = {
            ids["h1"]: {"state": "ok", "output": "fine", "since": 6},
            ids["h2"]: {"state": "critical", "output": "refused", "since": 6},
        }
        assert monitor.request("PUT", "monitoring/nagios1/results", results).status_code == 200
        now = time.time()
        found = health.read(since, sequence, now)
        assert found.unchecked == {}
        assert found.unhealthy == {"h2": f"{name} is critical: refused"}
        assert health.read({"h1": 5.0}, sequence, now) == HostHealth()
        silent = health.read({"h1": 5.0}, sequence, now + 1000)
        assert silent.unchecked == {"h1": f"{name} has no result since the deployment"}
        assert health.read({"h9": 5.0}, sequence, 1000.0).unchecked == {"h9": "its checks were not computed yet"}

        why = f"{monitor.service}/api/v1/hosts/h2/why"
        wait_until(lambda: httpx.get(why, auth=viewer, timeout=None).status_code == 200, "the service knows h2")
        explained = httpx.get(why, auth=viewer, timeout=None).json()["checks"]
        assert [(check["id"], check["result"]["state"]) for check in explained] == [(ids["h2"], "critical")]
        shown = invoke("why", "h2", "-z", zookeeper).stdout
        assert "Checks:\n  critical: tcp of /shop/web 0: refused\n" in shown
        with service.browser(viewer) as browser:
            for page in ("hosts/h2", "services/shop/web", "checks", "checks?state=critical"):
                wait_until(lambda page=page: "critical</span>" in browser.get(f"/{page}").text, page)
        adapters = check_adapters(fleet.session)
        both = adapters.findings(["h1", "h2"], now, "/shop/web")
        assert [(finding.host, finding.word) for finding in both] == [("h2", "critical"), ("h1", "ok")]
        assert {finding.word for finding in adapters.findings(["h1"], now + 1000)} == {"unknown"}
        assert adapters.findings(["h1"], now, "/shop/other") == ()

        fleet.publish("", web=81)
        job.run()
        assert health.read({"h1": 5.0}, sequence, 1000.0) == HostHealth()  # nothing is checked any more
        assert check_adapters(fleet.session).findings(["h1"], now) == ()
