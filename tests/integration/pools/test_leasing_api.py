"""Pools, nodes and sessions over HTTP: bodies and codes are those of Duffy 3."""

from __future__ import annotations

import json
import math
import threading
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.pools.builders import (
    POOLS_DOCUMENT,
    SSH_KEY,
    add_ready_nodes,
    add_tenant,
    at_times_of,
    contextualizing,
)
from support.service import running_service
from support.waiting import ManualClock, wait_until
from zkdeployment.base.act import Act
from zkdeployment.pools.opening import pool_adapters_of
from zkdeployment.pools.rules.results import PlaybookRun
from zkdeployment.pools.rules.snapshot import PoolChange
from zkdeployment.pools.store.store import ZooKeeperPlaybookLog
from zkdeployment.service.users.user import Role
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from httpx import Response

    from support.publishing import Publishing
    from support.service import RunningService
    from zkdeployment.pools.store.store import ZooKeeperPools

ACT = Act("tests", "change", "a test", 0.0)
BEGIN = 1_700_000_000.0  # 2023-11-14T22:13:20Z
TREE = "/demo\n  /hello : hello\n    version = '1.0'\n    /deploy\n      /h1\n"
TENANT = {
    "id": 1,
    "name": "ci",
    "is_admin": False,
    "ssh_key": "**********",
    "node_quota": None,
    "session_lifetime": None,
    "session_lifetime_max": None,
    "retired_at": None,
    "active": True,
    "effective_node_quota": 2,
    "effective_session_lifetime": 21600.0,
    "effective_session_lifetime_max": 43200.0,
}


class Client:
    """A user of the API."""

    def __init__(self, service: RunningService, name: str, role: Role = Role.TENANT) -> None:
        self._client = service.client
        self._login = (name, add_tenant(service.adapters.users, name, role).key)

    def call(self, method: str, path: str, body: Any = None) -> Response:
        content = None if body is None else json.dumps(body)  # also what JSON does not permit
        headers = {"Content-Type": "application/json"}
        answer = self._client.request(method, f"/api/v1{path}", content=content, headers=headers, auth=self._login)
        if answer.status_code >= 400:
            assert isinstance(answer.json()["detail"], str)
        return answer

    def get(self, path: str) -> Any:
        answer = self.call("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def status(self, method: str, path: str, body: Any = None) -> int:
        return self.call(method, path, body).status_code

    def request(self, *specs: tuple[str, int], **more: Any) -> Response:
        wanted = [{"pool": pool, "quantity": quantity} for pool, quantity in specs]
        return self.call("POST", "/sessions", {"tenant_id": None, "nodes_specs": wanted} | more)

    def begin(self, *specs: tuple[str, int], **more: Any) -> Any:
        answer = self.request(*specs, **more)
        assert answer.status_code == 201, answer.text
        return answer.json()["session"]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(BEGIN)


@pytest.fixture
def service(zookeeper: str, publishing: Publishing, clock: ManualClock) -> Iterator[RunningService]:
    publishing.push(TREE, pools_yaml=POOLS_DOCUMENT)
    publishing.sync()
    with running_service(zookeeper, prepare=at_times_of(clock)) as running:
        yield running


@pytest.fixture
def store(service: RunningService) -> ZooKeeperPools:
    return pool_adapters_of(service.adapters).store


@pytest.fixture
def ci(service: RunningService) -> Client:
    return Client(service, "ci")


@pytest.fixture
def admin(service: RunningService, ci: Client) -> Client:  # noqa: ARG001  the ids of users are known
    return Client(service, "boss", Role.ADMIN)


def test_each_response_has_an_id_of_its_own_and_a_retired_tenant_gets_no_session(
    ci: Client, admin: Client, service: RunningService
):
    identities = [ci.call("GET", path).headers["X-Request-Id"] for path in ("/pools", "/pools", "/nowhere")]
    assert len({uuid.UUID(identity) for identity in identities}) == 3
    add_tenant(service.adapters.users, "old", Role.TENANT)
    assert admin.status("PUT", "/tenants/3", {"active": False}) == 200
    refused = admin.request(("web", 1), tenant_id=3)
    assert (refused.status_code, refused.json()["detail"]) == (422, "tenant 'old' isn't active")


def test_admins_read_the_output_of_the_playbooks_for_a_node(zookeeper: str, ci: Client, admin: Client):
    with Session(zookeeper) as session:
        run = PlaybookRun(0, "web", "p.yml", (4,), BEGIN, 1.5, True, "ok: [localhost]")
        ZooKeeperPlaybookLog(session).add(run, lambda: 9)
    shown = {"id": 9, "pool": "web", "playbook": "p.yml", "nodes": [4], "begun": "2023-11-14T22:13:20Z"}
    shown |= {"seconds": 1.5, "succeeded": True, "output": "ok: [localhost]"}
    assert admin.get("/nodes/4/log") == {"action": "get", "runs": [shown]}
    assert admin.status("GET", "/nodes/5/log") == 404
    assert ci.status("GET", "/nodes/4/log") == 403


def test_pools_with_a_level_are_listed_and_shown(ci: Client, store: ZooKeeperPools):
    add_ready_nodes(store, 2)
    listed = ci.get("/pools")
    assert listed == {
        "action": "get",
        "pools": [{"name": "db", "fill-level": 1}, {"name": "web", "fill-level": 3}],
    }
    levels = {"provisioning": 0, "ready": 2, "contextualizing": 0, "deployed": 0, "deprovisioning": 0}
    assert ci.get("/pools/web") == {"action": "get", "pool": {"name": "web", "fill-level": 3, "levels": levels}}
    read = store.read()
    store.commit(PoolChange((replace(read.nodes[2], host="not-registered"),)), read)
    assert ci.get("/pools/web")["pool"]["levels"]["ready"] == 1
    assert ci.call("GET", "/pools/attic").status_code == 422
    assert "there is no pool 'nowhere'" in ci.call("GET", "/pools/nowhere").json()["detail"]
    assert ci.status("GET", "/pools/nowhere") == 404


def test_a_session_is_requested_shown_extended_and_retired(
    ci: Client, store: ZooKeeperPools, clock: ManualClock, service: RunningService
):
    add_ready_nodes(store, 3)
    with contextualizing(store):
        created = ci.request(("web", 2))
    assert created.status_code == 201
    answer = created.json()
    session = answer["session"]
    created_at = session["tenant"].pop("created_at")
    assert created_at.endswith("Z")
    assert answer == {
        "action": "post",
        "session": {
            "id": 4,
            "active": True,
            "created_at": "2023-11-14T22:13:20Z",
            "expires_at": "2023-11-15T04:13:20Z",
            "retired_at": None,
            "tenant": TENANT,
            "data": {"nodes_specs": [{"quantity": 2, "pool": "web"}]},
            "nodes": [
                {
                    "id": number,
                    "state": "deployed",
                    "hostname": f"node{number}.example.com",
                    "ipaddr": f"192.0.2.{number}",
                    "comment": None,
                    "pool": "web",
                    "reusable": True,
                    "data": {"nodes_spec": {"pool": "web", "quantity": 2}},
                }
                for number in (1, 2)
            ],
        },
    }
    session["tenant"]["created_at"] = created_at
    assert ci.get("/sessions") == {"action": "get", "sessions": [session]}
    assert ci.get("/sessions/4") == ci.get("/session/4") == {"action": "get", "session": session}

    def expiry(value: object) -> str:
        answer = ci.call("PUT", "/sessions/4", {"active": None, "expires_at": value})
        assert answer.status_code == 200, answer.text
        assert answer.json()["action"] == "put"
        ends: str = answer.json()["session"]["expires_at"]
        return ends

    assert expiry("+1h30m") == "2023-11-15T05:43:20Z"
    assert expiry("-20m") == "2023-11-15T05:23:20Z"
    assert expiry("2023-11-15T06:00:00+01:00") == "2023-11-15T05:00:00Z"
    assert expiry("2023-11-15T05:00:01") == "2023-11-15T05:00:01Z"
    assert expiry("+1w") == "2023-11-15T10:13:20Z"
    assert expiry("2001-01-01T00:00:00Z") == "2023-11-14T22:13:20Z"
    assert expiry(None) == "2023-11-14T22:13:20Z"
    for wrong in (3600, "3600", "1h", "+", "soon", "+1x", "+9999999w"):
        assert ci.status("PUT", "/sessions/4", {"expires_at": wrong}) == 422
    clock.time += 60
    retired = ci.call("PUT", "/sessions/4", {"active": False, "expires_at": None}).json()["session"]
    assert (retired["active"], retired["retired_at"]) == (False, "2023-11-14T22:14:20Z")
    assert [node["state"] for node in retired["nodes"]] == [None, None]
    assert [node["hostname"] for node in retired["nodes"]] == ["node1.example.com", "node2.example.com"]
    assert ci.get("/sessions")["sessions"] == []
    assert ci.get("/sessions/4")["session"] == retired
    again = ci.call("PUT", "/sessions/4", {"active": False})
    assert (again.status_code, again.json()) == (422, {"detail": "session 4 is retired"})
    assert ci.status("PUT", "/sessions/4", {"expires_at": "+1h"}) == 422
    assert ci.get("/pools/web")["pool"]["levels"]["deprovisioning"] == 2
    read = pool_adapters_of(service.adapters).store.session(4)
    assert read is not None
    assert (read.requested_by, read.retired_by) == ("ci", "ci")


def test_impossible_requests_are_refused_with_their_codes(ci: Client, store: ZooKeeperPools, admin: Client):
    nodes = add_ready_nodes(store, 3)
    too_many = ci.request(("web", 3))
    assert (too_many.status_code, "3 > 2" in too_many.json()["detail"]) == (403, True)
    assert ci.request(("db", 1)).status_code == 422
    assert ci.request(("nowhere", 1)).status_code == 422
    assert ci.request(("attic", 1)).status_code == 422
    assert ci.request().status_code == 422
    assert ci.request(("web", 0)).status_code == 422
    assert ci.status("POST", "/sessions", {}) == 422
    assert ci.status("POST", "/session", {"nodes_specs": [{"pool": "web"}]}) == 422
    with contextualizing(store, failing=set(nodes[1:])):
        failed = ci.request(("web", 2))
    assert (failed.status_code, failed.headers["Retry-After"]) == (503, "0")
    assert failed.json()["detail"].startswith("contextualization of nodes failed: node3.example.com")
    states = {node["id"]: node["state"] for node in ci.get("/nodes")["nodes"]}
    assert states == {1: "ready", 2: "failed", 3: "failed"}
    assert ci.get("/sessions")["sessions"] == []
    add_ready_nodes(store, 1)
    with contextualizing(store):
        assert len(ci.begin(("web", 1), ("web", 1))["nodes"]) == 2  # exactly the quota
        assert ci.request(("web", 1)).status_code == 403
        add_ready_nodes(store, 5)
        assert len(admin.begin(("web", 5))["nodes"]) == 5  # admins have no quota


def test_sessions_belong_to_their_tenants(
    ci: Client, admin: Client, store: ZooKeeperPools, service: RunningService
):
    add_ready_nodes(store, 4)
    other, viewer = Client(service, "other"), service.add_user(Role.VIEWER)
    with contextualizing(store):
        first, second = ci.begin(("web", 1))["id"], admin.begin(("web", 1), tenant_id=3)["id"]
        assert ci.request(("web", 1), tenant_id=3).status_code == 403
        assert ci.begin(("web", 1), tenant_id=1)["tenant"]["name"] == "ci"
        assert admin.request(("web", 1), tenant_id=99).status_code == 422
    assert [session["id"] for session in other.get("/sessions")["sessions"]] == [second]
    service.adapters.users.update("other", lambda user: replace(user, role=Role.VIEWER), ACT)
    assert len(admin.get("/sessions")["sessions"]) == 3
    service.adapters.users.update("other", lambda user: replace(user, role=Role.TENANT), ACT)
    for body in ({"active": False}, {"expires_at": "+1h"}):
        assert other.status("PUT", f"/sessions/{first}", body) == 403
        assert other.status("PUT", "/sessions/999", body) == 404
    assert other.status("GET", f"/sessions/{first}") == 403
    assert other.status("GET", "/sessions/999") == 404
    assert other.status("GET", "/sessions/x") == 422
    assert (
        admin.call("PUT", f"/sessions/{first}", {"expires_at": "+9999h"}).json()["session"]["expires_at"] > "2024"
    )
    assert admin.status("PUT", f"/sessions/{first}", {"active": False}) == 200
    assert other.status("PUT", f"/sessions/{first}", {"active": False}) == 403  # still the owner first
    assert service.client.get("/api/v1/sessions").status_code == 401
    assert service.client.get("/api/v1/sessions", auth=viewer).status_code == 403
    assert service.client.get("/api/v1/pools", auth=viewer).status_code == 200
    acts = service.client.get("/api/v1/audit?who=boss", auth=admin._login).json()["acts"]
    assert [act["what"] for act in acts] == [f"retire session {first}", f"change the end of session {first}"]


def test_a_session_has_only_nodes_with_the_properties_that_it_asks_for(ci: Client, store: ZooKeeperPools):
    add_ready_nodes(store, 1, arch="x86_64", memory=8)
    (large,) = add_ready_nodes(store, 1, arch="x86_64", memory=32)

    def ask(*properties: str) -> Response:
        spec = {"pool": "web", "quantity": 1, "properties": list(properties)}
        return ci.call("POST", "/sessions", {"nodes_specs": [spec]})

    with contextualizing(store):
        session = ask("arch=x86_64", "memory>=16").json()["session"]
    assert [node["id"] for node in session["nodes"]] == [large]
    spec = {"quantity": 1, "pool": "web", "properties": ["arch=x86_64", "memory>=16"]}
    assert session["data"] == {"nodes_specs": [spec]}
    assert ci.get(f"/sessions/{session['id']}")["session"]["data"] == {"nodes_specs": [spec]}
    unknown = ask("colour=red")
    assert unknown.status_code == 400
    assert (
        "no node of the pool web has the property 'colour'; the properties are: arch" in unknown.json()["detail"]
    )
    unmet = ask("memory>=64")
    assert unmet.status_code == 422
    assert unmet.json()["detail"] == "no node of the pool web has memory>=64; found: 32, 8"
    malformed = ask("memory>much")
    assert malformed.status_code == 422
    assert "expected NAME=VALUE" in malformed.json()["detail"]
    spec = {"pool": "web", "quantity": 1, "properties": None}
    with contextualizing(store):
        assert ci.status("POST", "/sessions", {"nodes_specs": [spec]}) == 201


def test_a_tenant_sees_its_own_use_of_pools_and_an_admin_that_of_all(
    ci: Client, admin: Client, store: ZooKeeperPools, clock: ManualClock
):
    add_ready_nodes(store, 2)
    with contextualizing(store):
        number = ci.begin(("web", 1))["id"]
        clock.time += 1800
        ci.call("PUT", f"/sessions/{number}", {"active": False})
        admin.begin(("web", 1))
    clock.time += 900
    own = ci.get("/pool-usage")
    assert (own["schema"], own["until"], own["step"]) == ("zkdeployment/pool-usage/v1", clock.now(), 86400.0)
    (row,) = own["usage"]
    assert (row["tenant"], row["pool"], row["sessions"], row["node_hours"]) == ("ci", "web", 1, 0.5)
    assert (row["most_nodes"], row["begun"], row["longest_wait"]) == (1, 1, 0.0)
    assert len(row["held"]) == 31
    assert [(row["tenant"], row["node_hours"]) for row in admin.get("/pool-usage?since=1d")["usage"]] == [
        ("ci", 0.5),
        ("boss", 0.25),
    ]
    assert [row["tenant"] for row in admin.get("/pool-usage?tenant=boss&pool=web")["usage"]] == ["boss"]
    assert admin.get("/pool-usage?pool=db")["usage"] == []
    refused = ci.call("GET", "/pool-usage?tenant=boss")
    assert refused.status_code == 403
    assert "leave the parameter tenant out, or set it to ci" in refused.json()["detail"]
    assert ci.status("GET", "/pool-usage?since=soon") == 422
    assert ci.status("GET", "/pool-usage?tennant=ci") == 400


def test_nodes_are_listed_shown_and_added_by_admins(ci: Client, admin: Client, store: ZooKeeperPools):
    add_ready_nodes(store, 1)
    (node,) = ci.get("/nodes")["nodes"]
    assert node == {
        "id": 1,
        "state": "ready",
        "hostname": "node1.example.com",
        "ipaddr": "192.0.2.1",
        "comment": None,
        "pool": "web",
        "reusable": True,
        "data": {},
        "created_at": "1970-01-01T00:00:01Z",
        "retired_at": None,
        "active": True,
    }
    assert ci.get("/nodes/1") == {"action": "get", "node": node}
    assert ci.status("GET", "/nodes/99") == 404
    new = {"hostname": "m1.example.com", "ipaddr": "192.0.2.9", "comment": None, "pool": None}
    assert ci.status("POST", "/nodes", new) == 403
    added = admin.call("POST", "/nodes", new | {"data": {"architecture": "x86_64"}})
    assert added.status_code == 201
    shown = added.json()["node"]
    assert (shown["state"], shown["pool"], shown["reusable"]) == ("unused", None, True)
    assert shown["data"] == {"architecture": "x86_64"}
    assert admin.status("POST", "/nodes", new) == 409
    for wrong in (
        {"ipaddr": "nowhere"},
        {"hostname": "a b"},
        {"data": None},
        {"data": {"a": "\ud800"}},
        {"data": {"a": math.nan}},
    ):
        assert admin.status("POST", "/nodes", new | wrong) == 422, wrong
    for template in ({"data": {"a": [{"b": "{{ lookup('pipe', 'id') }}"}]}}, {"ipaddr": "fe80::1%{{x}}"}):
        assert admin.status("POST", "/nodes", new | template) == 400, template
    assert [node["id"] for node in ci.get("/nodes")["nodes"]] == [1, shown["id"]]


def test_a_tenant_has_several_keys(admin: Client):
    several = f"{SSH_KEY} first\n{SSH_KEY} second"
    answer = admin.call("POST", "/tenants", {"name": "several", "ssh_key": several})
    assert (answer.status_code, answer.json()["tenant"]["ssh_key"]) == (201, several)


def test_a_session_brings_keys_of_its_own_which_no_answer_shows(ci: Client, store: ZooKeeperPools):
    add_ready_nodes(store, 1)
    keys = f"{SSH_KEY} first\n{SSH_KEY} second"
    order = {"nodes_specs": [{"pool": "web", "quantity": 1}], "ssh_key": keys}
    for wrong in (
        "",
        "none",
        f"{SSH_KEY}\n",
        f'command="id" {SSH_KEY}',
        "\n".join(f"{SSH_KEY} {n}" for n in range(11)),
    ):
        assert ci.status("POST", "/sessions", order | {"ssh_key": wrong}) == 422, wrong
    with contextualizing(store):
        created = ci.call("POST", "/sessions", order)
    assert created.status_code == 201
    number = created.json()["session"]["id"]
    assert store.session(number).ssh_key == keys
    assert SSH_KEY not in created.text + ci.call("GET", f"/sessions/{number}").text


def test_tenants_are_added_changed_and_retired(
    ci: Client, admin: Client, store: ZooKeeperPools, service: RunningService
):
    order = {"name": "team", "is_admin": None, "ssh_key": SSH_KEY, "node_quota": None, "session_lifetime": "90m"}
    assert ci.status("POST", "/tenants", order) == 403
    answer = admin.call("POST", "/tenants", order)
    assert (answer.status_code, answer.json()["action"]) == (201, "post")
    team = answer.json()["tenant"]
    assert (team["ssh_key"], team["session_lifetime"], team["effective_session_lifetime"]) == (
        SSH_KEY,
        5400,
        5400.0,
    )
    assert admin.status("POST", "/tenants", order) == 409
    assert admin.status("POST", "/tenants", order | {"name": "x", "ssh_key": "none"}) == 422
    login, number = ("team", team["api_key"]), team["id"]

    def get(path: str, user: tuple[str, str]) -> Response:
        return service.client.get(f"/api/v1{path}", auth=user)

    def change(body: Any) -> Any:
        answer = admin.call("PUT", f"/tenants/{number}", body)
        assert (answer.status_code, answer.json()["action"]) == (200, "put"), answer.text
        return answer.json()["tenant"]

    own = get("/tenants", login).json()
    assert [tenant["name"] for tenant in own["tenants"]] == ["team"]
    assert own["tenants"][0]["ssh_key"] == "**********"
    assert [tenant["name"] for tenant in admin.get("/tenants")["tenants"]] == ["ci", "boss", "team"]
    assert get(f"/tenants/{number}", login).status_code == 200
    assert [get(f"/tenants/{other}", login).status_code for other in (1, 99)] == [403, 404]
    assert ci.status("PUT", f"/tenants/{number}", {"node_quota": 9}) == 403
    assert ci.status("PUT", "/tenants/1", {"node_quota": 9}) == 403
    assert ci.status("PUT", "/tenants/99", {"node_quota": 9}) == 404
    changed = change({"node_quota": 9, "session_lifetime": None, "session_lifetime_max": 7200, "api_key": None})
    assert (changed["node_quota"], changed["effective_node_quota"], changed["api_key"]) == (9, 9, "**********")
    assert (changed["session_lifetime"], changed["effective_session_lifetime_max"]) == (None, 7200.0)
    reset = change({"api_key": "reset"})
    assert get("/tenants", login).status_code == 401
    chosen = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
    assert get("/tenants", ("team", reset["api_key"])).status_code == 200
    assert change({"api_key": chosen, "ssh_key": None})["api_key"] == "**********"
    assert get("/tenants", ("team", chosen)).status_code == 200
    for wrong in ({}, {"api_key": "x"}, {"node_quota": 0}, {"active": False, "node_quota": 1}):
        assert admin.status("PUT", f"/tenants/{number}", wrong) == 422
    assert change({"active": True})["active"] is True
    add_ready_nodes(store, 1)
    with contextualizing(store):
        answer = service.client.post(
            "/api/v1/sessions", json={"nodes_specs": [{"pool": "web", "quantity": 1}]}, auth=("team", chosen)
        )
    session = answer.json()["session"]["id"]
    retired = change({"active": False})
    assert (retired["active"], retired["api_key"]) == (False, None)
    assert get("/sessions", ("team", chosen)).status_code == 403
    ended = admin.get(f"/sessions/{session}")["session"]
    assert (ended["active"], ended["tenant"]["active"]) == (False, False)
    for body in ({"active": False}, {"active": True}, {"node_quota": 1}):
        assert admin.status("PUT", f"/tenants/{number}", body) == 422
    assert admin.request(("web", 1), tenant_id=number).status_code == 422
    acts = admin.get("/audit?who=boss")["acts"]
    assert {"retire user team", "add user team (tenant)", "reset the key of user team"} <= {
        act["what"] for act in acts
    }


def test_requests_that_wait_leave_the_service_to_others(
    ci: Client, store: ZooKeeperPools, service: RunningService
):
    count = 45  # more than the threads for all other requests
    add_ready_nodes(store, count)
    tenants = [Client(service, f"t{number}", Role.ADMIN) for number in range(9)]
    for tenant in tenants:  # the service verifies a new key once, and few new keys at a time
        tenant.get("/pools")
    threads = [threading.Thread(target=tenants[number % 9].request, args=(("web", 1),)) for number in range(count)]
    for thread in threads:
        thread.start()
    wait_until(lambda: ci.get("/pools/web")["pool"]["levels"]["contextualizing"] == count, "all reservations")
    with contextualizing(store):
        for thread in threads:
            thread.join()
    assert ci.get("/pools/web")["pool"]["levels"]["deployed"] == count
