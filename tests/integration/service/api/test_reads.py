"""The reads of the API have the bodies that the verbs print, on a real ZooKeeper and a real repository."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from kazoo.client import KazooClient

from support.builders import make_package
from support.commands import invoke
from support.forks import run_forked
from support.proxy import Proxy
from support.publishing import Publishing
from support.service import DESCRIBED, RunningService, running_service
from support.waiting import PATIENCE, wait_until
from support.zookeeper import through
from zkdeployment.base.deployment import Deployment
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Marker
from zkdeployment.config.settings import load
from zkdeployment.publishing.store.hosts import write_inventory
from zkdeployment.service.users.user import Role
from zkdeployment.zookeeper.session import Session

TREE = """\
/demo
  /hello : hello
    version = '1.0'
    /providers
    /deploy
      /h1
"""


@pytest.fixture
def published(publishing: Publishing, zookeeper: str, client: KazooClient) -> Publishing:
    """Return a publication with a converged host, a lock, and a registered instance."""
    revision = publishing.push(TREE)
    publishing.sync()
    publishing.register("h1", revision, "h1.example.com")
    hello = make_package("hello", "1.0")
    marker = Marker(Deployment("/demo/hello", 0), "hello", "hello", version="1.0")
    inventory = Inventory({"hello": (hello,)}, scripts={"hello": "x"}, markers=(marker,))
    with Session(zookeeper) as session:
        write_inventory(session, KnownHost(Identity("h1", "h1.example.com"), inventory, 5.0))
    client.create("/role-locks/web/lr-0000000001", b'{"requestor": "h1", "hostname": "h1"}', makepath=True)
    client.create("/demo/hello/providers/192.0.2.1:80", b'{"pid": 7}', ephemeral=True)
    return publishing


@pytest.fixture
def config(tmp_path: Path, zookeeper: str, publishing: Publishing) -> Path:
    file = tmp_path / "service.cfg"
    file.write_text(
        f"[zkdeployment]\nzookeeper = {zookeeper}\n"
        f"[sync]\nurl = {publishing.repository.url}\ntree-directory = {tmp_path}/mirror\n"
    )
    return file


@pytest.fixture
def service(zookeeper: str, config: Path, published: Publishing) -> Iterator[RunningService]:
    del published
    with running_service(zookeeper, repository=load(config, host=False)) as running:
        wait_until(lambda: running.adapters.feed.recent_events().last, "the first reading")
        yield running


@pytest.fixture
def viewer(service: RunningService) -> Iterator[httpx.Client]:
    login = service.add_user(Role.VIEWER)
    with httpx.Client(
        base_url=f"{service.url}/api/v1/", auth=login, timeout=None, event_hooks=DESCRIBED
    ) as client:
        yield client


def printed(config: Path, *arguments: str) -> Any:
    return json.loads(invoke(*arguments, "-o", "json", "--config", config).stdout)


def test_bodies_are_those_of_the_verbs(viewer: httpx.Client, config: Path, published: Publishing):
    (publication,) = printed(config, "history")["publications"]
    sequence = str(publication["sequence"])
    for path, verb in (
        ("status", ["status"]),
        ("hosts/h1", ["status", "h1"]),
        ("hosts/h1.example.com", ["status", "h1.example.com"]),
        ("hosts/h1/why", ["why", "h1"]),
        ("locks", ["locks"]),
        ("history", ["history"]),
        (f"history/{sequence}", ["history", "show", sequence]),
        ("history/refused", ["history", "--refused"]),
        ("tree/demo", ["tree", "show", "/demo"]),
        ("tree", ["tree", "show"]),
        ("services", ["services"]),
        ("services/demo/hello", ["services", "/demo/hello"]),
    ):
        answer = viewer.get(path)
        assert (path, answer.status_code, answer.json()) == (path, 200, printed(config, *verb))
    services = viewer.get("services/demo").json()
    assert services["as_wanted"] is True
    assert services["services"][0]["providers"] == {"192.0.2.1:80": {"pid": 7}}
    published.push(TREE.replace("1.0", "1.1"))
    assert viewer.get("plan").json() == printed(config, "plan")
    assert viewer.get("plan", params={"revision": "no-such-branch"}).status_code == 404
    published.push("/demo\n  nonsense")
    assert viewer.get("plan").status_code == 422


def test_an_instance_that_ends_is_down_for_the_status_the_api_and_the_monitor(
    viewer: httpx.Client, config: Path, published: Publishing, client: KazooClient, zookeeper: str
):
    del published
    monitor = ("monitor", "--cluster", "-z", zookeeper)
    before = [invoke("status", "--config", config), run_forked(*monitor)]
    client.delete("/demo/hello/providers/192.0.2.1:80")
    sentence = "1 of 1 instance is down: /demo/hello 0 on h1.example.com"
    wait_until(lambda: viewer.get("status").json()["down"]["count"], "the API reports the instance")
    status, waited = invoke("status", "--config", config), invoke("status", "--wait", "--config", config)
    alarm, services = run_forked(*monitor), invoke("services", "--config", config)
    assert [shown.returncode for shown in before] == [0, 0]
    assert (status.returncode, waited.returncode, services.returncode) == (4, 0, 4)
    assert sentence in status.stdout
    assert sentence in waited.stdout
    assert alarm.returncode == 1
    assert sentence in alarm.stdout
    assert viewer.get("status").json() == printed(config, "status")
    assert viewer.get("status").json()["down"] == {
        "count": 1,
        "of": 1,
        "instances": [{"path": "/demo/hello", "number": 0, "host": "h1", "name": "h1.example.com"}],
    }


def test_the_verb_services_shows_deployments_and_whether_they_are_as_wanted(
    config: Path, published: Publishing, client: KazooClient
):
    del published
    shown = invoke("services", "/demo", "--config", config)
    client.set("/hosts/h1", b'{"name": "h1.example.com", "version": "other"}')
    behind = invoke("services", "--config", config)
    nowhere = invoke("services", "/nowhere", "--config", config)
    client.delete("/demo/hello/providers/192.0.2.1:80")
    down = invoke("services", "/demo", "--config", config)
    assert (shown.returncode, behind.returncode, nowhere.returncode) == (0, 4, 3)
    assert "/demo/hello: hello 1.0; 1 deployed" in shown.stdout
    assert "instances registered: 1 of 1 (192.0.2.1:80)" in shown.stdout
    assert "/demo/hello: hello 1.0; 1 of 1 instance is down, 1 pending" in down.stdout
    assert "instances registered: 0 of 1" in down.stdout
    assert "1 pending" in behind.stdout
    assert "there is no service at or below /nowhere" in nowhere.stderr


def test_an_unchanged_status_is_not_sent_again(viewer: httpx.Client):
    def is_known() -> bool:
        first = viewer.get("status")
        again = viewer.get("status", headers={"If-None-Match": first.headers["ETag"]})
        assert int(first.headers["Age"]) < PATIENCE
        return (again.status_code, again.content) == (304, b"")

    wait_until(is_known, "two answers without a change between them")


def test_requests_for_missing_records_get_a_clear_answer(viewer: httpx.Client):
    for path, status, detail in (
        ("hosts/nobody", 404, "there is no host nobody"),
        ("hosts/nobody/why", 404, "no host nobody"),
        ("history/5", 404, "no publication with the sequence 5"),
        ("history/x", 422, "sequence"),
        ("rollout", 404, "no strategy is published"),
        ("services/nowhere", 404, "no service at or below /nowhere"),
        ("tree/nowhere", 404, "no node /nowhere"),
        ("tree/zkdeployment/users", 404, "no node /zkdeployment/users"),
        ("tree/%00", 404, "no node"),
        ("tree/..%2fzkdeployment%2fusers", 404, "no node"),
        ("history?last=0", 422, "last"),
        ("plan?revision=--upload-pack%3dx", 404, ""),
    ):
        answer = viewer.get(path)
        assert (path, answer.status_code) == (path, status)
        assert detail in answer.json()["detail"]


def test_reading_needs_the_right_to_read(service: RunningService):
    login = service.add_user(Role.MONITORING)
    for path in ("status", "hosts/h1", "locks", "history", "rollout", "plan", "tree/demo", "services"):
        assert service.client.get(f"/api/v1/{path}").status_code == 401
        assert service.client.get(f"/api/v1/{path}", auth=login).status_code == 403


def test_without_a_repository_there_are_no_plans(zookeeper: str):
    with running_service(zookeeper) as service:
        wait_until(lambda: service.adapters.feed.recent_events().last, "the first reading")
        answer = service.client.get("/api/v1/plan", auth=service.add_user(Role.VIEWER))
    assert answer.status_code == 409
    assert "[sync]" in answer.json()["detail"]


def test_a_person_reads_the_last_status_with_its_age_while_zookeeper_is_away(zookeeper: str, proxy: Proxy):
    with running_service(through(proxy, zookeeper)) as service:
        wait_until(lambda: service.adapters.feed.recent_events().last, "the first reading")
        with service.browser(service.add_user(Role.VIEWER)) as person:
            assert person.get("/api/v1/status").status_code == 200
            proxy.cut()
            wait_until(lambda: not service.adapters.connection().connected, "the service to notice")
            wait_until(lambda: int(person.get("/api/v1/status").headers["Age"]) >= 2, "the age to grow")
            assert person.get("/api/v1/locks").status_code == 503
