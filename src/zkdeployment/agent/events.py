"""The events of an agent. Their metrics belong to ``telemetry``, which agents without metrics do not import."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkdeployment.base.cluster import Cluster
    from zkdeployment.base.deployment import DeploymentResult
    from zkdeployment.base.host import Host


class AgentEvents:
    """Receives the events of one agent and records none of them: for an agent without metrics."""

    def observe(self, cluster: Cluster | None) -> None:
        """Record the cluster version that was just read."""

    def begin(self) -> None:
        """Record the start of a deployment."""

    def end(self, result: DeploymentResult) -> None:
        """Record the outcome of the deployment in progress, if there is one."""

    def beat(self, host: Host) -> None:
        """Write all metrics unless they were written recently."""

    def write(self, host: Host, *, up: bool = True) -> None:
        """Write all metrics; ``up``: whether the agent continues."""
