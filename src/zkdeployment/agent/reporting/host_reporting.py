"""Builds and bundles the objects with which an agent reports its host's state. Holds no behaviour of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.agent.reporting.failures import FailureReporter, PhaseReporter
from zkdeployment.agent.reporting.registration import LocalHost, RegistrationUpdater, ZooKeeperRetry
from zkdeployment.agent.reporting.status import DeploymentStatus, Heartbeat, RefusalStatus

if TYPE_CHECKING:
    from zkdeployment.agent.adapters import ReportingAdapters
    from zkdeployment.agent.events import AgentEvents
    from zkdeployment.base.daemon.control import Control
    from zkdeployment.base.host import Host


@dataclass(frozen=True, kw_only=True)
class HostReporting:
    """The objects that report one host's state, all about the same ``LocalHost``."""

    local: LocalHost
    retry: ZooKeeperRetry
    registration: RegistrationUpdater
    heartbeat: Heartbeat
    deployment: DeploymentStatus
    refusal: RefusalStatus
    phases: PhaseReporter
    failures: FailureReporter

    @property
    def host(self) -> Host:
        """The host as this agent knows it now."""
        return self.local.host


def make_host_reporting(
    host: Host, adapters: ReportingAdapters, control: Control, telemetry: AgentEvents
) -> HostReporting:
    """Return the reporting objects of one host."""
    local = LocalHost(host)
    retry = ZooKeeperRetry(local, adapters, control, telemetry)
    registration = RegistrationUpdater(local, adapters, retry)
    heartbeat = Heartbeat(local, adapters, registration, control, telemetry)
    deployment = DeploymentStatus(local, adapters, registration, heartbeat, telemetry)
    phases = PhaseReporter(local, adapters, registration, retry)
    return HostReporting(
        local=local,
        retry=retry,
        registration=registration,
        heartbeat=heartbeat,
        deployment=deployment,
        refusal=RefusalStatus(local, adapters, registration, deployment),
        phases=phases,
        failures=FailureReporter(local, adapters, registration, phases, retry, telemetry),
    )
