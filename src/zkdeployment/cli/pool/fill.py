"""``zkdeployment pool fill``: fills a pool now, and shows how its nodes are made."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from zkdeployment.acts.pools.filling import fill_pool
from zkdeployment.cli.pool.pools import describe_shortage
from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.live_display import live_display
from zkdeployment.cli.shared.operator_options import new_act, reason_option
from zkdeployment.cli.shared.options import emit, output_option, zookeeper_options
from zkdeployment.cli.shared.seconds import SECONDS
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.errors import RefusedError, ZkdeploymentError
from zkdeployment.pools.overview import ShortageCause
from zkdeployment.pools.overview_json import pool_to_json
from zkdeployment.wiring.leasing import open_pools

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from zkdeployment.model.servers import Servers
    from zkdeployment.pools.overview import PoolOverview

_TIMEOUT = 3600.0


@click.command(name="fill")
@click.argument("name", metavar="POOL")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=SECONDS,
    default=_TIMEOUT,
    show_default=True,
    help="How long to wait for the nodes.",
)
@reason_option(required=False)
@output_option
@zookeeper_options
def command(*, connection: Servers, name: str, timeout: float, reason: str, output: str) -> None:
    """Fill a pool now: a worker begins at once, also if it waits because filling failed before.

    The command shows how nodes are made, and returns when the pool has its level. Workers continue if the command
    is interrupted. The exit code is 1 if the pool cannot be filled, 3 if there is no such pool or no worker runs,
    and 5 if the pool is not full in time.

    \b
    Example:
      zkdeployment pool fill metal-x86 --reason 'the image server is repaired'
    """
    act = new_act(f"fill pool {name}", reason)
    with (
        open_pools(connection) as adapters,
        live_display(console_for(stderr=True), _changes, _render) as show,
    ):
        pool = fill_pool(name, adapters, act, timeout=timeout, progress=lambda found: show(found, ""))
    shortage = pool.shortage
    if shortage is not None and shortage.cause is ShortageCause.NO_WORKER:
        raise RefusedError(f"pool {name} is not filled: {shortage.reason}; start 'zkdeployment pools CONFIG'")
    if shortage is not None:
        raise ZkdeploymentError(f"pool {name} is not filled; it lacks {describe_shortage(pool, time.time())}")
    if output != "table":
        emit(pool_to_json(pool), output, schema="pool-level")
    else:
        echo(_counts(pool))


def _changes(before: PoolOverview | None, pool: PoolOverview) -> Iterator[str]:
    if before is None or _counts(before) != _counts(pool):
        yield _counts(pool)


def _render(pool: PoolOverview, _problem: str) -> Text:
    return styled(_counts(pool))


def _counts(pool: PoolOverview) -> str:
    making = f", {pool.provisioning} being provisioned" if pool.provisioning else ""
    return f"{pool.name}: {pool.ready} of {pool.level} ready{making}"
