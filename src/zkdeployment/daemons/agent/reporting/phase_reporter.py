"""Reports to a rollout how a phase ended on this host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import ConflictError, UnreachableError
from zkdeployment.rollout.permission import PhaseReport

if TYPE_CHECKING:
    from zkdeployment.daemons.agent.agent_adapters import ReportingAdapters
    from zkdeployment.daemons.agent.reporting.local_host import LocalHost
    from zkdeployment.daemons.agent.reporting.registration_updater import RegistrationUpdater
    from zkdeployment.daemons.agent.reporting.zookeeper_retry import ZooKeeperRetry
    from zkdeployment.rollout.permission import Phase


class PhaseReporter:
    """Writes phase reports, together with the host's node."""

    def __init__(
        self,
        local: LocalHost,
        adapters: ReportingAdapters,
        registration: RegistrationUpdater,
        retry: ZooKeeperRetry,
    ) -> None:
        self._local = local
        self._adapters = adapters
        self._registration = registration
        self._retry = retry

    def report_success(self, rollout: str, phase: Phase) -> None:
        """Report that this host finished a phase, once ZooKeeper answers."""
        report = PhaseReport(self._adapters.clock.now())
        self._retry.retry_until_reachable(lambda: self.send(rollout, phase, report))

    def send(self, rollout: str, phase: Phase, report: PhaseReport) -> None:
        """Write one report; raises ``UnreachableError`` if it was not written and has to be sent again."""
        try:
            self._adapters.fleet.report_phase(rollout, phase, self._local.host, report)
        except ConflictError as error:
            raise UnreachableError(str(error)) from error  # the coordinator waits for the report
        self._registration.note_written()
