"""The metrics of daemons, from values."""

import math
from dataclasses import replace

import pytest

from support.builders import make_host
from support.metrics import samples
from support.strategies import (
    BEGUN,
    active_rollout,
    advanced_rollout,
    begun_rollout,
    ended_rollout,
    group,
    plain_hosts,
    strategy,
)
from zkdeployment.agent.telemetry import AgentFacts, LastDeployment, agent_metrics, is_current
from zkdeployment.base.act import Maintenance
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.daemon.connection_status import ConnectionStatus
from zkdeployment.base.daemon.metrics import DaemonProcess, cycle_metrics
from zkdeployment.base.deployment import DeploymentResult
from zkdeployment.base.host import Host, Identity
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import fleet_status, hosts_by_state
from zkdeployment.publishing.daemon.follower import LastPublication, SyncerFacts, syncer_metrics
from zkdeployment.service.api.health import ServerFacts, server_metrics
from zkdeployment.strategies.analysis import GroupAnalysis, Measurement, MetricProgress, Outcome
from zkdeployment.strategies.daemon import rollout_metrics
from zkdeployment.strategies.strategy import MemberKind

PROCESS = DaemonProcess(
    "1.2.3", started=1000.0, now=2000.0, up=True, link=ConnectionStatus(connected=True, connections=3, sessions=2)
)
HOST = Host(Identity("h1", "app1.example.com", "web"), version="r1")
AGENT = AgentFacts(cluster=Cluster("r1"), looked=1990.0, since=1500.0)
SYNCER = SyncerFacts(interval=60)
CYCLES = {"published": 2, "unchanged": 0}
ALL = [
    agent_metrics(PROCESS, HOST, AGENT),
    (*cycle_metrics("syncer", PROCESS, CYCLES), *syncer_metrics(SYNCER)),
    (*cycle_metrics("coordinator", PROCESS, {"led": 5}), *rollout_metrics(MemberKind.HOST, None, leads=True)),
]


@pytest.mark.parametrize("metrics", ALL)
def test_all_metrics_include_the_process_and_its_connection(metrics):
    values = samples(metrics)
    assert values["up"] == 1
    assert values["build_info"] == {("1.2.3",): 1}
    assert values["start_timestamp_seconds"] == 1000
    assert values["alive_timestamp_seconds"] == 2000
    assert values["zookeeper_connected"] == 1
    assert values["zookeeper_connections_total"] == 3
    assert values["zookeeper_sessions_total"] == 2


def test_the_metrics_of_two_daemons_have_different_names():
    names = [metric.name for metrics in ALL for metric in metrics]
    assert len(names) == len({*names})  # their files are collected together


def test_the_cycles_of_a_daemon_are_counted_by_outcome():
    assert samples(cycle_metrics("syncer", PROCESS, CYCLES))["looks_total"] == {
        ("published",): 2,
        ("unchanged",): 0,
    }


def test_a_host_at_the_cluster_version():
    values = samples(agent_metrics(PROCESS, HOST, AGENT))
    assert values["host_info"] == {("h1", "app1.example.com", "web"): 1}
    assert values["revision_info"] == values["cluster_revision_info"] == {("r1",): 1}
    assert values["cluster_state"] == {("running",): 1, ("stopped",): 0, ("held",): 0, ("importing",): 0}
    assert values["cluster_seen_timestamp_seconds"] == 1990
    assert (values["converged"], values["converged_since_timestamp_seconds"]) == (1, 1500)
    assert (values["error"], values["deploying"]) == (0, 0)
    for unknown in ("steps", "steps_done", "deploying_since_timestamp_seconds", "last_deployment_success"):
        assert values[unknown] == {}
    assert values["deployments_total"] == {("done",): 0, ("failed",): 0, ("abandoned",): 0}


def test_a_host_that_deploys():
    host = replace(HOST, deploying="r2", step="deploy /web 0", steps=(2, 7))
    values = samples(agent_metrics(PROCESS, host, replace(AGENT, cluster=Cluster("r2"), begun=1900.0)))
    assert values["converged"] == 0
    assert (values["deploying"], values["deploying_since_timestamp_seconds"]) == (1, 1900)
    assert (values["steps_done"], values["steps"]) == (2, 7)


def test_a_host_that_waits_for_its_turn_does_not_deploy():
    host = replace(
        HOST, deploying="r2", step="waits to deploy: rollout 7-1 has granted it only to prepare", steps=(0, 7)
    )
    values = samples(agent_metrics(PROCESS, host, replace(AGENT, cluster=Cluster("r2"), begun=1900.0)))
    assert (values["waiting"], values["deploying"], values["converged"]) == (1, 0, 0)
    assert values["deploying_since_timestamp_seconds"] == {}


@pytest.mark.parametrize(
    ("result", "success"),
    [(DeploymentResult.DONE, 1), (DeploymentResult.FAILED, 0), (DeploymentResult.ABANDONED, 0)],
)
def test_the_last_deployment(result, success):
    last = LastDeployment(result, time=1800.0, seconds=12.5)
    values = samples(agent_metrics(PROCESS, HOST, replace(AGENT, last=last, ended={result: 4})))
    assert values["last_deployment_timestamp_seconds"] == 1800
    assert values["last_deployment_duration_seconds"] == 12.5
    assert values["last_deployment_success"] == success
    assert values["deployments_total"][(result.value,)] == 4
    assert sum(values["deployments_total"].values()) == 4


@pytest.mark.parametrize(
    ("cluster", "state"),
    [
        (None, "stopped"),
        (Cluster(None), "stopped"),
        (Cluster(False), "held"),
        (Cluster("r1", importing="r2"), "importing"),
    ],
)
def test_while_nothing_may_start_there_is_no_sample_of_convergence(cluster, state):
    assert is_current(HOST, cluster) is None
    values = samples(
        agent_metrics(PROCESS, replace(HOST, error="boom"), replace(AGENT, cluster=cluster, since=None))
    )
    assert [key for key, value in values["cluster_state"].items() if value] == [(state,)]
    assert (
        values["converged"] == values["converged_since_timestamp_seconds"] == values["cluster_revision_info"] == {}
    )
    assert values["error"] == 1


def test_before_the_first_reading_there_are_no_samples_of_the_cluster():
    values = samples(agent_metrics(PROCESS, replace(HOST, version=None), AgentFacts()))
    for unknown in ("cluster_state", "cluster_seen_timestamp_seconds", "converged", "revision_info"):
        assert values[unknown] == {}


@pytest.mark.parametrize(
    ("maintenance", "sample"),
    [
        ({}, {}),
        ({"h1": Maintenance("h1", "ann", "new disk", 1900.0)}, math.inf),
        ({"h1": Maintenance("h1", "ann", "new disk", 1900.0, 2600.0)}, 2600.0),
    ],
)
def test_the_end_of_a_maintenance_tells_alerts_for_how_long_to_be_silent(maintenance, sample):
    facts = replace(AGENT, cluster=Cluster("r1", maintenance=maintenance))
    assert samples(agent_metrics(PROCESS, HOST, facts))["maintenance_until_timestamp_seconds"] == sample


def test_hosts_are_counted_by_their_state():
    maintenance = {"h2": Maintenance("h2", "ann", "new disk", 1900.0)}
    hosts = (HOST, make_host("h2"), make_host("h3"))
    status = fleet_status(FleetSnapshot(cluster=Cluster("r1"), hosts=hosts, maintenance=maintenance))
    metrics = server_metrics(ServerFacts(process=PROCESS, hosts=hosts_by_state(status)))
    (found,) = [metric for metric in metrics if metric.name == "zkdeployment_server_hosts"]
    assert {key: value for key, value in found.samples.items() if value} == {
        ("converged",): 1,
        ("behind",): 1,
        ("in maintenance",): 1,
    }


def test_numbers_are_revisions_as_well():
    assert is_current(replace(HOST, version=12), Cluster("12"))
    assert samples(agent_metrics(PROCESS, replace(HOST, version=12), AGENT))["revision_info"] == {("12",): 1}


def test_a_syncer_that_published():
    last = LastPublication(time=1700.0, seconds=0.25, nodes=9)
    values = samples(syncer_metrics(replace(SYNCER, fetched=1990.0, published="r2", last=last)))
    assert (values["interval_seconds"], values["fetched_timestamp_seconds"]) == (60, 1990)
    assert values["revision_info"] == {("r2",): 1}
    assert values["unpublished_since_timestamp_seconds"] == {}
    assert values["last_publication_timestamp_seconds"] == 1700
    assert values["last_publication_duration_seconds"] == 0.25
    assert values["last_publication_nodes"] == 9


def test_a_syncer_that_may_not_publish():
    values = samples(syncer_metrics(replace(SYNCER, fetched=1990.0, waiting=1200.0)))
    assert values["unpublished_since_timestamp_seconds"] == 1200
    for unknown in ("revision_info", "last_publication_timestamp_seconds", "last_publication_nodes"):
        assert values[unknown] == {}


def test_a_coordinator_that_does_not_lead_has_no_samples_of_rollouts():
    values = samples(rollout_metrics(MemberKind.HOST, None, leads=False))
    assert values["leads"] == 0
    assert [values[name] for name in values if name.startswith("rollout_")] == [{}] * 9


def test_a_coordinator_that_leads_a_rollout():
    at = active_rollout(advanced_rollout(begun_rollout(), until="control-nodes"), done=["ctl1"])
    values = samples(rollout_metrics(MemberKind.HOST, at, leads=True))
    assert values["rollout_info"] == {("r2", "7-1", "deployment-strategy"): 1}
    assert [key for key, value in values["rollout_state"].items() if value] == [("under way",)]
    assert (values["rollout_begun_timestamp_seconds"], values["rollout_moved_timestamp_seconds"]) == (
        BEGUN,
        BEGUN + 50,
    )
    assert values["rollout_waiting"] == 0
    groups = {key: value for (key,), value in values["rollout_groups"].items() if value}
    assert groups == {"success": 2, "preparing": 1, "waiting": 2}
    hosts = {key: value for (key,), value in values["rollout_hosts"].items() if value}
    assert hosts == {"success": 2, "not started": 6}


def test_measurements_are_counted_by_outcome_with_the_time_of_the_last_one():
    last = Measurement(60.0, BEGUN + 60, Outcome.PASSED, 0.5)
    metrics = {
        "errors": MetricProgress(passed=3, failed=1, measurements=(last,)),
        "latency": MetricProgress(passed=1, no_data=2),
    }
    state = begun_rollout(analyses={"canary": GroupAnalysis(metrics)})
    values = samples(rollout_metrics(MemberKind.HOST, state, leads=True))
    assert values["rollout_measurements"] == {("passed",): 4, ("failed",): 1, ("no_data",): 2}
    assert values["rollout_measured_timestamp_seconds"] == BEGUN + 60


def test_a_waiting_rollout_and_an_ended_rollout():
    values = samples(
        rollout_metrics(MemberKind.HOST, begun_rollout(waiting="web waits for its window"), leads=True)
    )
    assert values["rollout_waiting"] == 1
    values = samples(
        rollout_metrics(MemberKind.HOST, ended_rollout(advanced_rollout(begun_rollout(), "two1")), leads=True)
    )
    assert values["rollout_state"][("success with failures",)] == 1
    assert values["rollout_hosts"][("failure",)] == 1


def test_hosts_in_no_group_are_not_hosts_of_the_rollout():
    state = ended_rollout(advanced_rollout(begun_rollout(strategy(group("one", hosts="a")), plain_hosts("az"))))
    samples_of = samples(rollout_metrics(MemberKind.HOST, state, leads=True))
    assert {key: value for key, value in samples_of["rollout_hosts"].items() if value} == {("success",): 1}
