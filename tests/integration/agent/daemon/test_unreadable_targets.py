"""Agents whose hosts have the revision, and that read targets only for the hosts that wait for theirs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.fleets.signed import TARGETS, SignedFleet
from support.waiting import wait_until
from zkdeployment.agent.daemon.deployment import RolloutGate
from zkdeployment.base.daemon.cycles import Backoff
from zkdeployment.base.errors import TreeError
from zkdeployment.base.publication import Published

if TYPE_CHECKING:
    from pathlib import Path

    from kazoo.client import KazooClient

    from support.agents import Fleet
    from support.publishing import Publishing


@pytest.fixture
def world(tmp_path: Path, zookeeper: str, client: KazooClient) -> SignedFleet:
    return SignedFleet(tmp_path, zookeeper, client)


def test_a_host_with_publishers_reads_only_signed_targets_for_the_hosts_that_wait(world: SignedFleet):
    world.publish()
    host = world.hosts[0]
    with host.agent():
        wait_until(lambda: world.has_finished(host), "the host is converged")
    world.client.set("/colors", b'{"main": "drift"}')
    world.publishing.sync(force=True)
    world.write(TARGETS, json.dumps({**world.fleet.get(TARGETS), "version": None}).encode())
    world.write("/who/web", b'{"type": 5, "version": "1.0"}')
    with host.agent() as agent:
        wait_until(lambda: host.node.get("error") or world.publishing.version is None, "the host refuses")
        assert "the properties of /who/web are not those that were signed" in host.node["error"]
        assert not agent.ended
        world.publishing.sync(force=True)
        wait_until(lambda: world.has_finished(host), "the host follows")
    assert world.fleet.calls() == ["h1 start /who/web 0", "h1 end /who/web 0"]


def test_an_older_publication_is_deployed_and_not_taken_over_by_a_host_that_forgot_the_newer_one(
    fleet: Fleet, publishing: Publishing
):
    host, nodes = fleet.host("h1"), ("/zkdeployment/targets/h1", TARGETS, "/hosts")
    published: list[dict[str, bytes]] = []
    for version in ("1.0", "2.0"):
        publishing.push(f"/who\n  /web : foo\n    version = '{version}'\n    /deploy\n      /h1\n")
        publishing.sync()
        published.append({path: fleet.client.get(path)[0] for path in nodes})
        with host.agent():
            host.wait_for_version(publishing.version)
    assert len(fleet.calls()) == 4
    (host.lasting / "published").unlink()
    for path, data in published[0].items():
        fleet.client.set(path, data)
    with host.agent():
        host.wait_for_version(publishing.version)
    assert len(fleet.calls()) == 6


def test_a_damaged_target_stops_the_fleet_and_no_agent_ends(fleet: Fleet):
    host = fleet.host("h1")
    fleet.set_version("r1")
    with host.agent() as agent:
        host.wait_for_version("r1")
        fleet.write(f"{TARGETS}/h1", {"type": 5})
        fleet.write(TARGETS, {"version": "r1", "sequence": 7})
        fleet.set_version("r1")
        wait_until(lambda: fleet.version is None, "the fleet is stopped")
        assert not agent.ended
        assert "expected a list; publish again" in host.node["error"]
        fleet.remove(f"{TARGETS}/h1")
        fleet.set_version("r1")
        wait_until(lambda: "error" not in host.node, "the host follows")


def test_an_error_of_damaged_nodes_is_shown_and_the_agent_tries_again(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("zkdeployment.agent.daemon.agent.Backoff", lambda **_: Backoff(first=0.01, most=0.02))

    def damaged(*_: object, **__: object) -> None:
        raise TreeError("the rollout is damaged")

    host = fleet.host("h1")
    fleet.set_version("r1")
    with host.agent() as agent:
        host.wait_for_version("r1")
        with monkeypatch.context() as broken:
            broken.setattr(RolloutGate, "__init__", damaged)
            broken.setattr(Published, "governs", lambda *_: True)
            fleet.set_version("r2")
            wait_until(lambda: host.node.get("error") == "the rollout is damaged", "the error is shown")
        assert not agent.ended
        host.wait_for_version("r2")
        assert "error" not in host.node
