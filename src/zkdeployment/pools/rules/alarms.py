"""Alarms of host pools: a missing worker, levels that are not filled, and failed nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.durations import age
from zkdeployment.base.text import counted, listing
from zkdeployment.fleet.views.health import Health, HealthLimits
from zkdeployment.pools.rules.overview import PoolOverview, PoolShortage, PoolsStatus, ShortageCause, failure_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.fleet.views.fleet_health import AlarmTimes

#: The limit of nodes and pools that a line names.
_NAMED = 3

#: The number of failures in a row that is a problem at once; after the first failure, the next attempt is a minute
#: later.
_FAILURES = 2


def pool_alarms(pools: PoolsStatus, times: AlarmTimes) -> Iterator[tuple[Health, str]]:
    """Yield the problems of pools, each with its severity.

    A pool that is being filled normally is never a problem, because the worker limits the time. Otherwise the
    limits apply to the time for which the pool has been below its level, or to the age of the publication if that
    time is unknown.
    """
    now, published_for, limits = times.now, times.published_for, times.limits
    below = [
        (pool, shortage)
        for pool in pools.pools
        if (shortage := pool.shortage) is not None and shortage.cause is not ShortageCause.FILLING
    ]
    if pools.is_without_worker:
        yield _missing_worker(below, now, published_for, limits)
        below = []
    for pool, shortage in below:
        lasting = published_for if shortage.since is None else max(0.0, now - shortage.since)
        health = _severity(pool, shortage, lasting, limits)
        if health is not Health.OK:
            ready = f"{pool.ready} of {pool.level} ready"
            yield health, f"pool {pool.name} is below its level for {age(lasting)}, {ready}: {shortage.reason}"
    failures = [f"{node.hostname or node.id} ({node.pool}): {failure_of(node)}" for node in pools.failed]
    if failures:
        yield Health.WARNING, f"{counted(len(failures), 'node')} of pools failed: {listing(failures, _NAMED)}"


def _missing_worker(
    below: list[tuple[PoolOverview, PoolShortage]], now: float, published_for: float, limits: HealthLimits
) -> tuple[Health, str]:
    """Return the problem of pools without any worker; the oldest lack of nodes decides the severity."""
    since = min((now - published_for if lack.since is None else lack.since for _, lack in below), default=now)
    health, _ = limits.judge((now - since) / 60)
    lacking = f"; below their levels: {listing([pool.name for pool, _ in below], _NAMED)}" if below else ""
    return max(health, Health.WARNING), f"no worker of the pools runs{lacking}"


def _severity(pool: PoolOverview, shortage: PoolShortage, lasting: float, limits: HealthLimits) -> Health:
    health, _ = limits.judge(lasting / 60)
    match shortage.cause:
        case ShortageCause.FAILURES if pool.failures >= _FAILURES:
            return max(health, Health.WARNING)
        case ShortageCause.NO_NODES:  # all existing nodes may be leased
            return min(health, Health.WARNING)
    return health
