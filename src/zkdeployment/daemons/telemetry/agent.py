"""Collects the facts for an agent's metrics. Their names and descriptions belong to ``fleet.metrics``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.daemons.telemetry.agent_events import AgentEvents
from zkdeployment.daemons.telemetry.probe import PACE, Probe
from zkdeployment.fleet.metrics.agent import AgentFacts, LastDeployment, agent_metrics, is_current
from zkdeployment.model.deployment import DeploymentResult

if TYPE_CHECKING:
    from zkdeployment.model.cluster import Cluster
    from zkdeployment.model.host import Host


class AgentTelemetry(AgentEvents):
    """Records the events of one agent and writes its metrics."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._clock = probe.clock
        self._cluster: Cluster | None = None
        self._looked: float | None = None
        self._current: bool | None = None
        self._since: float | None = None
        self._begun: tuple[float, float] | None = None  # seconds since the epoch, monotonic seconds
        self._last: LastDeployment | None = None
        self._ended = dict.fromkeys(DeploymentResult, 0)
        self._due = 0.0

    def observe(self, cluster: Cluster | None) -> None:
        """Record the cluster version that was just read."""
        self._cluster, self._looked = cluster, self._clock.now()

    def begin(self) -> None:
        """Record the start of a deployment."""
        self._begun = self._clock.now(), self._clock.monotonic()

    def end(self, result: DeploymentResult) -> None:
        """Record the outcome of the deployment in progress, if there is one."""
        if self._begun is None:
            return
        self._last = LastDeployment(result, self._clock.now(), self._clock.monotonic() - self._begun[1])
        self._ended[result] += 1
        self._begun = None

    def beat(self, host: Host) -> None:
        """Write all metrics unless they were written within the last ``PACE`` seconds."""
        if self._clock.monotonic() >= self._due:
            self.write(host)

    def write(self, host: Host, *, up: bool = True) -> None:
        """Write all metrics; ``up``: whether the agent continues."""
        self._due = self._clock.monotonic() + PACE
        process = self._probe.process(up=up)
        current = is_current(host, self._cluster)
        if current is not self._current:
            self._current, self._since = current, process.now
        facts = AgentFacts(
            process=process,
            host=host,
            cluster=self._cluster,
            looked=self._looked,
            since=None if current is None else self._since,
            begun=None if self._begun is None else self._begun[0],
            last=self._last,
            ended=self._ended,
        )
        self._probe.file.write(agent_metrics(facts))
