"""Agents in threads: real ZooKeeper, real scripts and files, the fake package manager."""

import email
import json
import os
import shutil
from contextlib import ExitStack
from unittest import mock

import pytest
from structlog.testing import capture_logs

from support.agents import AgentHost, Fleet, called, put_script, wait_for_versions
from support.waiting import UNLIMITED, wait_until
from support.web.servers import MailServer
from zkdeployment.agent.reporting.host_reporting import HostReporting
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.agent.store.service_locks import ZooKeeperServiceLock
from zkdeployment.base.daemon.cycles import Backoff
from zkdeployment.base.errors import ConfigurationError, RefusedError, RestartError, UnreachableError
from zkdeployment.config.settings import load
from zkdeployment.programs.agent import build_agent


@pytest.fixture
def host(fleet: Fleet) -> AgentHost:
    return fleet.host("h1")


def test_a_new_host_registers_and_reaches_the_initial_version_without_a_change(fleet, host):
    with host.agent():
        host.wait_for_version("initial")
        assert host.node["name"] == "h1.example.com"
    assert fleet.get("/hosts/h1") == {}
    assert [path.name for path in host.root.rglob("*") if path.is_file()] == ["lock"]


def test_hosts_of_a_large_fleet_spread_their_reads_after_a_change(fleet, host, monkeypatch):
    asked = []

    def uniform(low, high):
        asked.append((low, high))
        return low

    monkeypatch.setattr("zkdeployment.base.daemon.cycles.random.uniform", uniform)
    fleet.set_version("r1")
    transaction = fleet.client.transaction()
    for number in range(1049):
        transaction.create(f"/hosts/other{number}", b"{}")
    transaction.commit()
    with host.agent():
        host.wait_for_version("r1")
        fleet.set_version("r2")
        host.wait_for_version("r2")
    assert (0, 1.0) in asked


def test_a_published_service_is_installed_deployed_marked_and_recorded(fleet, host):
    fleet.service("/who/myfoo", "foo bar", "1.0", h1=2)
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_version("r1")
        assert {"deploying", "step", "steps", "error"}.isdisjoint(host.node)
    assert fleet.calls() == [
        "h1 start -r bar /who/myfoo 0",
        "h1 end -r bar /who/myfoo 0",
        "h1 start -r bar /who/myfoo 1",
        "h1 end -r bar /who/myfoo 1",
    ]
    assert host.markers == ["who:myfoo.0.deployed", "who:myfoo.1.deployed"]
    assert json.loads((host.root / "etc/foo/who:myfoo.1.deployed").read_text()) == {
        "path": "/who/myfoo",
        "number": 1,
        "package": "foo",
        "subtype": "bar",
        "script": str(host.root / "opt/foo/bin/zookeeper-deploy"),
        "version": "1.0",
        "sequence": None,  # the version was set by hand
    }
    assert json.loads((host.run / "host_version").read_text()) == "r1"
    assert json.loads((host.root / "var/lib/zkdeployment/managed.json").read_text()) == {"foo": "foo"}
    time, pid, version, status = (host.run / "status").read_text().rstrip("\n").split(" ")
    assert (float(time) > 0, int(pid) > 0, version, status) == (True, True, "r1", "done")


def test_a_host_with_a_role_runs_the_deployments_of_the_role(fleet):
    host = fleet.host("h1", role="web")
    fleet.service("/who/myfoo", "foo", "1.0", web=1)
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_version("r1")
        assert host.node["role"] == "web"
    assert host.markers == ["who:myfoo.0.deployed"]


def test_an_unwanted_service_is_undeployed_and_its_software_is_removed(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version(1)
    with host.agent():
        wait_until(lambda: host.has_finished(1), "1")
        fleet.remove("/who")
        fleet.set_version(2)
        wait_until(lambda: host.has_finished(2), "2")
    assert fleet.calls()[-2:] == ["h1 start -u /who/myfoo 0", "h1 end -u /who/myfoo 0"]
    assert host.packages.installed() == {}
    assert not (host.root / "opt/foo").exists()
    assert not (host.root / "etc/foo").exists()
    assert json.loads((host.root / "var/lib/zkdeployment/managed.json").read_text()) == {}


def test_software_whose_files_were_deleted_is_installed_again(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_version("r1")
        shutil.rmtree(host.root / "opt/foo")
        fleet.set_version("r2")
        host.wait_for_version("r2")
        shutil.rmtree(host.root / "opt/foo")
        fleet.remove("/who")
        fleet.set_version("r3")
        host.wait_for_version("r3")
    assert fleet.calls() == called("/who/myfoo 0", "/who/myfoo 0", "-u /who/myfoo 0")
    assert (host.packages.installed(), host.markers) == ({}, [])


def test_an_undeployment_without_its_script_stops_the_fleet(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_version("r1")
        shutil.rmtree(host.root / "opt/foo")
        host.packages.drop("foo")
        fleet.remove("/who")
        fleet.set_version("r2")
        wait_until(lambda: fleet.version is None, "the stop")
        script = host.root / "opt/foo/bin/zookeeper-deploy"
        assert f"cannot undeploy /who/myfoo 0 (foo): expected its deploy script {script}" in host.node["error"]
        assert host.markers == ["who:myfoo.0.deployed"]
        put_script(host.root, "foo")
        fleet.set_version("r2")
        host.wait_for_version("r2")
    assert fleet.calls() == called("/who/myfoo 0", "-u /who/myfoo 0")


def test_an_idle_agent_caps_the_output_of_daemons_that_scripts_started(fleet, host, monkeypatch):
    monkeypatch.setattr("zkdeployment.agent.daemon.waits._CAP_PAUSE", 0.05)
    log = host.root / "var/log/zkdeployment/left.log"
    log.parent.mkdir(parents=True)
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_version("r1")
        with log.open("ab") as output:
            output.write(b"x" * 40_000_000)
        wait_until(lambda: log.stat().st_size < 20_000_000, "the output is capped")


def test_every_wanted_deployment_runs_again_for_each_version_in_any_order(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    with host.agent():
        for version in ("r2", 7, 3, "r1"):
            fleet.set_version(version)
            wait_until(lambda version=version: host.has_finished(version), f"{version}")
    assert fleet.calls() == ["h1 start /who/myfoo 0", "h1 end /who/myfoo 0"] * 4


def test_a_restarted_agent_does_nothing_unless_the_cluster_version_differs(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_version("r1")
    before = fleet.calls()
    (host.run / "status").unlink()
    with host.agent():
        host.wait_for_version("r1")
    assert fleet.calls() == before
    fleet.set_version("r2")
    with host.agent():
        host.wait_for_version("r2")


def test_the_version_of_a_persistent_node_of_an_old_agent_is_adopted(fleet, host):
    fleet.set_version(7)
    fleet.client.create("/hosts/h1", b'{"version": 7}')
    with host.agent():
        wait_until(lambda: host.has_finished(7), "7")
        assert fleet.client.exists("/hosts/h1").ephemeralOwner
    assert host.version_on_disk == 7


def test_a_persistent_node_does_not_hide_an_incomplete_deployment(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    host.run.mkdir()
    (host.run / "host_version").write_text("null")
    fleet.client.create("/hosts/h1", b'{"version": "r1"}')
    with host.agent():
        host.wait_for_version("r1")
    assert fleet.calls() == called("/who/myfoo 0")


def test_the_version_of_a_persistent_node_takes_precedence_over_the_version_on_disk(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r2")
    host.run.mkdir()
    (host.run / "host_version").write_text('"r1"')
    fleet.client.create("/hosts/h1", b'{"version": "r2"}')
    with host.agent():
        host.wait_for_version("r2")
    assert fleet.calls() == []


@pytest.mark.parametrize(
    ("hosts", "state"),
    [
        ({"version": None}, "stopped"),
        ({"version": False}, "held"),
        ({"version": "r1", "importing": "r2"}, "importing"),
    ],
)
def test_nothing_starts_while_the_cluster_is_stopped_held_or_importing(fleet, host, hosts, state):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version(**hosts)
    with capture_logs() as logs, host.agent():
        wait_until(lambda: "deployments-held" in [line["event"] for line in list(logs)], "it has looked")
        assert fleet.calls() == []
        assert host.packages.installed() == {}
        fleet.set_version("r3")
        host.wait_for_version("r3")
    assert [line["reason"] for line in logs if line["event"] == "deployments-held"] == [f"the cluster is {state}"]
    assert fleet.calls() == ["h1 start /who/myfoo 0", "h1 end /who/myfoo 0"]


def test_a_failing_script_stops_the_fleet_before_its_lock_is_free(fleet, host):
    other = fleet.host("h2")
    fleet.service("/who/myfoo", "foo", "1.0", h1=1, h2=1)
    fleet.set_version("r1")
    host.fail("/who/myfoo 0")
    block = host.block()
    with host.agent():
        wait_until(lambda: fleet.calls() == ["h1 start /who/myfoo 0"], "h1 has the lock")
        with other.agent():
            wait_until(lambda: "wait for the lock" in other.node.get("step", ""), "h2 queues")
            assert "h1.example.com (h1)" in other.node["step"]
            block.unlink()
            host.wait_for_error()
            wait_until(lambda: not fleet.client.get_children("/agent-locks/who,myfoo"), "h2 leaves the queue")
    assert fleet.version is None
    assert fleet.calls() == ["h1 start /who/myfoo 0", "h1 fail /who/myfoo 0"]
    stop = fleet.get("/zkdeployment/stops/h1")
    assert (stop["host"], stop["revision"], stop["step"]) == ("h1", "r1", "deploy /who/myfoo 0")
    assert stop["reason"].endswith("/opt/foo/bin/zookeeper-deploy /who/myfoo 0 failed with exit status 3")
    assert "boom" not in stop["reason"]
    assert host.status == "error"
    assert host.markers == []
    assert host.version_on_disk is None


def test_a_failed_revision_is_tried_again_only_when_it_is_set_again(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    failing = host.fail("/who/myfoo 0")
    with host.agent():
        host.wait_for_error()
        failing.unlink()
        fleet.set_version(None, touched=True)
        fleet.set_version("r1")
        host.wait_for_version("r1")
        assert "error" not in host.node
    assert fleet.calls().count("h1 start /who/myfoo 0") == 2


def test_a_rollback_clears_the_error_of_a_host_that_failed_before_any_change(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_version("r1")
        calls = fleet.calls()
        fleet.service("/who/myfoo", "foo", "9.9", h1=1)
        fleet.set_version("r2")
        wait_until(lambda: fleet.version is None and host.status == "error", "the failure")
        fleet.set_version("r1")
        wait_until(lambda: host.has_finished("r1") and "error" not in host.node, "all is well again")
    assert fleet.calls() == calls


def test_a_rollback_after_a_failed_deployment_deploys_the_former_version_again(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_version("r1")
        failing = host.fail("/who/mybar 0")
        fleet.service("/who/mybar", "bar", "1.0", h1=1)
        fleet.set_version("r2")
        wait_until(lambda: fleet.version is None and host.status == "error", "the failure")
        assert (host.node["version"], host.node["former"]) == (None, "r1")
        assert host.version_on_disk is None
        failing.unlink()
        fleet.remove("/who/mybar")
        fleet.set_version("r1")
        wait_until(lambda: host.has_finished("r1") and "error" not in host.node, "h1 finishes r1 again")
        assert "former" not in host.node
    assert host.packages.installed().keys() == {"foo"}
    assert host.markers == ["who:myfoo.0.deployed"]


def test_a_rollback_after_an_abandoned_deployment_deploys_the_former_version_again(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=2)
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_version("r1")
        block = host.block()
        before = len(fleet.calls())
        fleet.set_version("r2")
        wait_until(lambda: len(fleet.calls()) > before, "the first script")
        assert (host.node["version"], host.version_on_disk) == (None, None)
        fleet.set_version(None)
        block.unlink()
        wait_until(lambda: "deploying" not in host.node, "nothing under way")
    with host.agent():
        wait_until(lambda: host.node.get("former") == "r1", "a restarted agent shows its last version")
        assert host.node["version"] is None
        fleet.set_version("r1")
        host.wait_for_version("r1")
    assert host.version_on_disk == "r1"
    assert len(fleet.calls()) == before + 2 + 4


def wait_for_lock_until_stopped(fleet, host):
    """Let a host queue for the lock of its service until the fleet is stopped; return the lock that it wanted."""
    other = fleet.client.Lock("/agent-locks/who,myfoo", "other")
    assert other.acquire(timeout=UNLIMITED)
    fleet.set_version("r2")
    wait_until(lambda: "wait for the lock" in host.node.get("step", ""), "h1 queues")
    fleet.set_version(None)
    wait_until(lambda: "deploying" not in host.node, "nothing under way")
    return other


def test_a_host_that_waits_for_a_lock_keeps_its_version_and_needs_no_rollback(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_version("r1")
        calls = fleet.calls()
        wait_for_lock_until_stopped(fleet, host).release()
        fleet.set_version("r1")
        host.wait_for_version("r1")
    assert host.version_on_disk == "r1"
    assert fleet.calls() == calls


def test_a_hook_clears_the_version_until_the_hook_succeeds(fleet):
    host = fleet.host("h1", after="/bin/sh -c 'test -e $ZKDEPLOYMENT_ROOT/good'")
    (host.root / "good").touch()
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_version("r1")
        (host.root / "good").unlink()
        fleet.set_version("r2")
        host.wait_for_error()
        assert (host.node["version"], host.node["former"]) == (None, "r1")
        assert host.version_on_disk is None


@pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "fails"])
def test_a_failure_runs_its_command_which_knows_the_failure_and_changes_nothing(fleet, fails):
    text = 'echo "$ZKDEPLOYMENT_STEP; $ZKDEPLOYMENT_VERSION; $ZKDEPLOYMENT_ERROR" >> $ZKDEPLOYMENT_ROOT/told'
    host = fleet.host("h1", after_failure=f"/bin/sh -c '{text}; exit {int(fails)}'")
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fail = host.fail("/who/myfoo 0")
    fleet.set_version("r1")
    told = host.root / "told"
    with host.agent():
        wait_until(lambda: told.exists() and told.read_text().endswith("\n"), "the command ran")
        wait_until(lambda: host.status == "error", "the failure is shown")
        assert fleet.version is None
        step, version, error = told.read_text().strip().split("; ", 2)
        assert (step, version) == ("deploy /who/myfoo 0", "r1")
        assert error == host.node["error"]
        assert "failed with exit status 3" in error
        fail.unlink()
        fleet.set_version("r1")
        host.wait_for_version("r1")
    assert len(told.read_text().splitlines()) == 1


def test_an_abandoned_deployment_that_changed_nothing_runs_no_hook(fleet):
    host = fleet.host("h1", after="/bin/sh -c 'echo hook >> $ZKDEPLOYMENT_ROOT/../../journal'")
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_version("r1")
        calls = fleet.calls()
        wait_for_lock_until_stopped(fleet, host)
    assert fleet.calls() == calls


def test_a_missing_package_stops_the_fleet_before_any_change(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_version("r1")
        fleet.remove("/who")
        fleet.service("/who/mybar", "bar", "9.9", h1=1)
        fleet.set_version("r2")
        host.wait_for_error()
        assert "bar" in host.node["error"]
        assert host.node["version"] == "r1"
    assert fleet.version is None
    assert host.markers == ["who:myfoo.0.deployed"]
    assert not [call for call in fleet.calls() if "-u" in call]


def test_a_script_that_is_not_executable_is_a_failure_with_a_specific_message(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_version("r1")
        script = host.root / "opt/foo/bin/zookeeper-deploy"
        script.chmod(0o644)
        fleet.set_version("r2")
        wait_until(lambda: "not executable" in host.node.get("error", ""), "not executable")
        assert fleet.version is None
        assert host.node["former"] == "r1"


def test_a_failing_undeployment_keeps_its_marker(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_version("r1")
        failing = host.fail("-u /who/myfoo 0")
        fleet.remove("/who")
        fleet.set_version("r2")
        host.wait_for_error()
        assert host.markers == ["who:myfoo.0.deployed"]
        assert "foo" in host.packages.installed()
        failing.unlink()
        fleet.set_version("r2")
        host.wait_for_version("r2")
    assert host.markers == []


def test_a_stop_during_a_plan_abandons_it_and_the_after_hook_still_runs(fleet):
    host = fleet.host(
        "h1", after="/bin/sh -c 'echo hook $ZKDEPLOYMENT_VERSION >> $ZKDEPLOYMENT_ROOT/../../journal'"
    )
    fleet.service("/who/myfoo", "foo", "1.0", h1=2)
    fleet.set_version("r1")
    block = host.block()
    with host.agent():
        wait_until(fleet.calls, "the first script")
        fleet.set_version(None)
        block.unlink()
        wait_until(lambda: len(fleet.calls()) == 3, "the hook")
        wait_until(lambda: {"deploying", "step", "steps"}.isdisjoint(host.node), "nothing under way")
        assert "error" not in host.node
        assert host.node["version"] is None
    assert fleet.calls() == ["h1 start /who/myfoo 0", "h1 end /who/myfoo 0", "hook r1"]
    assert host.markers == ["who:myfoo.0.deployed"]


def test_a_newer_version_is_noticed_between_steps_and_intermediate_versions_are_skipped(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=2)
    fleet.set_version("r1")
    block = host.block()
    with host.agent():
        wait_until(fleet.calls, "the first script")
        for version in ("r2", "r3", "r4"):
            fleet.set_version(version)
        block.unlink()
        host.wait_for_version("r4")
    assert len([call for call in fleet.calls() if "start" in call]) == 3


def test_the_after_hook_runs_after_a_deployment_but_neither_after_a_failure_nor_without_changes(fleet):
    host = fleet.host("h1", after="/bin/sh -c 'echo hook >> $ZKDEPLOYMENT_ROOT/../../journal'")
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version(None)
    with capture_logs() as logs, host.agent():
        wait_until(lambda: "deployments-held" in [line["event"] for line in list(logs)], "it has looked")
        fleet.set_version("r1")
        host.wait_for_version("r1")
        assert fleet.calls() == ["h1 start /who/myfoo 0", "h1 end /who/myfoo 0", "hook"]
        (host.run / "status").unlink()
        fleet.set_version("r1", touched=True)
        host.wait_for_version("r1")
        host.fail("/who/myfoo 0")
        fleet.set_version("r2")
        wait_until(lambda: fleet.version is None, "the failure")
    assert fleet.calls()[3:] == ["h1 start /who/myfoo 0", "h1 fail /who/myfoo 0"]


def test_the_version_is_recorded_only_after_the_hook_succeeded(fleet):
    host = fleet.host("h1", after="/bin/sh -c 'test -e $ZKDEPLOYMENT_ROOT/good'")
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_error()
        assert host.node["version"] is None
        assert fleet.get("/zkdeployment/stops/h1")["step"] == "after"
        (host.root / "good").touch()
        fleet.set_version("r1")
        host.wait_for_version("r1")


def test_a_status_file_that_cannot_be_written_stops_the_host_before_its_next_step(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    (host.run / "status").mkdir(parents=True)
    (host.run / "status" / "full").touch()
    with host.agent():
        wait_until(lambda: "cannot write" in host.node.get("error", ""), "the error")
    assert fleet.calls() == []


def test_scripts_of_a_service_run_one_at_a_time_on_all_hosts(fleet):
    hosts = [fleet.host(f"h{number}") for number in range(3)]
    fleet.service("/who/myfoo", "foo", "1.0", h0=3, h1=3, h2=3)
    fleet.set_version("r1")
    with ExitStack() as stack:
        for host in hosts:
            stack.enter_context(host.agent())
        wait_for_versions(hosts, "r1")
    calls = [call.split() for call in fleet.calls()]
    assert len(calls) == 18
    for start, end in zip(calls[::2], calls[1::2], strict=True):
        assert (start[1], end[1]) == ("start", "end")
        assert (start[0], start[2:]) == (end[0], end[2:])


def test_a_host_deploys_another_service_before_it_queues_for_a_held_lock(fleet):
    host, other = fleet.host("h1"), fleet.host("h2")
    fleet.service("/a/foo", "foo", "1.0", h1=1, h2=1)
    fleet.service("/b/bar", "bar", "1.0", h2=1)
    fleet.set_version("r1")
    block = host.block()
    with host.agent():
        wait_until(lambda: fleet.calls() == ["h1 start /a/foo 0"], "h1 has the lock of /a/foo")
        with other.agent():
            wait_until(lambda: "h2 end /b/bar 0" in fleet.calls(), "h2 does /b/bar first")
            wait_until(lambda: "wait for the lock of /a/foo" in other.node.get("step", ""), "h2 queues")
            assert len(fleet.client.get_children("/agent-locks/a,foo")) == 2
            block.unlink()
            wait_for_versions([other, host], "r1")
    assert fleet.client.get_children("/agent-locks/a,foo") == []


def test_a_wait_for_a_lock_keeps_its_start_time_in_the_status_and_is_logged_once(fleet, monkeypatch, capsys):
    host, other = fleet.host("h1"), fleet.host("h2")
    fleet.service("/who/myfoo", "foo", "1.0", h1=1, h2=1)
    fleet.set_version("r1")
    looks = []
    acquire = ZooKeeperServiceLock.acquire

    def look(lock, timeout):
        looks.append(timeout)
        return acquire(lock, timeout / 20)

    monkeypatch.setattr(ZooKeeperServiceLock, "acquire", look)
    block = host.block()
    with host.agent():
        wait_until(fleet.calls, "h1 has the lock")
        with other.agent():
            wait_until(lambda: "wait for the lock" in other.status, "h2 queues")
            since = (other.run / "status").read_text()
            seen = len(looks)
            wait_until(lambda: len(looks) > seen + 3, "h2 looked again and again")
            assert (other.run / "status").read_text() == since
            assert capsys.readouterr().out.count("waiting-for-lock") == 1
            block.unlink()
            wait_for_versions([host, other], "r1")


def test_a_queued_host_acquires_another_lock_that_becomes_free_and_leaves_its_queue(fleet):
    first, second, host = (fleet.host(name) for name in ("h1", "h2", "h3"))
    fleet.service("/a/foo", "foo", "1.0", h1=1, h3=1)
    fleet.service("/b/bar", "bar", "1.0", h2=1, h3=1)
    fleet.set_version("r1")
    blocks = {host.id: host.block() for host in (first, second)}
    with first.agent(), second.agent():
        wait_until(lambda: len(fleet.calls()) == 2, "both locks are taken")
        held = host.block()
        with host.agent():
            wait_until(lambda: "wait for the lock of /a/foo" in host.node.get("step", ""), "h3 queues")
            assert len(fleet.client.get_children("/agent-locks/a,foo")) == 2
            blocks["h2"].unlink()
            wait_until(lambda: "h3 start /b/bar 0" in fleet.calls(), "h3 acquires the other lock")
            assert len(fleet.client.get_children("/agent-locks/a,foo")) == 1
            held.unlink()
            blocks["h1"].unlink()
            wait_for_versions((first, second, host), "r1")
    assert fleet.client.get_children("/agent-locks/a,foo") == []
    assert fleet.client.get_children("/zkdeployment/busy") == []


def test_an_agent_registers_again_after_a_lost_session_and_repeats_no_finished_step(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=2)
    fleet.set_version("r1")
    block = host.block()
    with host.agent():
        wait_until(fleet.calls, "the first script")
        fleet.remove("/agent-locks/who,myfoo")
        fleet.client.delete("/hosts/h1")
        block.unlink()
        host.wait_for_version("r1")
    assert fleet.calls().count("h1 start /who/myfoo 0") == 1


def test_a_deployment_that_zookeeper_interrupted_is_removed_from_the_hosts_node(fleet, host, monkeypatch):
    def stop_and_go_away(*_):
        fleet.set_version(None)
        raise UnreachableError("ZooKeeper went away")

    monkeypatch.setattr(ZooKeeperFleet, "wanted", stop_and_go_away)
    fleet.set_version("r1")
    with host.agent():
        wait_until(lambda: host.status == "plan" and "deploying" not in host.node, "nothing is shown")
        assert fleet.version is None


def test_an_agent_that_dies_while_its_script_runs_keeps_the_lock_for_its_host(fleet, monkeypatch):
    host = fleet.ready_host()
    block = host.block()

    def die(_reporting: HostReporting) -> None:
        if fleet.calls():
            raise KeyboardInterrupt

    with build_agent(load(host.config), packages=host.packages) as (agent, _), monkeypatch.context() as dying:
        dying.setattr(HostReporting, "tick", die)
        with pytest.raises(KeyboardInterrupt):
            agent.run_once()
    work = fleet.get("/zkdeployment/busy/who,myfoo")
    assert (work["host"], work["step"], work["kept"]) == ("h1", "deploy /who/myfoo 0", True)
    assert fleet.calls() == ["h1 start /who/myfoo 0"]
    block.unlink()
    with host.agent():
        host.wait_for_version("r1")
    assert fleet.calls() == [*called("/who/myfoo 0"), *called("/who/myfoo 0")]


def test_a_removed_node_is_created_again_in_the_next_cycle(fleet, host):
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_version("r1")
        fleet.client.delete("/hosts/h1")
        fleet.set_version("r1")
        wait_until(lambda: host.node.get("version") == "r1", "registered again")


def test_an_unexpected_error_in_a_cycle_is_shown_and_the_agent_continues(fleet, host, monkeypatch):
    monkeypatch.setattr("zkdeployment.agent.daemon.agent.Backoff", lambda **_: Backoff(first=0.01, most=0.02))
    defect = mock.Mock(side_effect=TypeError("no len() of a float"))
    fleet.set_version("r1")
    with host.agent() as agent:
        host.wait_for_version("r1")
        with monkeypatch.context() as broken:
            broken.setattr(ZooKeeperFleet, "published", defect)
            fleet.set_version("r2")
            shown = "unexpected TypeError: no len() of a float; see the log"
            wait_until(lambda: host.node.get("error") == shown and defect.call_count > 1, "the error is shown")
        assert not agent.ended
        host.wait_for_version("r2")
        assert "error" not in host.node
    assert fleet.version == "r2"


def test_an_agent_whose_id_another_host_took_ends_without_stopping_the_fleet(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    block = host.block()
    with host.agent(session_timeout=4) as agent:
        wait_until(fleet.calls, "the script runs")
        take = fleet.client.transaction()
        take.delete("/hosts/h1")
        take.create("/hosts/h1", b'{"name": "other.example.com"}', ephemeral=True)
        assert not [result for result in take.commit() if isinstance(result, Exception)]
        block.unlink()
        wait_until(lambda: agent.ended, "it ends")
    assert isinstance(agent.error, RefusedError)
    assert "another agent is running with host id h1: other.example.com (h1)" in str(agent.error)
    assert fleet.version == "r1"
    assert host.node == {"name": "other.example.com"}


def test_an_agent_that_cannot_record_its_session_still_deploys(fleet, host):
    fleet.set_version("r1")
    (host.run / "session" / "in-the-way").mkdir(parents=True)
    with host.agent() as agent:
        host.wait_for_version("r1")
    assert agent.error is None


def test_an_agent_with_the_run_directory_or_the_name_of_another_agent_is_refused(fleet, host):
    namesake = fleet.host("h3", host_name="h1.example.com")
    with host.agent():
        wait_until(lambda: host.node, "registered")
        with host.agent() as second:
            wait_until(lambda: second.ended, "refused")
            assert isinstance(second.error, RefusedError)
            assert "uses the run directory" in str(second.error)
        with namesake.agent(session_timeout=4) as third:
            wait_until(lambda: third.ended, "refused")
            assert isinstance(third.error, RefusedError)
            assert "h1" in str(third.error)
        assert host.node


def test_an_agent_with_the_root_of_another_agent_is_refused_and_changes_nothing(fleet, host):
    other = fleet.host("h2", root=str(host.root))
    with host.agent():
        wait_until(lambda: host.node, "registered")
        for _ in range(2):  # the refused agent gives its run directory back
            with other.agent() as second:
                wait_until(lambda: second.ended, "refused")
            assert isinstance(second.error, RefusedError)
            assert f"another agent (process {os.getpid()}) uses the root directory {host.root}" in str(
                second.error
            )
        assert other.node == {}
    with other.agent():
        other.wait_for_version("initial")


def test_the_error_for_an_unwritable_run_directory_gives_advice(fleet):
    host = fleet.host("h1", run_directory=str(fleet.directory / "file" / "run"))
    (fleet.directory / "file").touch()
    with host.agent() as agent:
        wait_until(lambda: agent.ended, "refused")
    assert isinstance(agent.error, ConfigurationError)
    assert "set another run-directory" in str(agent.error)


def test_a_change_without_a_watch_event_is_noticed_in_the_next_regular_cycle(fleet, host, monkeypatch):
    monkeypatch.setattr(ZooKeeperFleet, "watch_cluster", lambda *_: None)
    monkeypatch.setattr("zkdeployment.agent.daemon.waits._CYCLE", 0.2)
    with host.agent():
        host.wait_for_version("initial")
        fleet.set_version("r1")
        host.wait_for_version("r1")


def test_progress_is_shown_in_zookeeper_while_a_script_runs(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=2)
    fleet.set_version("r1")
    block = host.block()
    with host.agent():
        wait_until(lambda: host.node.get("step") == "deploy /who/myfoo 0", "the step")
        assert (host.node["deploying"], host.node["steps"], host.status) == ("r1", [1, 3], "deploy /who/myfoo 0")
        block.unlink()
        host.wait_for_version("r1")


def test_a_failure_is_mailed_with_the_end_of_the_output(fleet):
    with MailServer() as server:
        host = fleet.host("h1", mailto="ops@example.com", smtp=server.address)
        host.fail("/who/myfoo 0")
        fleet.service("/who/myfoo", "foo", "1.0", h1=1)
        fleet.set_version("r1")
        with host.agent():
            server.join()
    mail = email.message_from_string(server.message)
    text = mail.get_payload(decode=True).decode()  # without the line breaks of the transfer encoding
    assert mail["subject"] == "zkdeployment: h1.example.com (h1) failed at r1"
    assert "failed with exit status 3" in text
    assert "boom on purpose" in text
    assert fleet.version is None


def test_a_stopping_agent_leaves_the_queue_of_a_lock(fleet):
    host, other = fleet.host("h1"), fleet.host("h2")
    fleet.service("/who/myfoo", "foo", "1.0", h1=1, h2=1)
    fleet.set_version("r1")
    block = host.block()
    with host.agent():
        wait_until(fleet.calls, "h1 has the lock")
        with other.agent() as waiting:
            wait_until(lambda: "wait for the lock" in other.status, "h2 queues")
            waiting.stop()
            assert waiting.error is None
            assert len(fleet.client.get_children("/agent-locks/who,myfoo")) == 1
        block.unlink()
        host.wait_for_version("r1")
    assert fleet.version == "r1"


def test_a_script_that_exceeds_the_grace_period_is_ended_and_run_again_by_the_next_agent(fleet):
    host = fleet.host("h1", stop_timeout="0.1")
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    block = host.block()
    with host.agent() as agent:
        wait_until(fleet.calls, "the script runs")
        agent.stop()
        assert agent.error is None
    assert not (host.run / "script").exists()
    assert (fleet.version, fleet.get("/zkdeployment/stops/h1")) == ("r1", {})
    block.unlink()
    with host.agent():
        host.wait_for_version("r1")
    assert fleet.calls() == ["h1 start /who/myfoo 0", "h1 start /who/myfoo 0", "h1 end /who/myfoo 0"]


def kill_client(state) -> None:
    """End the agent's client as an error on kazoo's own thread does."""
    state.agent._adapters.fleet._session._client.stop()


def test_an_idle_agent_replaces_a_dead_client_once_and_then_demands_a_restart(fleet, host):
    with host.agent() as agent:
        host.wait_for_version("initial")
        kill_client(agent)
        fleet.set_version("r1")
        host.wait_for_version("r1")
        kill_client(agent)
        wait_until(lambda: agent.ended, "it ends")
    assert isinstance(agent.error, RestartError)
    assert agent.error.exit_code == 75


def test_a_failure_is_reported_although_the_client_died_before(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    host.fail("/who/myfoo 0")
    block = host.block()
    with host.agent() as agent:
        wait_until(fleet.calls, "the script runs")
        kill_client(agent)
        block.unlink()
        host.wait_for_error()
    assert fleet.version is None


def fail_unreported(fleet, host):
    """Let a host fail at r1 whose agent ends before ZooKeeper has the failure; the script would succeed now."""
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    failing = host.fail("/who/myfoo 0")
    with host.agent() as agent:
        wait_until(lambda: agent.agent is not None, "the agent is built")
        store = agent.agent._adapters.fleet
        stop_fleet = store.stop_fleet

        def die(*arguments):
            kill_client(agent)
            store.cluster(agent.agent._reporting.host.identity)  # replaces the dead client
            kill_client(agent)
            return stop_fleet(*arguments)

        store.stop_fleet = die
        fleet.set_version("r1")
        wait_until(lambda: agent.ended, "the agent ends")
    assert isinstance(agent.error, RestartError)
    assert host.status == "error"
    assert fleet.version == "r1"
    failing.unlink()


@pytest.mark.parametrize("boots", [False, True], ids=["restarted", "booted"])
def test_a_failure_that_cannot_be_reported_is_reported_first_by_the_next_agent(fleet, host, boots):
    fail_unreported(fleet, host)
    if boots:
        shutil.rmtree(host.run)
    calls = fleet.calls()
    with host.agent():
        wait_until(lambda: fleet.version is None, "the stop")
        assert "failed with exit status 3" in host.node["error"]
        assert "failed with exit status 3" in fleet.get("/zkdeployment/stops/h1")["reason"]
        assert fleet.calls() == calls
        fleet.set_version("r1")
        wait_until(lambda: host.has_finished("r1") and "error" not in host.node, "r1")
    with host.agent():
        host.wait_for_version("r1")
        assert "error" not in host.node
    assert fleet.version == "r1"


def test_a_failure_that_is_reported_when_the_fleet_has_another_revision_does_not_stop_it(fleet, host):
    fail_unreported(fleet, host)
    fleet.set_version("r2")
    with capture_logs() as logs, host.agent():
        host.wait_for_version("r2")
        wait_until(lambda: "error" not in host.node, "the error is cleared")
    assert fleet.version == "r2"
    assert fleet.get("/zkdeployment/stops/h1") == {}
    assert not (host.lasting / "failure").exists()
    assert "failure-obsolete" in [line["event"] for line in logs]


def test_the_obsolete_failure_of_a_host_that_may_not_start_is_shown_on_it(fleet, host):
    fail_unreported(fleet, host)
    fleet.set_version("r2", importing="r3")
    with host.agent():
        wait_until(lambda: "failed with exit status 3" in host.node.get("error", ""), "the error is shown")
        wait_until(lambda: not (host.lasting / "failure").exists(), "the failure is reported")
        assert fleet.version == "r2"
    assert fleet.get("/zkdeployment/stops/h1") == {}


def test_a_failure_whose_report_met_a_defect_is_reported_by_the_next_cycle(fleet, host, monkeypatch):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    host.fail("/who/myfoo 0")
    stop_fleet, defects = ZooKeeperFleet.stop_fleet, [KeyError("a defect")]

    def defective(*arguments):
        if defects:
            raise defects.pop()
        return stop_fleet(*arguments)

    monkeypatch.setattr(ZooKeeperFleet, "stop_fleet", defective)
    monkeypatch.setattr("zkdeployment.agent.daemon.agent.Backoff", lambda **_: Backoff(first=0.1, most=0.1))
    with host.agent():
        wait_until(lambda: fleet.version is None, "the stop")
        wait_until(lambda: not (host.lasting / "failure").exists(), "it is reported")
    assert "exit status 3" in fleet.get("/zkdeployment/stops/h1")["reason"]
    assert fleet.calls() == ["h1 start /who/myfoo 0", "h1 fail /who/myfoo 0"]
