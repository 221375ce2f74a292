"""The whole workflow of checks: real git, syncer, ZooKeeper and service, and monitoring systems over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.checks.fleet import CheckedFleet, ScriptedMonitor, check_document, system_document
from support.service import running_service
from zkdeployment.service.users.user import Role

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def monitor(zookeeper: str) -> Iterator[ScriptedMonitor]:
    with running_service(zookeeper) as service:
        yield ScriptedMonitor(service.url, service.add_user(Role.MONITORING, "nagios1"))


def test_a_check_comes_with_its_service_changes_in_two_steps_and_goes_with_it(
    fleet: CheckedFleet, monitor: ScriptedMonitor
):
    documents = system_document("nagios1") + check_document("tcp", "nagios1")
    fleet.publish(documents, web=80)
    fleet.report()
    with fleet.daemon() as daemon:
        daemon.run_turn()
        assert fleet.states() == {"h1": ["awaiting_computation"], "h2": ["awaiting_computation"]}
        assert monitor.list() == []  # the service is not there yet

        fleet.report("web", hosts=["h1"])
        daemon.run_turn()
        assert fleet.states() == {"h1": ["awaiting_rollout"], "h2": ["awaiting_computation"]}
        (first,) = monitor.list()
        assert monitor.list() == []  # each update is in one list only
        assert monitor.list("/all") == [first]
        details = monitor.fetch(first)
        assert details["task"] == "rollout"
        assert (details["version"], details["monitoring"], details["path"]) == (0, "nagios1", "/shop/web")
        assert details["arguments"] == ["-p", "80"]
        assert monitor.fetch(first) == details
        assert monitor.answer(first, body={"config_id": details["config_id"]}) == 200
        assert monitor.answer(first) == 409
        assert monitor.list("/active") == [first]

        fleet.report("web")
        daemon.run_turn()
        assert monitor.work() == {"h2": "rollout 80"}

        fleet.publish(documents, web=81)
        daemon.run_turn()
        assert monitor.list() == []  # the old service still runs
        fleet.report("web")
        daemon.run_turn()
        assert fleet.states()["h1"] == ["awaiting_deprovision", "blocked"]
        assert monitor.work() == {"h1": "deprovision 80", "h2": "deprovision 80"}
        daemon.run_turn()
        assert monitor.work() == {"h1": "rollout 81", "h2": "rollout 81"}
        daemon.run_turn()
        assert monitor.list() == []

        fleet.publish(documents, other=1)
        daemon.run_turn()
        assert monitor.work() == {"h1": "delete 81", "h2": "delete 81"}
        daemon.run_turn()
        assert {states[-1] for states in fleet.states().values()} == {"awaiting_deletion"}
        assert monitor.list("/all") == monitor.list("/active") == []
        assert monitor.request("GET", f"id/{first}").status_code == 404

        fleet.clock.time += 31 * 86400
        for instance in fleet.instances().values():
            turns = (int(instance.id[:3], 16) - fleet.clock.time // 20) % 4096
            fleet.clock.time += 20 * turns  # the turn of its bucket
            daemon.run_turn()
        assert fleet.states() == {}
