"""Alarms of checks: monitoring systems that leave checks waiting, report nothing, or failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.durations import age
from zkdeployment.base.text import counted, listing
from zkdeployment.fleet.views.health import Health

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.checks.rules.overview import CheckSummary
    from zkdeployment.fleet.views.fleet_health import AlarmTimes

#: The limit of reasons that an alarm names.
_NAMED = 2

#: The severities of the states of groups that are reported; a group that lacks hosts in maintenance is no problem.
_SEVERITIES = {"in maintenance": Health.OK, "warning": Health.WARNING, "critical": Health.CRITICAL}


def check_alarms(checks: CheckSummary, times: AlarmTimes) -> Iterator[tuple[Health, str]]:
    """Yield the problems of monitoring systems with their severity.

    The limits apply to the time for which the first instance has waited, and to the time without a report.
    """
    now, limits = times.now, times.limits
    for system in checks.systems:
        waited, silent = system.waiting_for(now), system.silent_for(now)
        health, _ = limits.judge(waited / 60)
        waiting = counted(len(system.waiting), "check instance")
        if health is not Health.OK and limits.judge(silent / 60)[0] is not Health.OK:
            yield (
                health,
                f"monitoring system {system.name} has fetched nothing for {age(silent)}: {waiting} waiting",
            )
        elif health is not Health.OK:
            yield health, f"monitoring system {system.name}: {waiting} waiting, the first for {age(waited)}"
        unheard = system.unheard_for(now)
        health, _ = limits.judge(unheard / 60)
        if health is not Health.OK:
            yield health, f"monitoring system {system.name} has reported no results for {age(unheard)}"
        if system.failed:
            failed = counted(len(system.failed), "check instance")
            yield Health.WARNING, f"monitoring system {system.name} could not deploy or remove {failed}"
    for found in checks.groups:
        if found.state in _SEVERITIES:
            yield _SEVERITIES[found.state], f"check group {found.group.name}: {found.sentence}"
    if checks.unwritten:
        reasons = listing(sorted({*checks.unwritten.values()}), _NAMED)
        yield Health.WARNING, f"check instances cannot be written: {reasons}"
