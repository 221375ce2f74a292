"""Reports between the service and Nagios: results of checks in one direction, downtimes in the other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zkdeployment.errors import NagiosError
from zkdeployment.nagios.reports import (
    changed_results,
    downtime_command,
    downtime_hosts,
    due_downtimes,
    result_batches,
    results_of_checks,
)
from zkdeployment.nagios.status_file import NagiosStatus, read_status_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.adapters.nagios.program import LocalNagios
    from zkdeployment.nagios.check import NagiosCheck
    from zkdeployment.nagios.status_file import NagiosResult
    from zkdeployment.ports.nagios import MonitoringService
    from zkdeployment.ports.process import Clock

#: Seconds between reports of results that are still the same after the plugin ran again, and signs of life.
#: Rollouts with ``healthy_checks`` wait for them.
_SIGN_OF_LIFE = 20.0

#: Seconds after which a status file that Nagios has not written again is no sign of life.
_STALE = 180.0


class CheckReports:
    """Reports the results of the checks of ``nagios`` to ``service``, and gives downtimes to hosts at work."""

    def __init__(self, service: MonitoringService, nagios: LocalNagios, clock: Clock) -> None:
        self._service = service
        self._nagios = nagios
        self._clock = clock
        self._status = NagiosStatus()
        self._reported: dict[str, NagiosResult] = {}
        self._dropped: frozenset[str] = frozenset()
        self._reported_at = -math.inf
        self._requested: dict[str, float] = {}

    def read(self, checks: Mapping[str, NagiosCheck], written: Mapping[str, float]) -> Mapping[str, NagiosResult]:
        """Return the results of the present definitions of checks; raises ``NagiosError``.

        ``written`` is when each definition was written.
        """
        self._read_status()
        return results_of_checks(self._status.results, checks, written)

    def send(self, checks: Mapping[str, NagiosCheck], written: Mapping[str, float]) -> bool:
        """Report once; raises ``ServiceError`` and ``NagiosError``.

        ``written`` is when the definition of each check was written. Return whether the service dropped results of
        further instances: Nagios then has other checks than the service has deployed.
        """
        self._read_status()
        try:
            self._request_downtimes(checks)
        finally:
            is_dropped = self._report_results(checks, written)
        return is_dropped

    def _read_status(self) -> None:
        text = self._nagios.read_status()
        if text is not None:
            self._status = read_status_file(text)

    def _report_results(self, checks: Mapping[str, NagiosCheck], written: Mapping[str, float]) -> bool:
        age = self._clock.now() - self._status.created
        if self._status.created and age > _STALE:
            raise NagiosError(
                f"Nagios has not written its status file for {age:.0f} s: results are not reported; is it running?"
            )
        results = results_of_checks(self._status.results, checks, written)
        due = self._status.created > 0 and self._clock.monotonic() - self._reported_at >= _SIGN_OF_LIFE
        changed = changed_results(results, self._reported, refresh=due)
        if not changed and not due:
            return False
        dropped = frozenset[str]().union(*map(self._service.report_results, result_batches(changed)))
        is_dropped = not dropped <= self._dropped
        self._dropped = (self._dropped.difference(changed) | dropped).intersection(results)
        self._reported = {instance: self._reported.get(instance, result) for instance, result in results.items()}
        self._reported |= changed
        if due:
            self._reported_at = self._clock.monotonic()
        return is_dropped

    def _request_downtimes(self, checks: Mapping[str, NagiosCheck]) -> None:
        now = self._clock.now()
        hosts = downtime_hosts(self._service.list_working_hosts(), checks.values()) if checks else frozenset()
        # Nagios writes its status file later: what was requested counts as well.
        self._requested = {host: end for host, end in self._requested.items() if end > now}
        ends = dict(self._status.downtimes)
        for host, end in self._requested.items():
            ends[host] = max(end, ends.get(host, 0.0))
        due = due_downtimes(hosts, ends, now)
        if due:
            self._nagios.submit(downtime_command(host, now, end) for host, end in due.items())
            self._requested |= due
