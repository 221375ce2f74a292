"""Services with ``rerun = 'changed'``: real agents, real ZooKeeper, real scripts."""

import json

import pytest

from support.agents import AgentHost, Fleet, called, put_controller, put_script
from support.waiting import wait_until
from zkdeployment.publishing.store.live_tree import ZooKeeperLiveTree
from zkdeployment.tree.values import TreeChange, properties_digest
from zkdeployment.zookeeper.session import Session

FOO = {"type": "foo", "version": "1.0", "rerun": "changed", "port =>": "/ports foo"}
START = "starting-deployments /roles/web"
END = "ending-deployments /roles/web"


@pytest.fixture
def host(fleet: Fleet) -> AgentHost:
    """A host with one service that always runs again and one that runs again only after a change."""
    fleet.service("/always", "bar", "1.0", h1=1)
    fleet.service("/foo", "foo", "1.0", h1=1)
    fleet.write("/ports", {"foo": 1})
    fleet.write("/foo", FOO)
    fleet.set_version("r1")
    return fleet.host("h1")


@pytest.fixture
def web_host(fleet: Fleet) -> AgentHost:
    """A host whose role has a controller, with one service that is run again only when it changed."""
    fleet.controller("web", "ctl", "1.0")
    fleet.service("/foo", "foo", "1.0", web=1)
    fleet.write("/foo", FOO)
    fleet.write("/ports", {"foo": 1})
    fleet.set_version("r1")
    return fleet.host("h1", role="web")


def marker(host):
    return json.loads((host.root / "etc/foo/foo.0.deployed").read_text())


def test_only_a_change_runs_a_deployment_again_and_without_a_change_no_lock_is_acquired(fleet, host):
    with host.agent():
        host.wait_for_version("r1")
        digest = properties_digest({"type": "foo", "version": "1.0", "rerun": "changed", "port": 1})
        assert (marker(host)["properties"], marker(host)["packages"]) == (digest, ["foo-1.0-1.noarch"])
        fleet.set_version("r2")
        host.wait_for_version("r2")
        assert fleet.calls() == called("/always 0", "/foo 0", "/always 0")
        assert (
            fleet.client.exists("/agent-locks/always").cversion > fleet.client.exists("/agent-locks/foo").cversion
        )
        fleet.write("/ports", {"foo": 2})
        fleet.set_version("r3")
        host.wait_for_version("r3")
        assert fleet.calls()[-2:] == called("/foo 0")
        fleet.service("/foo", "foo", "1.0", h1=2)
        fleet.write("/foo", FOO)
        fleet.set_version("r4")
        host.wait_for_version("r4")
        assert fleet.calls()[-4:] == called("/always 0", "/foo 1")
        fleet.write("/foo", FOO | {"version": "2.0"})
        fleet.set_version("r5")
        host.wait_for_version("r5")
        assert fleet.calls()[-4:] == called("/foo 0", "/foo 1")
        assert marker(host)["packages"] == ["foo-2.0-1.noarch"]


def test_a_deployment_that_failed_is_run_again_at_the_former_revision_too(fleet, host):
    with host.agent():
        host.wait_for_version("r1")
        failing = host.fail("/foo 0")
        fleet.write("/ports", {"foo": 2})
        fleet.set_version("r2")
        wait_until(lambda: fleet.version is None, "the stop")
        assert "properties" not in marker(host)
        failing.unlink()
        fleet.write("/ports", {"foo": 1})
        fleet.set_version("r3")
        host.wait_for_version("r3")
        assert fleet.calls()[-2:] == called("/foo 0")
        fleet.set_version("r4")
        host.wait_for_version("r4")
        assert fleet.calls()[-2:] == called("/always 0")


def test_a_deployment_is_run_again_if_the_host_has_another_name_or_role(fleet, host):
    fleet.service("/foo", "foo", "1.0", h1=1, web=1)
    fleet.write("/foo", FOO)
    with host.agent():
        host.wait_for_version("r1")
        assert marker(host)["host"] == ["h1", "h1.example.com", None]
        host.config.write_text(host.config.read_text().replace("h1.example.com", "other.example.com"))
    with host.agent():
        wait_until(lambda: host.node.get("name") == "other.example.com", "the agent has its new name")
        host.wait_for_version("r1")
        assert fleet.calls()[4:] == called("/always 0", "/foo 0")
        host.config.write_text(host.config.read_text() + "role = web\n")
    for path in ("/always/deploy/h1", "/foo/deploy/h1"):
        fleet.remove(path)
    with host.agent():
        wait_until(lambda: host.node.get("role") == "web", "the agent has its role")
        host.wait_for_version("r1")
        assert fleet.calls()[8:] == called("-u /always 0", "/foo 0")
        assert marker(host)["host"] == ["h1", "other.example.com", "web"]


def test_software_that_lost_its_script_is_run_again(fleet, host):
    with host.agent():
        host.wait_for_version("r1")
        (host.root / "opt/foo/bin/zookeeper-deploy").unlink()
        fleet.set_version("r2")
        host.wait_for_version("r2")
    assert fleet.calls()[-2:] == called("/foo 0")


def test_the_scripts_of_a_role_controller_run_only_if_something_runs_between_them(fleet, web_host):
    with web_host.agent():
        web_host.wait_for_version("r1")
        assert fleet.calls() == called(START, "/foo 0", END)
        fleet.set_version("r2")
        web_host.wait_for_version("r2")
        assert fleet.calls() == called(START, "/foo 0", END)
        fleet.write("/ports", {"foo": 2})
        fleet.set_version("r3")
        web_host.wait_for_version("r3")
        assert fleet.calls() == called(START, "/foo 0", END) * 2


def test_a_host_is_not_done_before_ending_deployments_has_succeeded(fleet, web_host):
    record = web_host.root / "var/lib/zkdeployment/starting-deployments"
    with web_host.agent():
        failing = web_host.fail(END)
        wait_until(lambda: fleet.version is None, "the stop")
        assert record.read_text() == "/roles/web\n"
        failing.unlink()
        fleet.set_version("r1")
        web_host.wait_for_version("r1")
        assert fleet.calls()[-4:] == called(START, END)
        assert not record.exists()


def test_a_deployment_during_which_the_tree_changed_is_run_again_though_its_properties_are_the_former_ones(fleet):
    host = fleet.host("h1")
    fleet.service("/foo", "foo", "1.0", h1=1)
    fleet.write("/foo", FOO)
    fleet.write("/ports", {"foo": 1})
    put_script(host.root, "foo")
    with host.agent():
        block = host.block()
        fleet.set_version("r1")
        wait_until(lambda: "h1 start /foo 0" in fleet.calls(), "the script runs")
        fleet.write("/ports", {"foo": 2})
        fleet.set_version("r2")
        fleet.write("/ports", {"foo": 1})
        fleet.set_version("r3")
        block.unlink()
        host.wait_for_version("r3")
        assert fleet.calls() == called("/foo 0") * 2
        fleet.set_version("r4")
        host.wait_for_version("r4")
        assert fleet.calls() == called("/foo 0") * 2

        # The tree is imported by hand twice, so that it is the former one again, at the same cluster version.
        block = host.block()
        fleet.write("/ports", {"foo": 3})
        fleet.set_version("r5")
        wait_until(lambda: len(fleet.calls()) == 5, "the script runs")
        with Session(fleet.connection) as session:
            for number in (4, 3):
                change = TreeChange(update={"/ports": {"foo": number}})
                ZooKeeperLiveTree(session).import_tree(change, roles=(), versions={})
        block.unlink()
        host.wait_for_version("r5")
        assert "properties" not in marker(host)
        fleet.set_version("r6")
        host.wait_for_version("r6")
        assert fleet.calls() == called("/foo 0") * 4
        assert marker(host)["properties"]


#: Where the agent is killed while it deploys new properties, and whether it runs the former ones again afterwards.
CRASHES = {
    "before:end-record": False,
    "before:marker": True,
}


def test_after_a_kill_only_unrecorded_deployments_run_again(fleet):
    host = fleet.host("h1")
    put_script(host.root, "foo")
    fleet.service("/foo", "foo", "1.0", h1=1)
    fleet.write("/foo", FOO)
    fleet.write("/ports", {"foo": 1})
    fleet.set_version("r0")
    assert host.command("--run-once").returncode == 0
    fleet.set_version("same")
    assert host.command("--dry-run").stdout == "unchanged, not run again: /foo 0\n"
    for number, (point, runs) in enumerate(CRASHES.items()):
        fleet.write("/ports", {"foo": 2})
        fleet.set_version(f"new{number}")
        with host.process("--run-once", failpoints=f"{point}=kill") as agent:
            assert agent.wait() < 0, point
        before = len(fleet.calls())
        fleet.write("/ports", {"foo": 1})
        fleet.set_version(f"old{number}")
        assert host.command("--run-once").returncode == 0
        assert fleet.calls()[before:] == (called("/foo 0") if runs else []), point


#: Where the agent is killed between the controller's scripts; afterwards both run, in each case.
BRACKET_CRASHES = (
    "after:record-start",
    "after:starting-deployments",
    "before:ending-deployments",
    "before:record-end",
)


def test_after_a_kill_between_the_controllers_scripts_both_also_run_at_the_former_revision(fleet, web_host):
    put_script(web_host.root, "foo")
    put_controller(web_host.root, "ctl")
    for number, point in enumerate(BRACKET_CRASHES):
        fleet.write("/ports", {"foo": 1})
        fleet.set_version(f"old{number}")
        assert web_host.command("--run-once").returncode == 0
        fleet.write("/ports", {"foo": 2})
        fleet.set_version(f"new{number}")
        with web_host.process("--run-once", failpoints=f"{point}=kill") as agent:
            assert agent.wait() < 0, point
        before = len(fleet.calls())
        fleet.set_version(f"same{number}")
        assert web_host.command("--run-once").returncode == 0
        calls = fleet.calls()[before:]
        assert (calls[:2], calls[-2:]) == (called(START), called(END)), point
        after = len(fleet.calls())
        fleet.set_version(f"later{number}")
        assert web_host.command("--run-once").returncode == 0
        assert len(fleet.calls()) == after, point
