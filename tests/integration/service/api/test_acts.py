"""Acts through the API: the same as the verbs, with the user as the author."""

import json

import pytest
from kazoo.client import KazooClient

from support.fleets.coordinated import CoordinatedFleet
from support.service import RunningService
from support.strategies import group, plain_hosts, strategy
from support.waiting import wait_until
from zkdeployment.base.deployment import Assignment
from zkdeployment.service.users.user import Role
from zkdeployment.zookeeper.session import Session


@pytest.fixture
def published(client: KazooClient) -> KazooClient:
    """One host that converged to r1, the published revision."""
    client.create("/hosts", b'{"version": "r1"}')
    client.create("/zkdeployment/targets", b'{"version": "r1"}', makepath=True)
    client.create("/hosts/h1", b'{"name": "h1.example.com", "version": "r1"}', ephemeral=True)
    return client


def version(client: KazooClient) -> object:
    return json.loads(client.get("/hosts")[0])["version"]


def recorded(service: RunningService) -> list[tuple[str, str, str]]:
    return [(act.by, act.what, act.reason) for act in service.adapters.operator.fleet.acts() if act.what != "user"]


@pytest.mark.usefixtures("published")
def test_acts_are_recorded_with_the_user_as_the_author(service: RunningService, client: KazooClient):
    ann = service.add_user(Role.OPERATOR, "ann")
    post = service.client.post
    stopped = post("/api/v1/stop", json={"reason": "web 1.3\n loses \x1b[31msessions"}, auth=ann)
    assert stopped.status_code == 200
    assert stopped.json() | {"time": 0} == {
        "by": "ann",
        "what": "stop",
        "reason": "web 1.3 loses \\x1b[31msessions",
        "time": 0,
    }
    assert version(client) is None
    assert post("/api/v1/hold", json={"reason": "r"}, auth=ann).status_code == 409
    resumed = post("/api/v1/resume", json={}, auth=ann)
    assert (resumed.status_code, resumed.json()["revision"]) == (200, "r1")
    assert version(client) == "r1"
    nothing = post("/api/v1/resume", json={}, auth=ann)
    assert nothing.status_code == 409
    assert "neither stopped nor held" in nothing.json()["detail"]
    assert post("/api/v1/hold", json={"reason": "rack 7"}, auth=ann).status_code == 200
    assert version(client) is False
    late = post("/api/v1/resume", json={"latest": True, "timeout": 0.2}, auth=ann)
    assert late.status_code == 503
    assert "no syncer published within 0.2 s" in late.json()["detail"]
    assert not client.exists("/zkdeployment/request")
    acts = [(by, what) for by, what, _ in recorded(service) if by == "ann"]
    assert acts == [("ann", "stop"), ("ann", "resume"), ("ann", "hold"), ("ann", "resume --latest")]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("publish", {}),
        ("publish", {"reason": " \n"}),
        ("stop", {"reason": "r", "force": True}),
        ("stop", {"reason": 7}),
        ("hold", {"reason": "x" * 501}),
        ("resume", {"allow_rewind": True}),
        ("resume", {"latest": True, "timeout": 1e9}),
        ("rollout/promote", {"reason": "r"}),
        ("locks/release", {"name": "/a"}),
    ],
)
def test_an_invalid_request_is_refused_with_a_sentence(
    service: RunningService, path: str, body: dict[str, object]
):
    ann = service.add_user(Role.OPERATOR, "ann")
    answer = service.client.post(f"/api/v1/{path}", json=body, auth=ann)
    assert answer.status_code == 422
    assert list(answer.json()) == ["detail"]
    assert isinstance(answer.json()["detail"], str)
    assert recorded(service) == []


def test_malformed_bodies_are_reported(service: RunningService):
    ann = service.add_user(Role.OPERATOR, "ann")
    broken = service.client.post(
        "/api/v1/stop", content=b'{"reason": ', headers={"Content-Type": "application/json"}, auth=ann
    )
    assert broken.status_code == 400
    long = service.client.post("/api/v1/stop", content=b"x" * (1 << 20) + b"x", auth=ann)
    assert long.status_code == 413


def test_directives_reach_the_rollout(zookeeper: str, service: RunningService):
    ann = service.add_user(Role.OPERATOR, "ann")
    post = service.client.post
    assert post("/api/v1/rollout/pause", json={"reason": "r"}, auth=ann).status_code == 409
    with Session(zookeeper) as session:
        fleet = CoordinatedFleet(zookeeper, session)
        fleet.register(plain_hosts("ab"))
        fleet.publish("r1", strategy(group("x", hosts="a"), group("y", "x", hosts="b")))
        with fleet.coordinator() as coordinator:
            coordinator.run_cycle()
            paused = post("/api/v1/rollout/pause", json={"reason": "latency"}, auth=ann)
            again = post("/api/v1/rollout/pause", json={"reason": "latency"}, auth=ann)
            resumed = post("/api/v1/rollout/resume", json={}, auth=ann)
            unknown = post("/api/v1/rollout/promote", json={"reason": "r", "group": "z"}, auth=ann)
            aborted = post("/api/v1/rollout/abort", json={"reason": "r"}, auth=ann)
        rollout = fleet.running.id
    assert (paused.status_code, paused.json()["rollout"]) == (200, rollout)
    assert paused.json()["act"] | {"time": 0} == {
        "by": "ann",
        "what": "rollout pause",
        "reason": "latency",
        "time": 0,
    }
    assert again.status_code == 409
    assert "is paused already: rollout pause by ann" in again.json()["detail"]
    assert resumed.status_code == aborted.status_code == 200
    assert unknown.status_code == 409
    assert "expected one of: x, y" in unknown.json()["detail"]


def test_a_lock_is_released_with_a_reason(service: RunningService, client: KazooClient):
    ann = service.add_user(Role.OPERATOR, "ann")
    client.create("/role-locks/web/lr-0000000001", b'{"requestor": "h9", "hostname": "h9"}', makepath=True)
    missing = service.client.post("/api/v1/locks/release", json={"name": "db", "reason": "r"}, auth=ann)
    assert missing.status_code == 404
    freed = service.client.post("/api/v1/locks/release", json={"name": "web", "reason": "burnt"}, auth=ann)
    assert freed.status_code == 200
    assert freed.json()["what"].startswith("release ")
    wait_until(lambda: client.get_children("/role-locks/web") == [], "the lock is free")
    again = service.client.post("/api/v1/locks/release", json={"name": "web", "reason": "burnt"}, auth=ann)
    assert again.status_code in {404, 409}


@pytest.mark.usefixtures("published")
def test_an_operator_with_paths_may_stop_the_fleet_and_release_locks_below_them_only(
    service: RunningService, client: KazooClient
):
    bob = service.add_user(Role.OPERATOR, "bob", ("/shop",))
    kept = ("/agent-locks/shopping/a__lock__0000000001", "/role-locks/web/lr-0000000001")
    for contender in ("/agent-locks/shop,web/a__lock__0000000001", *kept):
        client.create(contender, b'{"requestor": "h9", "hostname": "h9"}', makepath=True)
    post = service.client.post
    for path, body in (
        ("hold", {}),
        ("resume", {}),
        ("resume", {"latest": True}),
        ("rollback", {}),
        *((f"rollout/{directive}", {}) for directive in ("pause", "resume", "abort")),
        ("rollout/promote", {"group": "x"}),
        *(("locks/release", {"name": name}) for name in ("/shopping", "/agent-locks/shopping", "web")),
        ("locks/release", {"name": "web", "force": True}),
    ):
        refused = post(f"/api/v1/{path}", json={"reason": "r", **body}, auth=bob)
        assert (path, refused.status_code) == (path, 403)
        assert "this user may act only at and below /shop (and stop the fleet); ask" in refused.json()["detail"]
    assert service.client.get("/api/v1/locks", auth=bob).status_code == 200
    assert post("/api/v1/locks/release", json={"name": "/shop/web", "reason": "r"}, auth=bob).status_code == 200
    assert post("/api/v1/stop", json={"reason": "r"}, auth=bob).status_code == 200
    assert version(client) is None
    assert post("/api/v1/resume", json={}, auth=bob).status_code == 403
    acts = [what for by, what, _ in recorded(service) if by == "bob"]
    assert [what.partition(",")[0] for what in acts] == ["release the lock of /shop/web", "stop"]
    assert client.get_children("/agent-locks/shop,web") == []
    assert all(client.exists(contender) for contender in kept)


@pytest.mark.usefixtures("published")
def test_hosts_are_forgotten_through_the_api_unless_only_they_serve_a_target(
    service: RunningService, client: KazooClient
):
    ann = service.add_user(Role.OPERATOR, "ann")
    worker = Assignment("/demo/worker", 1, "worker-1.0", "worker")
    client.create("/zkdeployment/targets/h3", json.dumps([worker.to_json()]).encode())
    client.create("/zkdeployment/inventory/h3", b'{"name": "h3.example.com"}', makepath=True)
    body = {"hosts": ["h3"], "reason": "burnt"}
    refused = service.client.post("/api/v1/forget", json=body, auth=ann)
    assert (refused.status_code, "/demo/worker to h3" in refused.json()["detail"]) == (409, True)
    done = service.client.post("/api/v1/forget", json={**body, "force": True}, auth=ann)
    assert (done.status_code, done.json()["what"]) == (200, "forget h3 --force")
    assert recorded(service)[-1] == ("ann", "forget h3 --force", "burnt")


@pytest.mark.usefixtures("published")
def test_hosts_enter_and_leave_maintenance_through_the_api(service: RunningService):
    ann = service.add_user(Role.OPERATOR, "ann")
    post = service.client.post
    begun = post("/api/v1/cordon", json={"hosts": ["h1"], "until": "2h", "reason": "new disk"}, auth=ann)
    assert (begun.status_code, begun.json()["hosts"]) == (200, ["h1.example.com"])

    def shown() -> list[str]:
        return [host["state"] for host in service.client.get("/api/v1/status", auth=ann).json()["hosts"]]

    wait_until(lambda: shown() == ["in maintenance"], "the service shows the maintenance")
    why = service.client.get("/api/v1/hosts/h1/why", auth=ann).json()
    assert why["cause"] == "maintenance"
    assert why["answer"].endswith("by ann: new disk")
    page = service.client.get("/hosts/h1", auth=ann).text
    assert "in maintenance until" in page
    assert "new disk" in page
    ended = post("/api/v1/uncordon", json={"hosts": ["h1"]}, auth=ann)
    assert (ended.status_code, ended.json()["hosts"]) == (200, ["h1"])
    wait_until(lambda: shown() == ["converged"], "the service shows the end")
    assert post("/api/v1/uncordon", json={"hosts": ["h1"]}, auth=ann).status_code == 409
    assert recorded(service)[-2:] == [("ann", "cordon h1 until 2h", "new disk"), ("ann", "uncordon h1", "")]


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize(
    "body",
    [{}, {"hosts": ["h1"], "role": "web"}, {"hosts": ["h1"], "until": "soon"}, {"hosts": ["h1"], "at_most": 0}],
)
def test_an_invalid_maintenance_is_refused(service: RunningService, body: dict[str, object]):
    ann = service.add_user(Role.OPERATOR, "ann")
    answer = service.client.post("/api/v1/cordon", json={"reason": "r", **body}, auth=ann)
    assert answer.status_code == 422
    assert recorded(service) == []
