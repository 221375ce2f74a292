"""Alarms of checks: monitoring systems that fetch nothing while checks wait for them, and those that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.ages import age
from zkdeployment.fleet.health import Health, HealthLimits
from zkdeployment.model.listing import listing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from zkdeployment.checks.overview import CheckSummary

#: How many reasons an alarm names.
_NAMED = 2


def check_alarms(checks: CheckSummary, *, now: float, limits: HealthLimits) -> Iterator[tuple[Health, str]]:
    """Yield the problems of monitoring systems with their severity.

    ``limits`` are in minutes and apply to the time without a fetch; ``now`` is in seconds since the epoch.
    """
    for system in checks.systems:
        silent = system.silent_for(now)
        health, _ = limits.judge(silent / 60)
        if health is not Health.OK:
            waiting = f"{_instances(system.waiting)} waiting"
            yield health, f"monitoring system {system.name} has fetched nothing for {age(silent)}: {waiting}"
        if system.failed:
            failed = _instances(system.failed)
            yield Health.WARNING, f"monitoring system {system.name} could not deploy or remove {failed}"
    if checks.unwritten:
        reasons = listing(sorted({*checks.unwritten.values()}), _NAMED)
        yield Health.WARNING, f"check instances cannot be written: {reasons}"


def _instances(found: Collection[str]) -> str:
    return f"{len(found)} check instance" + ("" if len(found) == 1 else "s")
