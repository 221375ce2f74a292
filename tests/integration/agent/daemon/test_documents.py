"""Agents after publications that change only documents: real syncer, ZooKeeper, agents, scripts and files."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from support.agents import AgentHost, Fleet, put_script
from support.fleets.coordinated import CoordinatedFleet
from support.waiting import wait_until
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.fleet.views.fleet_health import MonitoredFleet, fleet_health
from zkdeployment.fleet.views.health import Health, HealthLimits
from zkdeployment.fleet.views.status import fleet_status
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.publishing import Publishing

TREE = "/who\n  /myfoo : foo\n    version = '1.0'\n    /deploy\n      /h1\n"
STRATEGY = """\
schema: shipyard/DeploymentStrategy/v1
metadata: {name: deployment-strategy}
data:
  groups:
    - {name: all, critical: true, depends_on: [], selectors: [{node_names: [h1]}]}
"""
CALLS = ["h1 start /who/myfoo 0", "h1 end /who/myfoo 0"]


def quarantine(version: str) -> str:
    return (
        "schema: zkdeployment/Quarantine/v1\n"
        f"metadata: {{name: foo, version: {version}}}\n"
        "data: {reason: slow, by: alice, time: 2026-11-22}\n"
    )


@pytest.fixture
def fleet(publishing: Publishing) -> Fleet:
    """The fleet of the repository."""
    return Fleet(publishing.directory / "fleet", publishing.zookeeper, publishing.client)


@pytest.fixture
def host(fleet: Fleet) -> AgentHost:
    """A host that runs foo, and a command after each deployment."""
    return fleet.host("h1", after=f"/bin/sh -c 'echo after >> {fleet.journal}'")


def wait_for(host: AgentHost, version: str) -> None:
    wait_until(
        lambda: host.has_finished(version) and host.version_on_disk == version,
        f"{host.id} at {version}",
    )


def test_documents_cost_a_host_no_script_and_no_command(publishing: Publishing, fleet: Fleet, host: AgentHost):
    first = publishing.push(TREE)
    publishing.sync()
    with host.agent():
        wait_for(host, first)
        assert fleet.calls() == [*CALLS, "after"]
        for number in range(2):
            revision = publishing.push(TREE, q_yaml=quarantine(f"2.{number}"))
            publishing.sync()
            wait_for(host, revision)
        targets = publishing.get("/zkdeployment/targets") or {}
        assert host.node["sequence"] == targets["sequence"] > targets["since"]
        assert fleet.calls() == [*CALLS, "after"]
        changed = publishing.push(TREE + "      /h2\n", q_yaml=None)
        publishing.sync()
        wait_for(host, changed)
        assert fleet.calls() == [*CALLS, "after"] * 2


@pytest.mark.parametrize("place", ["before:take-over", "after:take-over"])
def test_an_agent_killed_while_it_records_a_publication_of_documents_records_it_later(
    publishing: Publishing, fleet: Fleet, host: AgentHost, place: str
):
    put_script(host.root, "foo")
    first = publishing.push(TREE)
    publishing.sync()
    with host.agent():
        wait_for(host, first)
    second = publishing.push(TREE, q_yaml=quarantine("2.0"))
    publishing.sync(force=True)
    with host.process(failpoints=f"{place}=kill") as process:
        assert process.wait() == -signal.SIGKILL
    assert host.version_on_disk == (first if place.startswith("before") else second)
    with host.agent():
        wait_for(host, second)
    assert fleet.calls() == [*CALLS, "after"]


def test_a_host_that_did_not_reach_the_last_change_deploys(publishing: Publishing, fleet: Fleet, host: AgentHost):
    first = publishing.push(TREE)
    publishing.sync()
    with host.agent():
        wait_for(host, first)
    (host.run / "sequences").unlink()
    second = publishing.push(TREE, q_yaml=quarantine("2.0"))
    publishing.sync(force=True)
    with host.agent():
        wait_for(host, second)
        assert fleet.calls() == [*CALLS, "after"] * 2
        # The same revision again, after drift was corrected: nothing changes for hosts that have the revision.
        publishing.put("/who/myfoo", {"type": "foo", "version": "1.0", "by-hand": True})
        publishing.sync(force=True)
        corrected = (publishing.get("/zkdeployment/targets") or {})["sequence"]
        wait_until(lambda: host.node["sequence"] == corrected, "the host has completed the correction")
        third = publishing.push(TREE, q_yaml=quarantine("3.0"))
        publishing.sync()
        wait_for(host, third)
    assert fleet.calls() == [*CALLS, "after"] * 2


def test_the_output_of_a_failed_script_is_published_without_secrets_until_the_next_publication(
    publishing: Publishing, host: AgentHost
):
    script = "#!/bin/sh\nyes line | head -c 30000\nprintf 'password=hunter2 \\033[31mred\\n'\nexit 3\n"
    put_script(host.root, "foo", script)
    publishing.push(TREE)
    publishing.sync()
    with host.process(), Session(publishing.zookeeper) as session:
        wait_until(lambda: host.status == "error", "the failure")
        reader = ZooKeeperFleetReader(session)
        wait_until(lambda: reader.failure_output("h1") is not None, "the output")
        output = reader.failure_output("h1")
        assert output is not None
        assert output.step == "deploy /who/myfoo 0"
        assert "hunter2" not in output.text
        assert output.text.endswith("password=*** \\x1b[31mred\n")
        assert 15_000 < len(output.text) <= 20 * 1024
        assert host.node["output"] == "line\n" * 9 + "password=*** \\x1b[31mred"
        assert session.get("/zkdeployment/output") is not None
        publishing.push(TREE.replace("h1", "h2"))
        publishing.sync(force=True)
        assert reader.failure_output("h1") is None


@contextmanager
def coordinated(publishing: Publishing) -> Iterator[CoordinatedFleet]:
    with Session(publishing.zookeeper, session_timeout=6) as session:
        yield CoordinatedFleet(publishing.zookeeper, session)


def test_no_rollout_starts_for_documents_and_the_fleet_counts_as_converged(
    publishing: Publishing, fleet: Fleet, host: AgentHost
):
    other = fleet.host("h9")
    first = publishing.push(TREE, strategy_yaml=STRATEGY)
    publishing.sync()
    with (
        host.agent(),
        other.agent(),
        coordinated(publishing) as rollouts,
        rollouts.coordinator(live=True) as coordinator,
    ):

        def has_version(revision: str) -> bool:
            coordinator.run_cycle()
            return host.has_finished(revision)

        wait_until(lambda: has_version(first), "the first rollout")
        wait_until(lambda: coordinator.run_cycle() > 0 and rollouts.running.ended, "its end")
        begun = rollouts.current
        second = publishing.push(TREE, strategy_yaml=STRATEGY, q_yaml=quarantine("2.0"))
        publishing.sync()
        wait_until(lambda: has_version(second), "the documents' revision")
        for _ in range(3):
            coordinator.run_cycle()
        assert rollouts.current == begun
        assert fleet.calls() == [*CALLS, "after"]
        reader = ZooKeeperFleetReader(rollouts.session)
        snapshot = reader.snapshot()

        def is_converged() -> bool:
            nonlocal snapshot
            snapshot = reader.snapshot()
            return fleet_status(snapshot).converged

        # One reading for all: the excluded host counts as deploying whenever its cycle restarts.
        wait_until(is_converged, "the host's node with the version")
        status = fleet_status(snapshot)
        assert (status.missed, status.completed) == (False, True)
        assert {found.id: found.state.value for found in status.hosts} == {"h1": "converged", "h9": "excluded"}
        verdict = fleet_health(MonitoredFleet(snapshot), now=snapshot.changed or 0.0, limits=HealthLimits(15, 30))
        assert verdict.health is Health.OK, verdict
        third = publishing.push(TREE + "      /h2\n", strategy_yaml=STRATEGY, q_yaml=quarantine("2.0"))
        publishing.sync()
        wait_until(lambda: has_version(third), "the next rollout")
        assert rollouts.current != begun
        assert fleet.calls() == [*CALLS, "after"] * 2
