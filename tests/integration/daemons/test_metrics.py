"""The metrics of agents, syncers and coordinators, read where a node exporter reads them."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from support.coordinated_fleet import CoordinatedFleet
from support.metrics import read_metrics
from support.strategies import plain_hosts
from support.waiting import wait_until
from support.zookeeper import through
from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.config.load import load
from zkdeployment.daemons.telemetry import agent, coordinator
from zkdeployment.errors import UnreachableError
from zkdeployment.model.strategy import ALL_HOSTS
from zkdeployment.wiring.coordinator import build_coordinator
from zkdeployment.wiring.syncer import build_follower

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.agents import AgentHost, Fleet
    from support.proxy import Proxy
    from support.publishing import Publishing
    from zkdeployment.daemons.control import Control

TREE = "/who\n  /web : shop\n    version = '1.0'\n    /deploy\n      /h1\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "textfile" / "agent.prom"


@pytest.fixture
def host(fleet: Fleet, file: Path, monkeypatch: pytest.MonkeyPatch) -> AgentHost:
    """A host that tells everything at once, and is to run foo."""
    monkeypatch.setattr(agent, "PACE", 0.0)
    file.parent.mkdir()
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    return fleet.host("h1", metrics=str(file))


def told(file: Path, **expected: float) -> Callable[[], bool]:
    """Return whether these metrics, without labels, have these values."""

    def compare() -> bool:
        found = read_metrics(file.read_text()) if file.exists() else {}
        return all(found.get(name) == {(): value} for name, value in expected.items())

    return compare


def test_a_deployment_is_told_while_it_goes_on_and_after_it(host: AgentHost, file: Path):
    block = host.block()
    with host.agent():
        wait_until(
            told(file, agent_deploying=1, agent_steps_done=1, agent_steps=2, agent_converged=0),
            "the metrics tell the step under way",
        )
        block.unlink()
        wait_until(told(file, agent_deploying=0, agent_converged=1), "the metrics tell that it is done")
        found = read_metrics(file.read_text())
        assert found["agent_up"] == found["agent_last_deployment_success"] == {(): 1}
        assert found["agent_host_info"] == {("h1", "h1.example.com", ""): 1}
        assert found["agent_revision_info"] == found["agent_cluster_revision_info"] == {("r1",): 1}
        assert found["agent_deployments_total"] == {("done",): 1, ("failed",): 0, ("abandoned",): 0}
        assert 0 < found["agent_last_deployment_duration_seconds"][()] < 60
        assert "agent_steps" not in found
    found = read_metrics(file.read_text())
    assert found["agent_up"] == {(): 0}
    assert found["agent_converged"] == {(): 1}


def test_a_failure_is_told_and_that_the_fleet_is_stopped(host: AgentHost, file: Path, fleet: Fleet):
    host.fail("/who/myfoo 0")
    with host.agent():
        wait_until(lambda: fleet.version is None, "the fleet is stopped")
        wait_until(
            lambda: (
                told(file, agent_error=1, agent_last_deployment_success=0)()
                and read_metrics(file.read_text())["agent_cluster_state"][("stopped",)] == 1
            ),
            "the metrics tell that",
        )
    found = read_metrics(file.read_text())
    assert found["agent_deployments_total"][("failed",)] == 1
    assert "agent_converged" not in found


def test_what_is_not_wanted_any_more_is_told_as_abandoned(host: AgentHost, file: Path, fleet: Fleet):
    fleet.service("/who/myfoo", "foo", "1.0", h1=2)
    block = host.block()
    with host.agent():
        wait_until(lambda: bool(fleet.calls()), "the first script runs")
        fleet.set_version(False)
        block.unlink()
        wait_until(
            lambda: read_metrics(file.read_text())["agent_deployments_total"].get(("abandoned",)) == 1,
            "the metrics tell that",
        )
        found = read_metrics(file.read_text())
    assert found["agent_deployments_total"].get(("failed",), 0) == 0
    assert "agent_converged" not in found


def test_a_connection_that_was_made_anew_is_told(fleet: Fleet, file: Path, proxy: Proxy):
    file.parent.mkdir()
    fleet.set_version("r1")
    host = fleet.host("h1", metrics=str(file), zookeeper=through(proxy, fleet.connection))
    with host.agent():
        wait_until(told(file, agent_converged=1, agent_zookeeper_connections_total=1), "the host has converged")
        proxy.drop()
        wait_until(
            lambda: read_metrics(file.read_text())["agent_zookeeper_connections_total"][()] >= 2,
            "the metrics tell that",
            timeout=60,
        )
        assert told(file, agent_zookeeper_connected=1, agent_zookeeper_sessions_total=1)()


def test_metrics_that_cannot_be_written_are_in_nobody_s_way(fleet: Fleet, file: Path):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    host = fleet.host("h1", metrics=str(file))
    with capture_logs() as logs, host.agent():
        wait_until(lambda: host.at("r1"), "the host is at r1")
    assert [line["file"] for line in logs if line["event"] == "metrics-not-written"] == [str(file)]


@contextmanager
def at_work(work: Callable[[], None], control: Control) -> Iterator[None]:
    """Have a daemon work in a thread."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        control.stop()
        thread.join()


@contextmanager
def following(publishing: Publishing, file: Path) -> Iterator[None]:
    config = publishing.directory / "syncer.cfg"
    config.write_text(
        f"[zkdeployment]\nzookeeper = {publishing.zookeeper}\n[sync]\nurl = {publishing.repository.url}\n"
        f"tree-directory = {publishing.directory / 'mirror'}\nmetrics = {file}\n"
    )
    with (
        build_follower(load(config, host=False)) as (follower, control),
        at_work(lambda: follower.run(0.05), control),
    ):
        yield


def test_a_syncer_tells_what_it_publishes_and_what_it_may_not(publishing: Publishing, tmp_path: Path):
    file = tmp_path / "syncer.prom"
    first = publishing.push(TREE)
    with following(publishing, file):
        wait_until(
            lambda: (
                told(file, syncer_zookeeper_connected=1)()
                and read_metrics(file.read_text()).get("syncer_revision_info") == {(first,): 1}
            ),
            "the metrics tell the publication",
        )
        found = read_metrics(file.read_text())
        assert found["syncer_last_publication_nodes"][()] >= 4
        assert 0 < found["syncer_last_publication_duration_seconds"][()] < 60
        assert found["syncer_looks_total"][("published",)] == 1
        assert "syncer_unpublished_since_timestamp_seconds" not in found
        published = found["syncer_last_publication_timestamp_seconds"][()]

        publishing.push(TREE + "  x = open('f')\n")
        wait_until(
            lambda: read_metrics(file.read_text())["syncer_looks_total"][("tree-refused",)] > 2,
            "the metrics tell the refusals",
        )
        waiting = read_metrics(file.read_text())["syncer_unpublished_since_timestamp_seconds"][()]
        publishing.push(TREE + "  x = open('g')\n")
        refusals = read_metrics(file.read_text())["syncer_looks_total"][("tree-refused",)]
        wait_until(
            lambda: read_metrics(file.read_text())["syncer_looks_total"][("tree-refused",)] > refusals + 2,
            "the metrics tell more refusals",
        )
        found = read_metrics(file.read_text())
        assert published < waiting < found["syncer_fetched_timestamp_seconds"][()]
        assert found["syncer_unpublished_since_timestamp_seconds"] == {(): waiting}
        assert found["syncer_revision_info"] == {(first,): 1}

        second = publishing.push(TREE.replace("1.0", "1.1"))
        wait_until(
            lambda: read_metrics(file.read_text())["syncer_revision_info"] == {(second,): 1},
            "the metrics tell the other publication",
        )
        assert "syncer_unpublished_since_timestamp_seconds" not in read_metrics(file.read_text())
    assert told(file, syncer_up=0)()


@contextmanager
def coordinating(zookeeper: str, file: Path) -> Iterator[None]:
    config = file.with_suffix(".cfg")
    config.write_text(f"[zkdeployment]\nzookeeper = {zookeeper}\n[coordinate]\nmetrics = {file}\n")
    with build_coordinator(load(config, host=False)) as (coordinator, control), at_work(coordinator.run, control):
        yield


def test_a_coordinator_tells_of_the_rollout_that_it_leads(
    zookeeper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(coordinator, "PACE", 0.0)
    one, two = tmp_path / "one.prom", tmp_path / "two.prom"
    with Session(zookeeper) as session, coordinating(zookeeper, one):
        fleet = CoordinatedFleet(zookeeper, session, silent={"b"})
        wait_until(told(one, coordinator_up=1, coordinator_leads=1), "the first one leads", timeout=60)
        assert "coordinator_rollout_info" not in read_metrics(one.read_text())
        with coordinating(zookeeper, two):
            wait_until(told(two, coordinator_up=1, coordinator_leads=0), "the second one waits", timeout=60)
            fleet.register(plain_hosts("ab"))
            fleet.publish("r1", ALL_HOSTS)
            wait_until(
                lambda: "coordinator_rollout_info" in read_metrics(one.read_text()),
                "it leads a rollout",
                timeout=60,
            )
            wait_until(lambda: len(fleet.grants()) == 2, "both hosts are let in", timeout=60)
            fleet.work()
            found = read_metrics(one.read_text())
            assert found["coordinator_rollout_info"] == {("r1", "1-1", "all-hosts"): 1}
            assert found["coordinator_rollout_state"][("under way",)] == 1
            assert "coordinator_rollout_info" not in read_metrics(two.read_text())

            def is_over() -> bool:
                fleet.silent.clear()
                fleet.work()
                states = read_metrics(one.read_text()).get("coordinator_rollout_state", {})
                return states.get(("success",)) == 1

            wait_until(is_over, "the metrics tell the end", timeout=60)
            assert read_metrics(one.read_text())["coordinator_rollout_hosts"][("success",)] == 2
    assert told(one, coordinator_up=0, coordinator_leads=0)()


def test_a_coordinator_that_does_not_reach_zookeeper_does_not_say_that_it_leads(
    zookeeper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(coordinator, "PACE", 0.0)
    file, cut = tmp_path / "coordinator.prom", threading.Event()

    def connect() -> None:
        if cut.is_set():
            raise UnreachableError("nobody answers")

    with Session(zookeeper) as session:
        fleet = CoordinatedFleet(zookeeper, session)
        with fleet.coordinator(live=True, connect=connect, metrics=file) as one:
            thread = threading.Thread(target=one.coordinator.run)
            thread.start()
            try:
                wait_until(told(file, coordinator_leads=1), "it leads", timeout=60)
                cut.set()
                wait_until(told(file, coordinator_leads=0), "it does not know any more", timeout=60)
                assert read_metrics(file.read_text())["coordinator_looks_total"][("zookeeper-unreachable",)] > 0
            finally:
                one.control.stop()
                thread.join()
