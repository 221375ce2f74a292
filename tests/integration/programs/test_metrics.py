"""The metrics of agents, syncers and coordinators, read from the files for a node exporter."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from support.fleets.coordinated import CoordinatedFleet
from support.metrics import read_metrics
from support.strategies import plain_hosts
from support.waiting import wait_until
from support.zookeeper import through
from zkdeployment.agent import telemetry as agent_telemetry
from zkdeployment.base.daemon import metrics as daemon_metrics
from zkdeployment.base.errors import UnreachableError
from zkdeployment.config.settings import load
from zkdeployment.programs.syncer import build_follower
from zkdeployment.rollouts.program import build_coordinator
from zkdeployment.strategies.strategy import ALL_HOSTS
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.agents import AgentHost, Fleet
    from support.proxy import Proxy
    from support.publishing import Publishing
    from zkdeployment.base.daemon.control import Control

TREE = "/who\n  /web : shop\n    version = '1.0'\n    /deploy\n      /h1\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "textfile" / "agent.prom"


@pytest.fixture
def host(fleet: Fleet, file: Path, monkeypatch: pytest.MonkeyPatch) -> AgentHost:
    """A host that writes its metrics without a pause, and to which foo is deployed."""
    monkeypatch.setattr(agent_telemetry, "PACE", 0.0)
    file.parent.mkdir()
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    return fleet.host("h1", metrics=str(file))


def shows(file: Path, **expected: float) -> Callable[[], bool]:
    """Return a function that compares metrics without labels with their expected values."""

    def compare() -> bool:
        metrics = read_metrics(file.read_text()) if file.exists() else {}
        return all(metrics.get(name) == {(): value} for name, value in expected.items())

    return compare


def test_the_metrics_show_a_deployment_during_and_after_it(host: AgentHost, file: Path):
    block = host.block()
    with host.agent():
        wait_until(
            shows(file, agent_deploying=1, agent_steps_done=1, agent_steps=2, agent_converged=0),
            "the metrics tell the step under way",
        )
        block.unlink()
        wait_until(shows(file, agent_deploying=0, agent_converged=1), "the metrics show the finished deployment")
        metrics = read_metrics(file.read_text())
        assert metrics["agent_up"] == metrics["agent_last_deployment_success"] == {(): 1}
        assert metrics["agent_host_info"] == {("h1", "h1.example.com", ""): 1}
        assert metrics["agent_revision_info"] == metrics["agent_cluster_revision_info"] == {("r1",): 1}
        assert metrics["agent_deployments_total"] == {("done",): 1, ("failed",): 0, ("abandoned",): 0}
        assert 0 < metrics["agent_last_deployment_duration_seconds"][()] < 60
        assert "agent_steps" not in metrics
    metrics = read_metrics(file.read_text())
    assert metrics["agent_up"] == {(): 0}
    assert metrics["agent_converged"] == {(): 1}


def test_the_metrics_show_a_failure_and_the_stop_of_the_fleet(host: AgentHost, file: Path, fleet: Fleet):
    host.fail("/who/myfoo 0")
    with host.agent():
        wait_until(lambda: fleet.version is None, "the fleet is stopped")
        wait_until(
            lambda: (
                shows(file, agent_error=1, agent_last_deployment_success=0)()
                and read_metrics(file.read_text())["agent_cluster_state"][("stopped",)] == 1
            ),
            "the metrics tell that",
        )
    metrics = read_metrics(file.read_text())
    assert metrics["agent_deployments_total"][("failed",)] == 1
    assert "agent_converged" not in metrics


def test_the_metrics_count_an_abandoned_deployment(host: AgentHost, file: Path, fleet: Fleet):
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
        metrics = read_metrics(file.read_text())
    assert metrics["agent_deployments_total"].get(("failed",), 0) == 0
    assert "agent_converged" not in metrics


def test_the_metrics_count_a_new_connection(fleet: Fleet, file: Path, proxy: Proxy):
    file.parent.mkdir()
    fleet.set_version("r1")
    host = fleet.host("h1", metrics=str(file), zookeeper=through(proxy, fleet.connection))
    with host.agent():
        wait_until(shows(file, agent_converged=1, agent_zookeeper_connections_total=1), "the host has converged")
        proxy.drop()
        wait_until(
            lambda: (
                read_metrics(file.read_text())["agent_zookeeper_connections_total"][()] >= 2
                and shows(file, agent_zookeeper_connected=1)()
            ),
            "the metrics tell that",
        )
        assert shows(file, agent_zookeeper_sessions_total=1)()


def test_an_agent_deploys_although_metrics_cannot_be_written(fleet: Fleet, file: Path):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    host = fleet.host("h1", metrics=str(file))
    with capture_logs() as logs, host.agent():
        host.wait_for_version("r1")
    assert [line["file"] for line in logs if line["event"] == "metrics-not-written"] == [str(file)]


@contextmanager
def running(work: Callable[[], None], control: Control) -> Iterator[None]:
    """Run a daemon in a thread inside the block."""
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
        running(lambda: follower.run(0.05), control),
    ):
        yield


def test_the_metrics_of_a_syncer_show_publications_and_refusals(publishing: Publishing, tmp_path: Path):
    file = tmp_path / "syncer.prom"
    first = publishing.push(TREE)
    with following(publishing, file):
        wait_until(
            lambda: (
                shows(file, syncer_zookeeper_connected=1)()
                and read_metrics(file.read_text()).get("syncer_revision_info") == {(first,): 1}
            ),
            "the metrics tell the publication",
        )
        metrics = read_metrics(file.read_text())
        assert metrics["syncer_last_publication_nodes"][()] >= 4
        assert 0 < metrics["syncer_last_publication_duration_seconds"][()] < 60
        assert metrics["syncer_looks_total"][("published",)] == 1
        assert "syncer_unpublished_since_timestamp_seconds" not in metrics
        published = metrics["syncer_last_publication_timestamp_seconds"][()]

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
        metrics = read_metrics(file.read_text())
        assert published < waiting < metrics["syncer_fetched_timestamp_seconds"][()]
        assert metrics["syncer_unpublished_since_timestamp_seconds"] == {(): waiting}
        assert metrics["syncer_revision_info"] == {(first,): 1}

        second = publishing.push(TREE.replace("1.0", "1.1"))
        wait_until(
            lambda: read_metrics(file.read_text())["syncer_revision_info"] == {(second,): 1},
            "the metrics tell the other publication",
        )
        assert "syncer_unpublished_since_timestamp_seconds" not in read_metrics(file.read_text())
    assert shows(file, syncer_up=0)()


@contextmanager
def coordinating(zookeeper: str, file: Path) -> Iterator[None]:
    config = file.with_suffix(".cfg")
    config.write_text(f"[zkdeployment]\nzookeeper = {zookeeper}\n[coordinate]\nmetrics = {file}\n")
    with build_coordinator(load(config, host=False)) as (coordinator, control), running(coordinator.run, control):
        yield


def test_the_metrics_of_a_coordinator_show_its_rollout(
    zookeeper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(daemon_metrics, "PACE", 0.0)
    first_file, second_file = tmp_path / "one.prom", tmp_path / "two.prom"
    with Session(zookeeper) as session, coordinating(zookeeper, first_file):
        fleet = CoordinatedFleet(zookeeper, session, silent={"b"})
        wait_until(shows(first_file, coordinator_up=1, coordinator_leads=1), "the first coordinator leads")
        assert "coordinator_rollout_info" not in read_metrics(first_file.read_text())
        with coordinating(zookeeper, second_file):
            wait_until(shows(second_file, coordinator_up=1, coordinator_leads=0), "the second one waits")
            fleet.register(plain_hosts("ab"))
            fleet.publish("r1", ALL_HOSTS)
            wait_until(
                lambda: "coordinator_rollout_info" in read_metrics(first_file.read_text()),
                "it leads a rollout",
            )
            wait_until(lambda: len(fleet.grants()) == 2, "both hosts are let in")
            fleet.work()
            metrics = read_metrics(first_file.read_text())
            assert metrics["coordinator_rollout_info"] == {("r1", "1-1", "all-hosts"): 1}
            assert metrics["coordinator_rollout_state"][("under way",)] == 1
            assert "coordinator_rollout_info" not in read_metrics(second_file.read_text())

            def is_over() -> bool:
                fleet.silent.clear()
                fleet.work()
                states = read_metrics(first_file.read_text()).get("coordinator_rollout_state", {})
                return states.get(("success",)) == 1

            wait_until(is_over, "the metrics show the end of the rollout")
            assert read_metrics(first_file.read_text())["coordinator_rollout_hosts"][("success",)] == 2
    assert shows(first_file, coordinator_up=0, coordinator_leads=0)()


def test_a_coordinator_without_zookeeper_does_not_report_the_lead(
    zookeeper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(daemon_metrics, "PACE", 0.0)
    file, cut = tmp_path / "coordinator.prom", threading.Event()

    def connect() -> None:
        if cut.is_set():
            raise UnreachableError("nobody answers")

    with Session(zookeeper) as session:
        fleet = CoordinatedFleet(zookeeper, session)
        with fleet.coordinating(connect=connect, metrics=file):
            wait_until(shows(file, coordinator_leads=1), "it leads")
            cut.set()
            wait_until(shows(file, coordinator_leads=0), "it does not know any more")
            assert read_metrics(file.read_text())["coordinator_looks_total"][("zookeeper-unreachable",)] > 0
