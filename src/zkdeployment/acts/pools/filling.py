"""The present state of pools, and the act of an operator who wants a pool to be filled at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import ConflictError, RefusedError, WaitTimeoutError
from zkdeployment.pools.filling_record import FillingRecord
from zkdeployment.pools.overview import ShortageCause, find_pool, pool_overviews
from zkdeployment.pools.snapshot import PoolChange

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.model.act import Act
    from zkdeployment.pools.overview import PoolOverview
    from zkdeployment.pools.snapshot import PoolSnapshot
    from zkdeployment.ports.pools import PoolAdapters

#: Seconds within which a worker begins to fill a pool, if one runs and there are nodes for the pool.
BEGINNING = 10.0

#: The longest time in seconds between two reads of a pool.
_LOOK = 1.0

#: Attempts to change the record of a pool while workers change it.
_ATTEMPTS = 20


def read_pools(adapters: PoolAdapters) -> tuple[PoolSnapshot, tuple[PoolOverview, ...]]:
    """Return the present nodes and sessions, and the published pools by name."""
    configuration, read = adapters.store.configuration(), adapters.store.read()
    return read, pool_overviews(configuration, read)


def fill_pool(
    name: str,
    adapters: PoolAdapters,
    act: Act,
    *,
    timeout: float,
    progress: Callable[[PoolOverview], object] = lambda _: None,
) -> PoolOverview:
    """Forget the failures of a pool, so that a worker fills it now; return the pool when no more can be done.

    The pool has its level then, or its shortage has the reason why it is not filled. ``progress`` is called with
    the present pool at least every second. Raises ``NotFoundError``, ``RefusedError`` for a pool without a level,
    and ``WaitTimeoutError`` if nodes are still being made after ``timeout`` seconds.
    """
    if find_pool(name, read_pools(adapters)[1]).level is None:
        raise RefusedError(
            f"pool {name} has no fill-level, so that there is nothing to fill; set one in its document"
        )
    _forget_failures(name, adapters)
    adapters.acts.record(act)
    begin = idle_since = adapters.clock.monotonic()
    while True:
        _, pools = read_pools(adapters)
        pool, now = find_pool(name, pools), adapters.clock.monotonic()
        if _is_under_way(pool):
            idle_since = now
        if pool.shortage is None or pool.shortage.cause is ShortageCause.FAILURES or now >= idle_since + BEGINNING:
            return pool
        progress(pool)
        if now >= begin + timeout:
            raise WaitTimeoutError(f"pool {name} is not full after {timeout:g} s: {pool.shortage.reason}")
        adapters.wait(min(_LOOK, begin + timeout - now))


def _is_under_way(pool: PoolOverview) -> bool:
    """Whether a worker makes nodes for the pool, or cleans nodes that the pool can use then."""
    has_worker = pool.shortage is not None and pool.shortage.cause is not ShortageCause.NO_WORKER
    return has_worker and bool(pool.provisioning or pool.deprovisioning)


def _forget_failures(name: str, adapters: PoolAdapters) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        read = adapters.store.read()
        record = read.filling.get(name, FillingRecord()).after_success()
        try:
            adapters.store.commit(PoolChange(filling={name: record}), read)
        except ConflictError:
            if attempt == _ATTEMPTS:
                raise
        else:
            return
