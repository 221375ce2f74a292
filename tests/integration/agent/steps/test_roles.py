"""Hosts of a role with a controller: real agents, real ZooKeeper, real scripts."""

import json
import shutil
import signal

import pytest

from support.agents import AgentHost, Fleet, called, put_controller, put_script, wait_for_versions
from support.waiting import wait_until
from zkdeployment.agent.files.run_directory import RunDirectory

START = "starting-deployments /roles/web"
END = "ending-deployments /roles/web"
REQUEST = {"requestor": "h1", "hostname": "h1.example.com"}


@pytest.fixture
def host(fleet: Fleet) -> AgentHost:
    """A host of a role with a controller and two instances of foo."""
    fleet.controller("web", "ctl", "1.0")
    fleet.service("/who/myfoo", "foo", "1.0", web=2)
    fleet.set_version("r1")
    return fleet.host("h1", role="web")


def test_the_controllers_scripts_bracket_the_deployments_under_the_roles_lock_alone(fleet, host):
    block = host.block()
    with host.agent():
        wait_until(fleet.calls, "the start script")
        assert fleet.requests("web") == [REQUEST]
        assert "foo" not in host.packages.installed()
        block.unlink()
        host.wait_for_version("r1")
    assert fleet.calls() == called(START, "/who/myfoo 0", "/who/myfoo 1", END)
    assert fleet.requests("web") == []
    assert fleet.client.get_children("/agent-locks") == []
    managed = json.loads((host.root / "var/lib/zkdeployment/managed.json").read_text())
    assert managed == {"ctl": "ctl", "foo": "foo"}


def test_old_deployments_are_undeployed_before_the_start_script(fleet, host):
    fleet.service("/who/old", "bar", "1.0", web=1)
    with host.agent():
        host.wait_for_version("r1")
        fleet.remove("/who/old")
        fleet.journal.unlink()
        fleet.set_version("r2")
        host.wait_for_version("r2")
    assert fleet.calls() == called("-u /who/old 0", START, "/who/myfoo 0", "/who/myfoo 1", END)
    assert host.packages.installed().keys() == {"ctl", "foo"}


def test_a_controller_is_upgraded_replaced_and_removed(fleet, host):
    def installed() -> dict[str, str]:
        return {name: package.version for name, (package,) in host.packages.installed().items() if name != "foo"}

    with host.agent():
        host.wait_for_version("r1")
        assert installed() == {"ctl": "1.0"}
        for revision, package, version in (("r2", "ctl", "2.0"), ("r3", "ctl", "1.0"), ("r4", "ctl2", "1.0")):
            fleet.controller("web", package, version)
            fleet.set_version(revision)
            wait_until(lambda revision=revision: host.has_finished(revision), revision)
            assert installed() == {package: version}
        assert not (host.root / "opt/ctl").exists()
        fleet.journal.unlink()
        fleet.remove("/roles/web")
        fleet.set_version("r5")
        host.wait_for_version("r5")
    assert installed() == {}
    assert not (host.root / "opt/ctl2").exists()
    assert fleet.calls() == called("/who/myfoo 0", "/who/myfoo 1")
    assert json.loads((host.root / "var/lib/zkdeployment/managed.json").read_text()) == {"foo": "foo"}


def test_a_failing_start_script_leaves_the_software_unchanged_and_the_role_lock_held(fleet, host):
    failing = host.fail(START)
    with host.agent():
        host.wait_for_error()
        assert "starting-deployments /roles/web failed with exit status 3" in host.node["error"]
        assert host.packages.installed().keys() == {"ctl"}
        assert fleet.requests("web") == [REQUEST]
        failing.unlink()
        fleet.set_version("r1")
        host.wait_for_version("r1")
    assert fleet.requests("web") == []


def test_after_a_failed_deployment_the_end_script_does_not_run_and_the_role_lock_stays_held(fleet, host):
    failing = host.fail("/who/myfoo 1")
    other = fleet.host("h2", role="web")
    with host.agent():
        host.wait_for_error()
        assert fleet.requests("web") == [REQUEST]
        host.block()
        fleet.set_version("r2")
        wait_until(lambda: fleet.calls()[-1] == f"h1 start {START}", "h1 continues")
        with other.agent():
            wait_until(lambda: "wait for the lock of role web, held by h1" in other.node.get("step", ""), "h2")
            failing.unlink()
            (host.root / "block").unlink()
            wait_for_versions([host, other], "r2")
    assert END not in " ".join(fleet.calls()[:6])
    assert fleet.calls()[-8:] == called(START, "/who/myfoo 0", "/who/myfoo 1", END, host="h2")


@pytest.mark.parametrize("reinstalled", [False, True])
@pytest.mark.parametrize(("role", "target"), [("role = db\n", "db"), ("", "h1")])
def test_hosts_do_not_wait_for_the_lock_of_a_host_that_failed_and_has_another_role_now(
    fleet, host, role, target, reinstalled
):
    host.fail("/who/myfoo 1")
    other = fleet.host("h2", role="web")
    with host.agent():
        host.wait_for_error()
    assert fleet.requests("web") == [REQUEST]
    host.config.write_text(host.config.read_text().replace("role = web\n", role))
    if reinstalled:
        shutil.rmtree(host.run)
    fleet.service("/who/mybar", "bar", "1.0", **{target: 1})
    fleet.set_version("r2")
    host.block()
    with other.agent(), host.agent():
        other.wait_for_version("r2")
        assert fleet.get("/zkdeployment/out-of-service/h1") == {"role": "web"}
        (host.root / "block").unlink()
        host.wait_for_version("r2")
        wait_until(lambda: not fleet.get("/zkdeployment/out-of-service/h1"), "h1 is in service")
    assert fleet.requests("web") == []


def test_after_a_failed_end_script_the_version_is_not_recorded(fleet, host):
    host.fail(END)
    with host.agent():
        host.wait_for_error()
        assert host.node["version"] is None
    assert host.version_on_disk is None
    assert fleet.requests("web") == [REQUEST]


def test_two_hosts_of_a_role_never_deploy_at_the_same_time(fleet, host):
    other = fleet.host("h2", role="web")
    with host.agent(), other.agent():
        for revision in ("r2", "r3", "r4"):
            fleet.set_version(revision)
            wait_until(
                lambda revision=revision: host.has_finished(revision) and other.has_finished(revision), revision
            )
    owner = None
    for call in fleet.calls():
        who, moment, script = call.split(" ", 2)
        if (moment, script) == ("start", START):
            assert owner is None
            owner = who
        assert who == owner
        if (moment, script) == ("end", END):
            owner = None
    assert owner is None


@pytest.mark.parametrize("halt", [None, False])
def test_a_stop_or_a_hold_does_not_skip_the_end_script(fleet, host, halt):
    block = host.block()
    with host.agent():
        wait_until(fleet.calls, "the start script")
        fleet.set_version(halt)
        block.unlink()
        host.wait_for_version("r1")
    assert fleet.calls() == called(START, "/who/myfoo 0", "/who/myfoo 1", END)
    assert fleet.requests("web") == []


def test_a_host_keeps_the_role_lock_if_a_new_version_appears_during_its_deployment(fleet, host):
    block = host.block()
    with host.agent():
        wait_until(fleet.calls, "the start script")
        fleet.set_version("r2")
        block.unlink()
        host.wait_for_version("r2")
    assert fleet.calls() == called(START, START, "/who/myfoo 0", "/who/myfoo 1", END)
    assert fleet.requests("web") == []


def test_a_host_whose_request_was_removed_during_its_deployment_queues_again(fleet, host):
    block = host.block()
    with host.agent():
        wait_until(fleet.calls, "the start script")
        fleet.remove("/role-locks/web")
        fleet.controller("web", "ctl", "1.0")
        block.unlink()
        host.wait_for_version("r1")
    assert fleet.calls() == called(START, START, "/who/myfoo 0", "/who/myfoo 1", END)


def test_a_waiting_host_leaves_the_queue_when_the_fleet_stops(fleet, host):
    fleet.client.create("/role-locks/web/lr-", b'{"requestor": "h9", "hostname": "h9"}', sequence=True)
    with host.agent():
        wait_until(lambda: "held by h9 (h9)" in host.node.get("step", ""), "it waits")
        fleet.set_version(None)
        wait_until(lambda: len(fleet.requests("web")) == 1, "it does not wait any more")
    assert fleet.calls() == []


def test_a_host_whose_turn_comes_with_a_stop_starts_no_step_and_releases_the_lock(fleet, host):
    held = fleet.client.create("/role-locks/web/lr-", b'{"requestor": "h9", "hostname": "h9"}', sequence=True)
    with host.agent():
        wait_until(lambda: "held by h9 (h9)" in host.node.get("step", ""), "it waits")
        stop = fleet.client.transaction()
        stop.set_data("/hosts", b'{"version": null}')
        stop.delete(held)
        stop.commit()
        wait_until(lambda: "deploying" not in host.node, "it has seen the stop")
        assert (fleet.calls(), fleet.requests("web")) == ([], [])
        fleet.set_version("r1")
        host.wait_for_version("r1")


def test_a_missing_lock_node_of_a_role_stops_the_fleet_before_any_change(fleet, host):
    fleet.remove("/role-locks/web")
    with host.agent():
        host.wait_for_error()
        assert host.node["error"].startswith(
            "cannot lock role web, which has a controller: /role-locks/web does not exist"
        )
    assert host.packages.installed() == {}


def test_two_controllers_on_a_host_stop_the_fleet(host):
    for name in ("ctl2", "ctl3"):
        put_controller(host.root, name)
    with host.agent():
        host.wait_for_error()
        assert host.node["error"].startswith("two role controllers are installed, ctl2 and ctl3")


@pytest.mark.parametrize(
    "point",
    [
        "before:change-role-controller",
        "before:clear-controller",
        "after:role-lock",
        "before:starting-deployments",
        "after:starting-deployments",
        "before:deploy@2",
        "after:ending-deployments",
        "before:role-release",
        "before:record",
    ],
)
def test_the_successor_of_a_killed_agent_adopts_its_request(fleet, host, point):
    put_script(host.root, "foo")
    put_controller(host.root, "ctl")
    with host.process(failpoints=f"{point}=kill") as agent:
        assert agent.wait() == -signal.SIGKILL
    closed = point not in {"before:change-role-controller", "before:clear-controller", "before:record"}
    assert fleet.requests("web") == ([REQUEST] if closed else [])
    with host.process():
        host.wait_for_version("r1")
    assert fleet.requests("web") == []
    assert fleet.calls()[-8:] == called(START, "/who/myfoo 0", "/who/myfoo 1", END)


def test_a_host_at_the_cluster_version_leaves_the_queue_that_its_last_deployment_joined(fleet, host):
    with host.agent():
        host.wait_for_version("r1")
        held = fleet.client.create("/role-locks/web/lr-", b'{"requestor": "h9", "hostname": "h9"}', sequence=True)
        fleet.set_version("r2")
        wait_until(lambda: "held by h9 (h9)" in host.node.get("step", ""), "it waits for the lock")
    # An agent that ended without a connection would have left its request, and the record of it on the host.
    left = fleet.client.create("/role-locks/web/lr-", json.dumps(REQUEST).encode(), sequence=True)
    RunDirectory(host.run).session.write_requests("h1", {"web": left})
    fleet.client.delete(held)
    fleet.set_version("r1")
    with host.agent():
        wait_until(lambda: fleet.requests("web") == [], "it has left the queue")
    assert fleet.calls() == called(START, "/who/myfoo 0", "/who/myfoo 1", END)


def test_a_host_whose_next_deployment_needs_no_lock_leaves_the_queue(fleet, host):
    fleet.client.create("/role-locks/web/lr-", json.dumps(REQUEST).encode(), sequence=True)
    fleet.client.create("/zkdeployment/out-of-service/h1", b'{"role": "web"}', makepath=True)
    fleet.remove("/roles/web")
    fleet.remove("/who")
    with host.agent():
        host.wait_for_version("r1")
        wait_until(lambda: fleet.requests("web") == [], "it has left the queue")
        wait_until(lambda: fleet.client.get_children("/zkdeployment/out-of-service") == [], "it is in service")
    assert fleet.calls() == []


def test_a_dry_run_shows_the_start_and_the_end_script(fleet, host):
    put_script(host.root, "foo")
    put_controller(host.root, "ctl")
    shown = host.command("--dry-run")
    assert shown.returncode == 0, shown.stderr
    titles = [line.split(" (")[0].split("  ")[-1] for line in shown.stdout.splitlines()]
    text = " ".join(titles)
    assert text.index("change role controller") < text.index(START) < text.index("deploy /who") < text.index(END)
    assert fleet.requests("web") == []
