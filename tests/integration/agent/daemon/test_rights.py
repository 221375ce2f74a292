"""Agents without the rights that they need: a real ZooKeeper server, real access control lists."""

import json

import pytest
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl_credential

from support.agents import AgentHost, Fleet, put_controller
from support.waiting import wait_until

ADMIN = ("admin", "admins own")


@pytest.fixture
def host(fleet: Fleet) -> AgentHost:
    host = fleet.ready_host()
    fleet.client.add_auth("digest", ":".join(ADMIN))
    for path in ("/agent-locks/who,myfoo", "/hosts", "/zkdeployment/stops"):
        fleet.client.ensure_path(path)
    return host


def close(fleet: Fleet, path: str) -> None:
    """Deny all access to a node except to the administrator."""
    fleet.client.set_acls(path, [make_acl("digest", make_digest_acl_credential(*ADMIN), all=True)])


def open_again(fleet: Fleet, path: str) -> None:
    fleet.client.set_acls(path, OPEN_ACL_UNSAFE)


def events(host: AgentHost) -> list[str]:
    return [json.loads(line)["event"] for line in host.log.read_text().splitlines()]


def test_an_agent_without_the_right_to_register_names_the_node_and_waits_for_the_right(fleet, host):
    close(fleet, "/hosts")
    with host.process():
        wait_until(lambda: "waiting-for-zookeeper" in host.log.read_text(), "it waits")
        assert "ZooKeeper does not allow to " in host.log.read_text()
        assert "/hosts: missing rights" in host.log.read_text()
        open_again(fleet, "/hosts")
        host.wait_for_version("r1")
    assert events(host).count("waiting-for-zookeeper") == 1


def test_a_denied_lock_acquisition_stops_the_fleet_with_the_reason(fleet, host):
    close(fleet, "/agent-locks/who,myfoo")
    with host.process() as agent:
        host.wait_for_error()
        assert "does not allow to create /agent-locks/who,myfoo/" in host.node["error"]
        assert fleet.version is None
        assert fleet.calls() == []
        open_again(fleet, "/agent-locks/who,myfoo")
        fleet.set_version("r1")
        host.wait_for_version("r1")
        assert agent.poll() is None


def test_a_lock_whose_release_was_denied_is_released_after_the_right_is_granted(fleet, host):
    block = host.block()
    with host.process() as agent:
        wait_until(fleet.calls, "the script")
        close(fleet, "/agent-locks/who,myfoo")
        block.unlink()
        host.wait_for_version("r1")
        assert len(fleet.client.get_children("/agent-locks/who,myfoo")) == 1
        open_again(fleet, "/agent-locks/who,myfoo")
        wait_until(lambda: not fleet.client.get_children("/agent-locks/who,myfoo"), "the lock is free")
        assert agent.poll() is None
    assert events(host).count("lock-not-released") == 1


def test_a_denied_acquisition_of_a_role_lock_stops_the_fleet_with_the_reason(fleet):
    host = fleet.host("h1", role="web")
    put_controller(host.root, "ctl")
    fleet.controller("web", "ctl", "1.0")
    fleet.set_version("r1")
    fleet.client.add_auth("digest", ":".join(ADMIN))
    readable = make_acl("world", "anyone", read=True)
    fleet.client.set_acls(
        "/role-locks/web", [make_acl("digest", make_digest_acl_credential(*ADMIN), all=True), readable]
    )
    with host.process() as agent:
        host.wait_for_error()
        assert "does not allow to create /role-locks/web/lr-: missing rights" in host.node["error"]
        assert fleet.version is None
        open_again(fleet, "/role-locks/web")
        fleet.set_version("r1")
        host.wait_for_version("r1")
        assert agent.poll() is None


def test_a_failure_whose_report_was_denied_is_reported_after_the_right_is_granted(fleet, host):
    host.fail("/who/myfoo 0")
    block = host.block()
    with host.process():
        wait_until(fleet.calls, "the script")
        close(fleet, "/zkdeployment/stops")
        block.unlink()
        wait_until(lambda: "waiting-for-zookeeper" in host.log.read_text(), "it waits")
        assert fleet.version == "r1"
        assert host.status == "error"
        open_again(fleet, "/zkdeployment/stops")
        wait_until(lambda: fleet.version is None, "the fleet is stopped")
    assert fleet.calls() == ["h1 start /who/myfoo 0", "h1 fail /who/myfoo 0"]
