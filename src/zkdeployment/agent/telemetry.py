"""The metrics of an agent: its host, the cluster version, the deployments, and the facts about them."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING

from zkdeployment.agent.reporting.host_reporting import AgentEvents
from zkdeployment.base.cluster import Cluster, ClusterState
from zkdeployment.base.daemon.metrics import (
    PACE,
    DaemonProcess,
    Metric,
    MetricKind,
    Probe,
    gauge,
    info,
    labelled,
    process_metrics,
)
from zkdeployment.base.deployment import DeploymentResult
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from zkdeployment.base.host import Host


@dataclass(frozen=True, slots=True)
class LastDeployment:
    """The last deployment: its result, its end in seconds since the epoch, and its duration in seconds."""

    result: DeploymentResult
    time: float
    seconds: float


@dataclass(kw_only=True)
class AgentFacts:
    """The facts behind an agent's metrics, beside its process and its host; times are in seconds since the epoch.

    ``looked`` is when the agent read ``cluster``. ``since`` is when the host reached or left the cluster version,
    as far as this process observed it. ``begun`` is the start of the present deployment. ``ended`` counts the
    deployments of this process by result.
    """

    cluster: Cluster | None = None
    looked: float | None = None
    since: float | None = None
    begun: float | None = None
    last: LastDeployment | None = None
    ended: dict[DeploymentResult, int] = field(default_factory=dict)


def is_current(host: Host, cluster: Cluster | None) -> bool | None:
    """Return whether a host is at the cluster version; ``None`` if the cluster version is not a revision."""
    wanted = None if cluster is None else cluster.revision
    return None if wanted is None else host.has(wanted)


def agent_metrics(process: DaemonProcess, host: Host, facts: AgentFacts) -> tuple[Metric, ...]:
    """Return an agent's metrics, ``zkdeployment_agent_…``."""
    identity = host.identity
    current = ClusterState.STOPPED if facts.cluster is None else facts.cluster.state
    states = {} if facts.looked is None else {state.value: float(state is current) for state in ClusterState}
    revision = None if facts.cluster is None else facts.cluster.revision
    return (
        *process_metrics("agent", process),
        Metric(
            "zkdeployment_agent_host_info",
            "The id, name and role of this host, as labels.",
            {(identity.id, identity.name, identity.role or ""): 1},
            ("host_id", "host_name", "role"),
        ),
        info("agent_revision_info", "The revision that this host has, as the label.", host.version),
        info("agent_cluster_revision_info", "The revision that hosts are to deploy, as the label.", revision),
        labelled(
            "agent_cluster_state",
            "1 for the present state of the cluster version: running, stopped, held or importing.",
            "state",
            states,
        ),
        gauge("agent_cluster_seen_timestamp_seconds", "When the agent read the cluster version.", facts.looked),
        gauge(
            "agent_converged",
            "1 if this host is at the cluster version; no sample while the cluster is stopped or held.",
            is_current(host, facts.cluster),
        ),
        gauge(
            "agent_converged_since_timestamp_seconds", "When zkdeployment_agent_converged changed.", facts.since
        ),
        gauge(
            "agent_error",
            "1 if this host's last deployment failed, or if its agent refuses to deploy.",
            host.error is not None,
        ),
        gauge(
            "agent_maintenance_until_timestamp_seconds",
            "When the maintenance of this host ends: +Inf without an end; no sample without a maintenance.",
            _maintenance_end(host, facts.cluster),
        ),
        *_deployment_metrics(host, facts),
    )


def _maintenance_end(host: Host, cluster: Cluster | None) -> float | None:
    maintenance = None if cluster is None else cluster.maintenance.get(host.identity.id)
    if maintenance is None:
        return None
    return math.inf if maintenance.until is None else maintenance.until


def _deployment_metrics(host: Host, facts: AgentFacts) -> tuple[Metric, ...]:
    """Return the metrics of the present and of past deployments."""
    done, total = host.steps or (None, None)
    waiting = host.is_waiting
    time, seconds, success = None, None, None
    if facts.last is not None:
        time, seconds, success = facts.last.time, facts.last.seconds, facts.last.result is DeploymentResult.DONE
    return (
        gauge("agent_deploying", "1 while this host deploys.", host.deploying is not None and not waiting),
        gauge("agent_waiting", "1 while this host waits for its rollout.", waiting),
        gauge(
            "agent_deploying_since_timestamp_seconds",
            "When the present deployment began, or continued after its last wait for the rollout.",
            None if waiting else facts.begun,
        ),
        gauge("agent_steps_done", "Finished steps of the present deployment.", done),
        gauge("agent_steps", "All steps of the present deployment.", total),
        labelled(
            "agent_deployments_total",
            "Deployments of this process that ended, by result: done, failed or abandoned.",
            "result",
            {result.value: facts.ended.get(result, 0) for result in DeploymentResult},
            MetricKind.COUNTER,
        ),
        gauge("agent_last_deployment_timestamp_seconds", "When the last deployment ended.", time),
        gauge("agent_last_deployment_duration_seconds", "The duration of the last deployment.", seconds),
        gauge(
            "agent_last_deployment_success",
            "1 if the last deployment is done, 0 if it failed or was abandoned.",
            success,
        ),
    )


class AgentTelemetry(AgentEvents):
    """Records the events of one agent and writes its metrics, at most once in ``PACE`` seconds while it beats."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._clock = probe.clock
        self._facts = AgentFacts()
        self._current: bool | None = None
        self._begun = 0.0  # monotonic
        self._due = 0.0

    def observe(self, cluster: Cluster | None) -> None:
        self._facts.cluster, self._facts.looked = cluster, self._clock.now()

    def begin(self) -> None:
        self._facts.begun, self._begun = self._clock.now(), self._clock.monotonic()

    def end(self, result: DeploymentResult) -> None:
        facts = self._facts
        if facts.begun is not None:
            facts.begun = None
            facts.last = LastDeployment(result, self._clock.now(), self._clock.monotonic() - self._begun)
            facts.ended[result] = facts.ended.get(result, 0) + 1

    def beat(self, host: Host) -> None:
        if self._clock.monotonic() >= self._due:
            self.write(host)

    def write(self, host: Host, *, up: bool = True) -> None:
        self._due = self._clock.monotonic() + PACE
        process = self._probe.process(up=up)
        current = is_current(host, self._facts.cluster)
        if current is not self._current:
            self._current, self._facts.since = current, None if current is None else process.now
        self._probe.file.write(agent_metrics(process, host, self._facts))
