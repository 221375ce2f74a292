"""The status of intents on a real fleet: each row of both tables, as people and programs see it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from support.hosts.rpms import build_rpm
from support.sandboxes import PROGRAMS, SandboxCommands
from support.waiting import UNLIMITED, wait_until

if TYPE_CHECKING:
    from pathlib import Path

TREE = """\
/shop
  /front : web
    version = '{web}'
    greeting = 'hello'
    /providers
    /deploy
      /host1
        n = 2
      /host3
      /ghost.sandbox
  /db : db
    version = '{db}'
    /deploy
      /host2
/net
  /vlan : db
    version = '{db}'
    /deploy
      /host3
"""
INTENTS = """\
schema: zkdeployment/DeploymentIntentGroup/v1
metadata: {project: p1, composite-app: store, version: v1, name: shop}
data:
  composite-profile: plain
  apps: {front: [/shop/front], db: [/shop/db]}
  state: Created
---
schema: zkdeployment/Cluster/v1
metadata: {provider: ams, name: host3}
data:
  network-intents: {vlan: [/net/vlan]}
  state: Created
"""
SHOP = "p1/store/v1/shop"
VLAN = "ams/host3"

#: A script that waits while its host is blocked and fails while its host is broken. Instance 0 registers itself.
SCRIPT = """\
#!/bin/sh
touch "$ZKDEPLOYMENT_ROOT/working"
while [ -e "$ZKDEPLOYMENT_ROOT/block" ]; do sleep 0.05; done
rm "$ZKDEPLOYMENT_ROOT/working"
[ ! -e "$ZKDEPLOYMENT_ROOT/broken" ] || { echo "no disk" >&2; exit 3; }
pid="$ZKDEPLOYMENT_ROOT/provider.pid"
case "$*" in *"/shop/front 0")
  [ ! -e "$pid" ] || kill "$(cat "$pid")"
  rm -f "$pid"
  [ "$1" != -u ] || exit 0
  zkdeployment provide /shop/front/providers "$ZKDEPLOYMENT_HOST_ID:80" -p port=80 >/dev/null 2>&1 &
  echo $! > "$pid"
esac
"""


class Fleet:
    """A sandbox with intents, and the output of its verbs about them."""

    def __init__(self, box: SandboxCommands) -> None:
        self.box = box

    def act(self, *words: str) -> None:
        done = self.box.zkdeployment("intent", *words, "--reason", "a test")
        assert done.returncode == 0, done.stdout + done.stderr

    def status(self, subject: str = SHOP, *filters: str) -> dict[str, Any]:
        done = self.box.zkdeployment("intent", "status", subject, "-o", "json", *filters)
        assert done.returncode == 0, done.stdout + done.stderr
        body = json.loads(done.stdout)
        names = [resource["Name"] for _, _, resource in resources(body)]
        assert len(names) == len(set(names)), "no resource is listed twice"
        return body

    def statuses(self, subject: str = SHOP) -> dict[str, tuple[str | None, str]]:
        """Return both statuses of each resource by its name."""
        return {
            resource["Name"]: (resource.get("rsync-status"), resource["cluster-status"])
            for _, _, resource in resources(self.status(subject))
        }

    def wait_for(self, expected: dict[str, tuple[str | None, str]], awaited: str, subject: str = SHOP) -> None:
        """Wait until exactly these resources have these statuses."""
        try:
            wait_until(lambda: self.statuses(subject) == expected, awaited)
        except AssertionError as error:
            raise AssertionError(f"{awaited}: expected {expected}, found {self.statuses(subject)}") from error

    def wait_for_state(self, state: str, subject: str = SHOP) -> None:
        wait_until(lambda: self.status(subject)["state"] == state, f"{subject} is {state}")

    def file(self, host: str, name: str) -> Path:
        return self.box.root(host) / name

    def hang_up(self, host: str) -> None:
        os.kill(self.box.status["hosts"][host]["pid"], signal.SIGHUP)

    def push(self, **versions: str) -> str:
        """Push the tree with these versions, and the documents of the branch's tip."""
        show = ["git", "--git-dir", self.box.status["tree"], "show", "main:intents.yaml"]
        intents = subprocess.run(show, capture_output=True, text=True, check=False).stdout or INTENTS
        return self.box.push(TREE.format(**versions), "a push", {"intents.yaml": intents})


def resources(body: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (app["app-name"], cluster["name"], resource)
        for app in body.get("resources", ())
        for cluster in app["clusters"]
        for resource in cluster["resources"]
    ]


@pytest.fixture(scope="module")
def fleet(make_box, place) -> Fleet:
    box = make_box("intents")
    box.up("--hosts", "3")
    packages = [
        build_rpm(place / "rpms", name, version, script=SCRIPT)
        for name, version in (("web", "1"), ("web", "2"), ("db", "1"))
    ]
    assert box.sandbox("rpm", *packages).returncode == 0
    return Fleet(box)


FRONT = [f"host1:/shop/front.{number}" for number in (0, 1)]
FRONT3, DB = "host3:/shop/front.0", "host2:/shop/db.0"
GHOST = "ghost.sandbox:/shop/front.0"
APPLIED = ("Applied", "Present")
PENDING = ("Pending", "NotPresent")
DONE = ("Terminated", "NotPresent")
FAILED = ("Failed", "NotPresent")
NEVER_SEEN = {GHOST: ("Retrying", "Unknown")}
NEVER_WAS = {GHOST: ("Terminated", "Unknown")}
ALL_APPLIED = {**dict.fromkeys([*FRONT, FRONT3, DB], APPLIED), **NEVER_SEEN}


def test_nothing_is_deployed_before_it_is_approved_and_instantiated(fleet: Fleet) -> None:
    revision = fleet.push(web="1", db="1")
    converged = fleet.box.wait(revision)
    assert converged.returncode == 0, converged.stdout + converged.stderr
    assert fleet.status() == {
        "name": "shop",
        "project": "p1",
        "composite-app-name": "store",
        "composite-app-version": "v1",
        "composite-profile-name": "plain",
        "state": "Created",
    }
    assert fleet.status(VLAN) == {"name": "host3", "state": "Created"}
    assert not list(fleet.box.root("host1").glob("etc/*/*.deployed"))


def test_pending_applied_and_retrying_resources_of_an_instance(fleet: Fleet) -> None:
    fleet.box.sandbox("stop", "host2")
    fleet.file("host1", "block").touch()
    fleet.file("host3", "block").touch()
    fleet.act("approve", SHOP)
    fleet.wait_for_state("Approved")
    fleet.act("instantiate", SHOP)
    fleet.wait_for(
        {**dict.fromkeys([*FRONT, FRONT3], PENDING), DB: ("Retrying", "NotPresent"), **NEVER_SEEN},
        "blocked hosts are pending, and an absent one is tried again",
    )
    fleet.file("host1", "block").unlink()
    fleet.file("host3", "block").unlink()
    fleet.wait_for(ALL_APPLIED | {DB: ("Retrying", "NotPresent")}, "the present hosts have deployed")
    fleet.box.sandbox("start", "host2")
    fleet.wait_for(ALL_APPLIED, "the absent host is back")

    summary = fleet.status(SHOP, "--output", "summary")
    assert "resources" not in summary
    assert summary["rsync-status"] == {"Applied": 4, "Retrying": 1}
    assert summary["cluster-status"] == {"Present": 4, "Unknown": 1}
    filtered = fleet.status(SHOP, "--app", "front", "--cluster", "host1", "--output", "summary")
    assert filtered["rsync-status"] == {"Applied": 2}
    (instance,) = instances(fleet)
    assert instance["terminated"] is None


def test_details_have_the_marker_the_provider_and_the_facts_of_the_host(fleet: Fleet) -> None:
    (instance,) = instances(fleet)
    wait_until(lambda: provider_of(fleet, FRONT[0]), "the instance registers itself")
    (detailed,) = (
        resource
        for _, _, resource in resources(fleet.status(SHOP, "--output", "detail"))
        if resource["Name"] == FRONT[0]
    )
    assert detailed["GVK"] == {"Group": "zkdeployment", "Version": "v1", "Kind": "Deployment"}
    assert detailed["metadata"]["labels"] == {
        "zkdeployment/instance": instance["id"],
        "zkdeployment/app": "front",
    }
    host = detailed["metadata"]["host"]
    assert (host["id"], host["name"], host["address"]) == ("host1", "host1.sandbox", "127.0.0.1")
    assert (detailed["spec"]["package"], detailed["spec"]["properties"]["greeting"]) == ("web", "hello")
    assert detailed["status"]["marker"] == {"package": "web", "version": "1", "sequence": instance["id"]}
    (provider,) = detailed["status"]["providers"]
    assert provider["path"] == "/shop/front/providers/host1:80"
    assert (provider["host"], provider["deployment"], provider["port"]) == ("host1", "/shop/front 0", 80)
    assert provider["version"]
    wanted = fleet.status(SHOP, "--output", "rsync")
    assert "cluster-status" not in wanted
    for _, _, resource in resources(wanted):
        assert set(resource) == {"GVK", "Name", "metadata", "spec", "rsync-status"}
        assert set(resource["metadata"]) == {"labels"}


@pytest.mark.nightly
def test_resources_that_exist_only_in_reality_and_resources_lost_by_hand(fleet: Fleet) -> None:
    marker = fleet.file("host3", "etc/web/shop:front.0.deployed")
    content = marker.read_text()
    marker.unlink()
    unwanted = fleet.file("host3", "etc/web/shop:front.9.deployed")
    unwanted.write_text(json.dumps(json.loads(content) | {"number": 9}))
    fleet.hang_up("host3")
    fleet.wait_for(
        ALL_APPLIED | {FRONT3: ("Applied", "NotPresent"), "host3:/shop/front.9": (None, "Present")},
        "host3 reports its markers again",
    )
    unwanted.unlink()
    marker.write_text(content)
    fleet.hang_up("host3")
    fleet.wait_for(ALL_APPLIED, "host3 reports its markers once more")

    stray = "/shop/front/providers/192.0.2.99:80"
    provide = [str(PROGRAMS / "zkdeployment"), "provide", "/shop/front/providers", "192.0.2.99:80"]
    with subprocess.Popen(provide, env=fleet.box.environment, stdin=subprocess.DEVNULL) as provider:
        fleet.wait_for(ALL_APPLIED | {stray: (None, "Present")}, "the provider is seen")
        (kind,) = (
            (app, cluster, resource["GVK"]["Kind"])
            for app, cluster, resource in resources(fleet.status())
            if resource["Name"] == stray
        )
        provider.terminate()
    assert kind == ("front", "-", "Provider")
    fleet.wait_for(ALL_APPLIED, "the provider is gone")


@pytest.mark.nightly
def test_a_host_that_reports_again_after_a_crash_makes_no_second_entry(fleet: Fleet) -> None:
    fleet.box.sandbox("stop", "host3", "--kill")
    fleet.wait_for(ALL_APPLIED, "what an absent host has recorded stays applied")
    fleet.box.sandbox("start", "host3")
    done = fleet.box.wait()
    # All hosts are converged. The tree also deploys to a host that does not exist, which is never success.
    assert done.returncode == 4, done.stdout + done.stderr
    assert "no host runs what the tree deploys to ghost.sandbox" in done.stdout
    fleet.wait_for(ALL_APPLIED, "host3 is back")
    assert fleet.status(SHOP, "--output", "summary")["rsync-status"] == {"Applied": 4, "Retrying": 1}


@pytest.mark.nightly
def test_a_cluster_is_applied_and_terminated(fleet: Fleet) -> None:
    resource = "host3:/net/vlan.0"
    fleet.act("apply", VLAN, "--wait", "--timeout", str(UNLIMITED))
    fleet.wait_for({resource: APPLIED}, "the cluster is applied", VLAN)
    body = fleet.status(VLAN, "--cluster", "ams+host3")
    assert (body["name"], body["state"], body["rsync-status"]) == ("host3", "Applied", {"Applied": 1})
    assert "project" not in body
    fleet.act("terminate", VLAN, "--wait", "--timeout", str(UNLIMITED))
    fleet.wait_for({resource: DONE}, "the cluster is terminated", VLAN)
    assert fleet.status(VLAN)["state"] == "Terminated"
    assert fleet.statuses() == ALL_APPLIED


@pytest.mark.nightly
def test_a_terminated_instance_is_pending_until_its_hosts_have_undeployed(fleet: Fleet) -> None:
    for host in ("host1", "host3"):
        fleet.file(host, "block").touch()
    fleet.act("terminate", SHOP)
    running = [f"/shop/front/providers/{host}:80" for host in ("host1", "host3")]
    fleet.wait_for(
        {
            **dict.fromkeys([*FRONT, FRONT3], ("Pending", "Present")),
            **dict.fromkeys(running, (None, "Present")),
            DB: DONE,
            **NEVER_WAS,
        },
        "blocked hosts are still to undeploy, and nobody wants what runs there",
    )
    for host in ("host1", "host3"):
        fleet.file(host, "block").unlink()
    fleet.wait_for({**dict.fromkeys([*FRONT, FRONT3, DB], DONE), **NEVER_WAS}, "all hosts have undeployed")
    (instance,) = instances(fleet)
    assert instance["terminated"] > instance["instantiated"]


@pytest.mark.nightly
def test_a_script_that_fails_and_packages_that_fail(fleet: Fleet) -> None:
    (first,) = instances(fleet)
    fleet.push(web="2", db="9")
    wait_until(lambda: fleet.box.zkdeployment("intent", "approve", SHOP).returncode == 0, "the approval")
    fleet.box.sandbox("stop", "host2")
    fleet.file("host1", "block").touch()
    fleet.file("host3", "block").touch()
    wait_until(lambda: fleet.box.zkdeployment("intent", "instantiate", SHOP).returncode == 0, "the act")
    fleet.wait_for(
        {**dict.fromkeys([*FRONT, FRONT3], PENDING), DB: ("Retrying", "NotPresent"), **NEVER_SEEN},
        "the new instance",
    )
    working = [fleet.file(host, "working") for host in ("host1", "host3")]
    wait_until(lambda: any(file.exists() for file in working), "one of two hosts runs the script")
    (busy, idle) = ("host1", "host3") if working[0].exists() else ("host3", "host1")
    failing = FRONT[0] if busy == "host1" else FRONT3
    fleet.box.sandbox("start", "host2")
    others = dict.fromkeys([*FRONT, FRONT3], PENDING)
    fleet.wait_for({**others, DB: FAILED, **NEVER_SEEN}, "the packages of host2 fail")
    fleet.file(busy, "broken").touch()
    fleet.file(busy, "block").unlink()
    failed = {**others, failing: FAILED, DB: FAILED, **NEVER_SEEN}
    fleet.wait_for(failed, "the script fails")
    details = {
        resource["Name"]: resource["status"]
        for _, _, resource in resources(fleet.status(SHOP, "--output", "detail"))
    }
    assert "failed with exit status 3" in details[failing]["error"]
    assert details[failing]["step"] == "deploy /shop/front 0"
    assert "no repository has the package db 9" in details[DB]["error"]
    for host in (busy, "host2"):
        fleet.box.sandbox("stop", host)
    absent = {FRONT[1]: ("Retrying", "NotPresent")} if busy == "host1" else {}
    fleet.wait_for(failed | absent, "the failures of absent hosts stay")
    for host in (busy, "host2"):
        fleet.box.sandbox("start", host)
    fleet.wait_for(failed, "the failures stay after a restart")
    fleet.file(idle, "block").unlink()

    assert [each["id"] for each in instances(fleet)][1:] == [first["id"]]
    earlier = fleet.status(SHOP, "--instance", str(first["id"]))
    assert earlier["rsync-status"] == {"Terminated": 5}


def instances(fleet: Fleet) -> list[dict[str, Any]]:
    done = fleet.box.zkdeployment("intent", "instances", SHOP, "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["instances"]
    return found


def provider_of(fleet: Fleet, name: str) -> Any:
    return [
        provider
        for _, _, resource in resources(fleet.status(SHOP, "--output", "detail"))
        if resource["Name"] == name
        for provider in resource["status"]["providers"]
    ]
