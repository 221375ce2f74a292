"""The ends of sessions over HTTP, by steps of the clock, with a worker that ends them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from support.pools.builders import add_tenant, at_times_of
from support.pools.simulated_nodes import SimulatedNodes
from support.pools.workers import PoolFleet, TestWorker
from support.service import running_service
from support.waiting import ManualClock, wait_until

if TYPE_CHECKING:
    from support.service import RunningService
    from zkdeployment.pools.rules.snapshot import TenantSession

HOUR = 3600.0
DOCUMENT = """
  nodepools:
    concrete:
      cloud: {fill-level: 2, mechanism: {type: ansible, ansible: {topdir: /srv, provision: {playbook: p}}}}
"""


def test_sessions_end_when_their_time_has_come_and_not_before(zookeeper: str):
    clock, machines = ManualClock(1_700_000_000.0), SimulatedNodes()
    with (
        PoolFleet(zookeeper, clock) as fleet,
        TestWorker(zookeeper, machines, clock) as worker,
        running_service(zookeeper, prepare=at_times_of(clock)) as service,
    ):
        fleet.publish(DOCUMENT)
        worker.settle()
        tenant = add_tenant(service.adapters.users, "ci")
        login = (tenant.user.name, tenant.key)

        def put(number: int, body: dict[str, Any]) -> int:
            return service.client.put(f"/api/v1/sessions/{number}", json=body, auth=login).status_code

        def active() -> list[int]:
            worker.settle()
            return [
                session["id"] for session in service.client.get("/api/v1/sessions", auth=login).json()["sessions"]
            ]

        first, second = (begin(service, login, worker, fleet).id for _ in range(2))
        clock.time += 5.9 * HOUR
        assert active() == [first, second]
        assert put(first, {"expires_at": "+30h"}) == 200  # the ceiling is 12 hours
        clock.time += 0.2 * HOUR
        assert active() == [first]
        assert put(second, {"expires_at": "+1h"}) == 422
        shown = service.client.get(f"/api/v1/sessions/{second}", auth=login).json()["session"]
        assert (shown["active"], shown["retired_at"]) == (False, "2023-11-15T04:19:20Z")
        assert put(first, {"expires_at": "-1h"}) == 200
        clock.time += 4.8 * HOUR
        assert active() == [first]
        clock.time += 0.2 * HOUR
        assert active() == []
        third = begin(service, login, worker, fleet).id
        assert put(third, {"expires_at": "2001-01-01T00:00:00Z"}) == 200
        assert active() == []
        assert set(machines.machines.values()) == {None}


def begin(service: RunningService, login: tuple[str, str], worker: TestWorker, fleet: PoolFleet) -> TenantSession:
    """Request a node over HTTP and let the worker prepare it; return the session."""
    body = {"nodes_specs": [{"pool": "cloud", "quantity": 1}]}
    answers: list[Any] = []
    known = set(fleet.store.read().sessions)
    thread = threading.Thread(
        target=lambda: answers.append(service.client.post("/api/v1/sessions", json=body, auth=login))
    )
    thread.start()
    wait_until(lambda: fleet.store.read().sessions.keys() - known, "a reservation")
    worker.settle()
    thread.join()
    assert answers[0].status_code == 201, answers[0].text
    return fleet.store.read().sessions[answers[0].json()["session"]["id"]]
