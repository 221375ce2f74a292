"""Checks for operators: ``/api/v1/checks`` and the verbs, which print the same bodies."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

from support.branches import Branch
from support.checks.fleet import CheckedFleet, ScriptedMonitor, check_document, system_document
from support.commands import invoke
from support.forks import run_forked
from support.service import DESCRIBED, RunningService, running_service
from support.waiting import wait_until
from support.zookeeper import sent_requests, write_node
from zkdeployment.checks import paths as check_paths
from zkdeployment.checks.opening import check_adapters_of
from zkdeployment.checks.rules.monitoring_system import STALE_AFTER
from zkdeployment.service.users.user import Role
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kazoo.client import KazooClient

    from support.publishing import Publishing

GROUP = """\
---
schema: zkdeployment/CheckGroup/v1
metadata: {name: shop-quorum}
data: {object: /shop, at_least: 1, checks: [tcp]}
"""
DOCUMENTS = system_document("nagios1") + check_document("tcp", "nagios1") + GROUP
MISSING = "00000000-0000-5000-8000-000000000000"
DATA = {"object": "/shop", "monitoring": "nagios1", "check": {"command": "check_http"}}


@pytest.fixture
def branch(tmp_path: Path) -> Branch:
    branch = Branch(tmp_path)
    branch.push(
        {
            "a.zk": "/shop\n  /web : web\n    version = '1'\n    port = 80\n    /deploy\n      /h1\n",
            "nagios.yaml": system_document("nagios1").removeprefix("---\n"),
        }
    )
    return branch


@pytest.fixture
def service(zookeeper: str, branch: Branch) -> Iterator[RunningService]:
    with running_service(zookeeper, commits=branch.commits()) as running:
        yield running


def test_configurations_are_created_changed_and_deleted_by_commits(service: RunningService, branch: Branch):
    operator, viewer = service.add_user(Role.OPERATOR), service.add_user(Role.VIEWER)

    def request(
        method: str, path: str = "", body: Any = None, auth: tuple[str, str] = operator
    ) -> tuple[int, Any]:
        answer = service.client.request(method, f"/api/v1/checks{path}", json=body, auth=auth)
        return answer.status_code, answer.json()

    document = {"metadata": {"name": "front"}, "data": DATA}
    status, body = request("POST", "?reason=the+shop+is+live", document)
    assert (status, body) == (202, {"job": branch.tip()})
    assert branch.ask("log", "-1", "--format=%an %s") == "operator Create check front: the shop is live"
    assert branch.files()["check-front.yaml"].startswith("schema: zkdeployment/CheckConfiguration/v1\n")
    assert request("POST", "", document) == (200, {"job": branch.tip()})
    assert request("POST", "", {**document, "data": DATA | {"interval": 5}})[0] == 409

    status, body = request("PUT", "/front", {**document, "data": DATA | {"interval": 5}})
    assert (status, body) == (202, {"job": branch.tip()})
    assert branch.files()["check-front.yaml"].endswith("  interval: 5\n")
    assert request("PUT", "/front", {**document, "data": DATA | {"interval": 5}})[0] == 200
    assert request("PUT", "/other", document)[0] == 422
    assert request("PUT", "/other", {**document, "metadata": {"name": "other"}})[0] == 404

    for data in (DATA | {"interval": 0}, DATA | {"object": "/shops"}, DATA | {"monitoring": "nagios2"}):
        status, body = request("POST", "", {"metadata": {"name": "bad"}, "data": data})
        assert status == 422, body
    assert request("POST", "", {"metadata": {"name": "summary"}, "data": DATA})[0] == 422
    assert request("POST", "", {"metadata": {"name": "bad"}})[0] == 422
    assert request("POST", "", document, viewer)[0] == 403

    web = service.add_user(Role.OPERATOR, "web", ("/shop/web",))
    assert request("POST", "", {"metadata": {"name": "wide"}, "data": DATA}, web)[0] == 403
    assert request("DELETE", "/front", auth=web)[0] == 403
    own = {"metadata": {"name": "own"}, "data": DATA | {"object": "/shop/web"}}
    assert request("POST", "", own, web)[0] == 202

    assert request("DELETE", "/front?reason=closed") == (202, {"job": branch.tip()})
    assert "check-front.yaml" not in branch.files()
    assert request("DELETE", "/front")[0] == 404


@dataclass
class RolledOut:
    """Two instances, of which the monitoring system answered ``failed`` to the first, and a service."""

    service: RunningService
    zookeeper: str
    monitor: ScriptedMonitor
    first: str = ""
    second: str = ""

    def get(self, path: str = "") -> Any:
        answer = self.service.client.get(f"/api/v1/checks{path}", auth=self.viewer)
        assert answer.status_code == 200, answer.text
        return answer.json()

    @cached_property
    def viewer(self) -> tuple[str, str]:
        return self.service.add_user(Role.VIEWER)

    def table(self, *words: str) -> str:
        return invoke("checks", *words, "-z", self.zookeeper).stdout

    def verb(self, *words: str) -> Any:
        done = invoke("checks", *words, "-z", self.zookeeper, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def fail(self) -> None:
        self.monitor.fetch(self.first)
        assert self.monitor.answer(self.first, "failed", {"reason": "no such plugin"}) == 200


@pytest.fixture
def site(publishing: Publishing, zookeeper: str) -> Iterator[RolledOut]:
    with Session(zookeeper, session_timeout=6) as session, running_service(zookeeper) as service:
        fleet = CheckedFleet(publishing, session)
        monitor = ScriptedMonitor(service.url, service.add_user(Role.MONITORING, "nagios1"))
        service.client.event_hooks = DESCRIBED
        site = RolledOut(service, zookeeper, monitor)
        fleet.publish(DOCUMENTS, web=80)
        fleet.report("web")
        with fleet.daemon() as daemon:
            daemon.run_turn()
            assert site.get("/summary")["monitoring"][0] | {"fetched": 0, "waiting_since": 1} == {
                "name": "nagios1",
                "callback": None,
                "fetched": 0,
                "reported": None,
                "backlog": 2,
                "flagged": 2,
                "open": 2,
                "failed": 0,
                "waiting_since": 1,
                "unheard_since": None,
            }
            site.first, site.second = sorted(monitor.list())
            site.fail()
            monitor.fetch(site.second)
            assert monitor.answer(site.second) == 200
            result = {"state": "critical", "output": "refused", "since": 5}
            assert monitor.request("PUT", "monitoring/nagios1/results", {site.second: result}).status_code == 200
            daemon.run_turn()
        # Watches report the changes of the last turn to the service.
        wait_until(lambda: site.get("/instances") == site.verb("instances"), "the service knows the last turn")
        yield site


def test_instances_are_shown_and_counted_and_verbs_print_the_same(site: RolledOut):
    get, verb = site.get, site.verb
    assert [one["name"] for one in get()["checks"]] == ["tcp"]
    assert verb("list") == get()
    shown = get("/tcp")
    assert (shown["wanted"], shown["errors"]) == (2, [])
    assert shown["states"] == {"rollout_failed": 1, "active": 1}
    assert shown["document"]["data"]["object"] == "/shop"
    assert verb("show", "tcp") == shown
    assert site.service.client.get("/api/v1/checks/other", auth=site.viewer).status_code == 404
    assert verb("summary") == get("/summary")
    assert get("/summary")["monitoring"][0]["failed"] == 1
    (group,) = get("/summary")["groups"]
    assert (group["name"], group["state"], group["ok"], group["total"]) == ("shop-quorum", "critical", 0, 2)
    assert "shop-quorum" in site.table("summary")

    listed = get("/instances")
    assert verb("instances") == listed
    assert {one["id"] for one in listed["instances"]} == {site.first, site.second}
    (failed,) = get("/instances?state=rollout_failed")["instances"]
    assert (failed["id"], failed["reason"], failed["path"]) == (site.first, "no such plugin", "/shop/web")
    assert verb("instances", "--state", "rollout_failed") == get("/instances?state=rollout_failed")
    host = failed["host"]
    assert [one["id"] for one in verb("instances", "--host", host)["instances"]] == [site.first]
    assert get(f"/instances?host={host}&path=/shop&check=tcp")["instances"] == [failed]
    assert get("/instances?path=/shops")["instances"] == []
    refused = site.service.client.get("/api/v1/checks/instances?path=shop", auth=site.viewer)
    assert (refused.status_code, "expected /shop" in refused.text) == (400, True)
    assert site.service.client.get("/api/v1/checks/instances?state=bad", auth=site.viewer).status_code == 400
    one = get(f"/instances/{site.second}")
    assert verb("instances", site.second) == one
    assert one["result"]["state"] == "critical"
    assert [version["state"] for version in one["configurations"]] == ["active"]
    assert one["configurations"][0]["details"]["arguments"] == ["-p", "80"]

    assert "rollout_failed: no such plugin" in site.table("instances")
    assert "critical" in site.table("instances")
    assert "no such plugin" in site.table("instances", site.first)
    assert "1 rollout_failed" in site.table("show", "tcp")
    assert "nagios1" in site.table("summary")
    alarm = run_forked("monitor", "--cluster", "-z", site.zookeeper)
    assert "monitoring system nagios1 could not deploy or remove 1 check instance" in alarm.stdout
    assert invoke("checks", "instances", MISSING, "-z", site.zookeeper).returncode == 3


def test_checks_of_hosts_in_maintenance_raise_no_alarm(site: RolledOut):
    hosts = sorted(one["host"] for one in site.get("/instances")["instances"])
    assert invoke("cordon", *hosts, "--reason", "new disks", "-z", site.zookeeper).returncode == 0
    wait_until(
        lambda: all(one["maintenance"] is not None for one in site.get("/instances")["instances"]),
        "the service knows the maintenance of both hosts",
    )
    listed = site.get("/instances")
    assert {one["maintenance"]["reason"] for one in listed["instances"]} == {"new disks"}
    assert site.verb("instances") == listed
    assert site.get(f"/instances/{site.second}") == site.verb("instances", site.second)
    assert site.table("instances").count("in maintenance") == 2
    assert "new disks" in site.table("instances", site.second)
    summary = site.get("/summary")
    assert site.verb("summary") == summary
    assert summary["monitoring"][0]["failed"] == 0
    assert summary["groups"][0]["state"] == "in maintenance"
    explained = site.service.client.get(f"/api/v1/hosts/{hosts[0]}/why", auth=site.viewer).json()
    assert [one["maintenance"]["reason"] for one in explained["checks"]] == ["new disks"]
    alarm = run_forked("monitor", "--cluster", "-z", site.zookeeper).stdout
    assert "could not deploy" not in alarm
    assert "check group shop-quorum: deployments of /shop that are OK: 0 of 2, expected at least" in alarm
    assert site.monitor.request("GET", "monitoring/nagios1/work").json() == {"hosts": hosts}
    page = site.service.client.get("/checks", auth=site.viewer).text
    assert page.count('<span class="chip planned">in maintenance</span>') >= 3


def test_clients_share_one_reading_and_the_results_of_a_silent_system_are_unknown(
    site: RolledOut, client: KazooClient, monkeypatch: pytest.MonkeyPatch
):
    adapters = site.service.adapters
    listed, shown = site.get("/instances"), site.get("/tcp")
    assert [one["result"] and one["result"]["state"] for one in _by_id(listed, site)] == [None, "critical"]
    sent = [
        *(
            sent_requests(session, monkeypatch)
            for session in (adapters.feed._session, check_adapters_of(adapters).instances._session)
        )
    ]
    with site.service.browser(site.viewer) as browser:
        for _ in range(5):
            assert (site.get("/instances"), site.get("/tcp")) == (listed, shown)
            page = browser.get("/checks").text
            assert "shop-quorum" in page
            assert "rollout_failed: no such plugin" in page
            assert "refused" in page
    assert [path for requests in sent for path in _paths(requests) if f"{check_paths.INSTANCES}/" in path] == []

    contact = f"{check_paths.system_path('nagios1')}/contact"
    reported = time.time() - STALE_AFTER - 1
    write_node(client, contact, {"fetched": reported, "reported": reported})
    wait_until(lambda: _by_id(site.get("/instances"), site)[1]["result"]["state"] == "unknown", "the silence")
    assert site.get("/instances") == site.verb("instances")
    one = site.get(f"/instances/{site.second}")
    assert one == site.verb("instances", site.second)
    assert one["result"]["output"] == "its monitoring system reports no results any more"
    (summary,) = site.get("/summary")["monitoring"]
    assert summary["unheard_since"] is not None
    write_node(client, contact, {"fetched": time.time(), "reported": 5})
    alarm = run_forked("monitor", "--cluster", "-w", "0", "-z", site.zookeeper)
    assert "monitoring system nagios1 has reported no results for " in alarm.stdout


def test_results_of_another_configuration_are_dropped_and_shown_as_drift(site: RolledOut):
    one = site.get(f"/instances/{site.second}")
    right = one["configurations"][0]["config_id"]
    results = {
        site.second: {"state": "ok", "output": "a former version", "since": 5, "config_id": MISSING},
        MISSING: {"state": "ok", "since": 5},
    }

    def report() -> Any:
        return site.monitor.request("PUT", "monitoring/nagios1/results", results).json()

    assert report() == {"ignored": [MISSING, site.second]}
    assert site.get(f"/instances/{site.second}") == one
    drift = site.get("/instances/drift")
    assert site.verb("drift") == drift
    assert [(entry["id"], entry["reported"], entry["expected"]) for entry in drift["drift"]] == [
        (MISSING, None, None),
        (site.second, MISSING, right),
    ]
    assert "nothing" in site.table("drift")

    results[site.second]["config_id"] = right
    assert report() == {"ignored": [MISSING]}
    assert site.get(f"/instances/{site.second}")["result"]["config_id"] == right
    assert [entry["id"] for entry in site.get("/instances/drift")["drift"]] == [MISSING]
    active = site.monitor.request("GET", "monitoring/nagios1/active").json()
    assert active == {
        "deploymentsList": [site.second],
        "configurations": {site.second: right},
        "deprovision_failed": [],
        "removal_allowed": False,
    }


def test_an_operator_allows_the_removal_of_unknown_checks_for_an_hour(site: RolledOut):
    client, operator = site.service.client, site.service.add_user(Role.OPERATOR)

    def is_allowed() -> bool:
        allowed: bool = site.monitor.request("GET", "monitoring/nagios1/active").json()["removal_allowed"]
        return allowed

    address, reason = "/api/v1/checks/systems/nagios1/allow-removal", {"reason": "an old backup"}
    assert not is_allowed()
    assert client.post(address, json=reason, auth=site.viewer).status_code == 403
    assert client.post(address.replace("nagios1", "other"), json=reason, auth=operator).status_code == 404
    answer = client.post(address, json=reason, auth=operator).json()
    assert answer["until"] == pytest.approx(time.time() + 3600, abs=30)
    assert is_allowed()
    act = client.get("/api/v1/audit", auth=operator).json()["acts"][0]
    assert (act["what"], act["reason"]) == ("checks allow-removal --system nagios1", "an old backup")
    check_adapters_of(site.service.adapters).systems.allow_removal("nagios1", time.time() - 1)
    assert not is_allowed()
    assert site.table("allow-removal", "--system", "nagios1", "--reason", "x").startswith("nagios1 may remove")
    assert is_allowed()


def _by_id(listed: Any, site: RolledOut) -> list[Any]:
    by_id = {one["id"]: one for one in listed["instances"]}
    return [by_id[site.first], by_id[site.second]]


def _paths(requests: list[Any]) -> list[str]:
    """Return the paths in requests, also of those that were sent together."""
    return [
        str(one.path) for sent in requests for one in getattr(sent, "requests", [sent]) if hasattr(one, "path")
    ]


def test_operators_retry_failed_instances_only_and_it_is_recorded(site: RolledOut):
    client, operator = site.service.client, site.service.add_user(Role.OPERATOR)
    retry = f"/api/v1/checks/instances/{site.first}/retry"
    assert client.post(retry, auth=site.viewer).status_code == 403
    limited = site.service.add_user(Role.OPERATOR, "limited", ("/other",))
    assert client.post(retry, auth=limited).status_code == 403
    answer = client.post(retry, json={"reason": "installed"}, auth=operator)
    assert (answer.status_code, answer.json()["state"]) == (200, "awaiting_rollout")
    assert answer.json()["update_available"] is True
    assert client.post(retry, auth=operator).status_code == 409
    assert client.post("/api/v1/checks/instances/x/retry", auth=operator).status_code == 400
    assert client.post(f"/api/v1/checks/instances/{MISSING}/retry", auth=operator).status_code == 404
    act = client.get("/api/v1/audit", auth=operator).json()["acts"][0]
    assert (act["by"], act["what"], act["reason"]) == ("operator", f"checks retry {site.first}", "installed")


def test_the_verb_retries_one_instance_or_all_of_a_system_or_of_a_check(site: RolledOut):
    assert invoke("checks", "retry", "-z", site.zookeeper).returncode == 2
    assert invoke("checks", "retry", "--check", "other", "-z", site.zookeeper).returncode == 3
    assert [one["id"] for one in site.verb("retry", "--check", "tcp")["instances"]] == [site.first]
    refused = invoke("checks", "retry", "--system", "nagios1", "-z", site.zookeeper)
    assert refused.returncode == 3
    assert "no failed check instance is selected: nothing to retry" in refused.stderr
    site.fail()
    assert site.table("retry", "--system", "nagios1") == f"{site.first} awaiting_rollout\n"
    site.fail()
    assert site.table("retry", site.first) == f"{site.first} awaiting_rollout\n"
    refused = invoke("checks", "retry", site.first, "-z", site.zookeeper)
    assert refused.returncode == 3
    assert "the state is awaiting_rollout; expected " in refused.stderr


def test_a_system_that_is_gone_is_abandoned_when_no_check_names_it(site: RolledOut, publishing: Publishing):
    client, operator = site.service.client, site.service.add_user(Role.OPERATOR)
    limited = site.service.add_user(Role.OPERATOR, "limited", ("/shop",))
    address, reason = "/api/v1/checks/systems/nagios1/abandon", {"reason": "it was scrapped"}
    refused = client.post(address, json=reason, auth=operator)
    assert refused.status_code == 409
    assert "published checks name it (tcp); delete them, or let them name another" in refused.json()["detail"]
    warned = invoke("user", "retire", "nagios1", "--reason", "it is gone", "-z", site.zookeeper)
    assert "nagios1 still has check instances (2), which it cannot remove any more" in warned.stderr

    with Session(site.zookeeper, session_timeout=6) as session:
        fleet = CheckedFleet(publishing, session)
        fleet.publish(
            DOCUMENTS.replace("monitoring: nagios1", "monitoring: nagios2") + system_document("nagios2"), web=80
        )
        fleet.report("web")
        with fleet.daemon() as daemon:
            daemon.run_turn()
            assert client.post(address, json=reason, auth=limited).status_code == 403
            assert client.post(address, auth=operator).status_code == 422
            answer = client.post(address, json=reason, auth=operator)
            assert (answer.status_code, len(answer.json()["instances"])) == (200, 1)
            daemon.run_turn()

    def listed() -> list[tuple[str, str]]:
        return [(one["monitoring"], one["state"]) for one in site.get("/instances")["instances"]]

    wait_until(lambda: listed() == [("nagios2", "awaiting_rollout")] * 2, "the instances of the other system")
    act = client.get("/api/v1/audit", auth=operator).json()["acts"][0]
    assert (act["what"], act["reason"]) == ("checks abandon --system nagios1", "it was scrapped")
    again = invoke("checks", "abandon", "--system", "nagios1", "--reason", "x", "-z", site.zookeeper)
    assert (again.returncode, "nothing to abandon" in again.stderr) == (3, True)


def test_a_check_whose_arguments_have_no_value_is_shown_with_its_errors(publishing: Publishing, zookeeper: str):
    with Session(zookeeper, session_timeout=6) as session:
        fleet = CheckedFleet(publishing, session)
        documents = DOCUMENTS.replace("{property.port}", "{property.ports}")
        fleet.publish(documents, web=80)
        fleet.report("web")
        with fleet.daemon() as daemon:
            daemon.run_turn()
        assert fleet.instances() == {}
    shown = json.loads(invoke("checks", "show", "tcp", "-z", zookeeper, "-o", "json").stdout)
    assert shown["states"] == {}
    assert shown["errors"] == [
        {
            "path": "/shop/web",
            "message": "{property.ports} has no value: the service has no property ports",
            "instances": 2,
        }
    ]
    table = invoke("checks", "show", "tcp", "-z", zookeeper).stdout
    assert "error: /shop/web: {property.ports} has no value" in table
