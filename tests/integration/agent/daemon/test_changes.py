"""Hosts with a changed identity, after a long absence, or stopped during a rollout: real ZooKeeper and scripts."""

import pytest

from support.agents import AgentHost, Fleet, called, put_script, wait_for_versions
from support.waiting import wait_until
from zkdeployment.agent.daemon.deployment import Supervision
from zkdeployment.agent.store.service_locks import ZooKeeperServiceLock


def reach(fleet: Fleet, host: AgentHost, revision: str) -> None:
    fleet.set_version(revision)
    wait_until(lambda: host.has_finished(revision), revision)


def change(host: AgentHost, old: str, new: str) -> None:
    """Change a line of a host's configuration."""
    text = host.config.read_text()
    assert old in text
    host.config.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("options", "old", "new", "before", "after"),
    [
        ({"role": "web"}, "role = web", "role = db", "web", "db"),
        ({"role": "web"}, "role = web\n", "", "web", "h1"),
        ({}, "host-name = h1.example.com", "host-name = new.example.com", "h1.example.com", "new.example.com"),
        ({}, "host-id = h1", "host-id = h9", "h1", "h9"),
    ],
    ids=["role", "no-role", "name", "id"],
)
def test_a_host_with_a_new_identity_replaces_its_deployments(fleet, options, old, new, before, after):
    host = fleet.host("h1", **options)
    fleet.service("/who/old", "foo", "1.0", **{before: 1})
    with host.agent():
        reach(fleet, host, "r1")
    assert fleet.calls() == called("/who/old 0")
    fleet.service("/who/new", "bar", "1.0", **{after: 1})
    change(host, old, new)
    host.id = after if "host-id" in new else "h1"
    with host.agent():
        reach(fleet, host, "r2")
        assert fleet.client.get_children("/hosts") == [host.id]
    assert fleet.calls()[2:] == called("-u /who/old 0", "/who/new 0", host=host.id)
    assert host.markers == ["who:new.0.deployed"]
    assert sorted(host.packages.installed()) == ["bar"]


def test_a_host_with_a_new_role_deploys_without_a_new_version(fleet):
    host = fleet.host("h1", role="web")
    fleet.service("/who/old", "foo", "1.0", web=1)
    fleet.service("/who/new", "bar", "1.0", db=1)
    with host.agent():
        reach(fleet, host, "r1")
    change(host, "role = web", "role = db")
    put_script(host.root, "bar")
    assert "deploy /who/new 0" in host.command("--dry-run").stdout
    with host.agent():
        wait_until(
            lambda: host.markers == ["who:new.0.deployed"] and host.has_finished("r1"),
            "h1 finishes r1 again",
        )
    assert fleet.calls() == called("/who/old 0", "-u /who/old 0", "/who/new 0")


def test_a_role_that_conflicts_with_deployments_by_host_name_stops_the_fleet_before_any_change(fleet):
    host = fleet.host("h1")
    fleet.service("/who/old", "foo", "1.0", h1=1)
    with host.agent():
        reach(fleet, host, "r1")
    with host.config.open("a") as config:
        config.write("role = web\n")
    fleet.set_version("r2")
    with host.agent():
        host.wait_for_error()
        assert "which has the role web: only deploy/web counts" in host.node["error"]
    assert fleet.version is None
    assert host.markers == ["who:old.0.deployed"]
    assert fleet.calls() == called("/who/old 0")


def test_a_host_that_was_absent_for_many_revisions_deploys_only_the_last(fleet):
    host = fleet.host("h1")
    fleet.service("/who/stays", "foo", "1.0", h1=1)
    fleet.service("/who/goes", "bar", "1.0", h1=2)
    with host.agent():
        reach(fleet, host, "r1")
    fleet.journal.unlink()
    fleet.remove("/who/goes")
    fleet.service("/who/between", "ctl", "1.0", h1=1)
    fleet.set_version("r2")
    fleet.remove("/who/between")
    fleet.service("/who/stays", "foo", "2.0", h1=1)
    fleet.set_version("r3")
    with host.agent():
        host.wait_for_version("r3")
    assert fleet.calls() == called("-u /who/goes 0", "-u /who/goes 1", "/who/stays 0")
    assert [package.version for package in host.packages.installed()["foo"]] == ["2.0"]
    assert len(host.packages.commits) == 3  # both packages; the new version; the removal


def test_during_a_stop_steps_of_a_rollout_end_and_a_resume_completes_it(fleet):
    hosts = [fleet.host(name) for name in ("h1", "h2")]
    for host in hosts:
        put_script(host.root, "foo")
    first, second = hosts
    fleet.service("/who/myfoo", "foo", "1.0", h1=2, h2=1)
    block = first.block()
    with first.agent():
        fleet.set_version("r1")
        wait_until(fleet.calls, "the script of h1")
        with second.agent():
            wait_until(lambda: "wait for the lock" in second.status, "h2 waits")
            fleet.set_version(None)
            block.unlink()
            for host in hosts:
                wait_until(lambda host=host: "deploying" not in host.node, "nothing is under way")
            assert fleet.calls() == called("/who/myfoo 0")
            assert fleet.client.get_children("/agent-locks/who,myfoo") == []
            assert {host.node.get("error") for host in hosts} == {None}
            fleet.set_version("r1")
            wait_for_versions([first, second], "r1")
    assert sorted(fleet.calls()[2:]) == sorted(
        called("/who/myfoo 0", "/who/myfoo 1") + called("/who/myfoo 0", host="h2")
    )


@pytest.mark.parametrize("written", [None, False, "r2"], ids=["stop", "hold", "another revision"])
def test_no_step_begins_after_a_change_of_the_cluster_version_that_its_host_has_not_heard_of(
    fleet, monkeypatch, written
):
    host = fleet.ready_host()
    begin = ZooKeeperServiceLock.begin

    def write_before(lock: ZooKeeperServiceLock, step: str, *stamps: int | None) -> None:
        monkeypatch.undo()
        fleet.set_version(written)
        fleet.client.create("/heard")
        begin(lock, step, *stamps)

    monkeypatch.setattr(Supervision, "check_waiting", Supervision.check)  # no watch tells it in time
    monkeypatch.setattr(ZooKeeperServiceLock, "begin", write_before)
    fleet.service("/who/myfoo", "foo", "2.0", h1=1)
    with host.agent() as agent:
        wait_until(lambda: fleet.client.exists("/heard"), "the host is about to begin the step")
        if written == "r2":
            host.wait_for_version("r2")
        agent.wait_until_idle()
        assert fleet.calls() == (called("/who/myfoo 0") if written == "r2" else [])
        assert not fleet.client.get_children("/zkdeployment/busy")
        fleet.set_version("r3")
        host.wait_for_version("r3")
    assert fleet.calls()[-2:] == called("/who/myfoo 0")
