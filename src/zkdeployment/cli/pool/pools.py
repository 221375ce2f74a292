"""``zkdeployment pool list`` and ``show``: pools, their levels, and what they lack."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from zkdeployment.acts.pools.filling import read_pools
from zkdeployment.cli.pool.node_table import print_nodes
from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.options import emit, output_option, zookeeper_options
from zkdeployment.cli.shared.responsive_table import ResponsiveTable
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.fleet.ages import age
from zkdeployment.pools.overview import find_pool, pool_nodes
from zkdeployment.pools.overview_json import pool_with_nodes_to_json, pools_to_json
from zkdeployment.wiring.leasing import open_pools

if TYPE_CHECKING:
    from rich.text import Text

    from zkdeployment.model.servers import Servers
    from zkdeployment.pools.overview import PoolOverview

_NO_POOLS = (
    "no pools are published; add a document of the schema zkdeployment/Pools/v1 at the top of the repository"
)
_NO_WORKER = "no worker of the pools runs: nothing is provisioned, cleaned or expired; start 'zkdeployment pools'"


@click.command(name="list")
@output_option
@zookeeper_options
def list_pools(connection: Servers, output: str) -> None:
    """Show all pools: their levels, their nodes by state, and why a pool is below its level.

    \b
    Example:
      zkdeployment pool list
      zkdeployment pool list -o json
    """
    with open_pools(connection) as adapters:
        read, pools = read_pools(adapters)
    if output != "table":
        emit(pools_to_json(pools, read.workers), output, schema="pools")
        return
    if not pools:
        echo(_NO_POOLS, err=True)
        return
    now = time.time()
    headings = ("POOL", "MECHANISM", "LEVEL", "READY", "PROVISIONING", "LEASED", "FAILED", "LACKS")
    table = ResponsiveTable(
        headings,
        (_cells(pool, now) for pool in pools),
        whole=("POOL",),
        numbers=("LEVEL", "READY", "PROVISIONING", "LEASED", "FAILED"),
        dispensable=("MECHANISM", "LACKS"),
    )
    console_for(stderr=False).print(table, soft_wrap=True)
    if not read.workers:
        echo(_NO_WORKER, err=True)


@click.command(name="show")
@click.argument("name", metavar="POOL")
@output_option
@zookeeper_options
def show(connection: Servers, name: str, output: str) -> None:
    """Show a pool: its level, why it is below its level, and its nodes.

    The exit code is 3 if there is no such pool.

    \b
    Example:
      zkdeployment pool show metal-x86
      zkdeployment pool show metal-x86 -o json
    """
    with open_pools(connection) as adapters:
        read, pools = read_pools(adapters)
    pool, nodes, now = find_pool(name, pools), pool_nodes(read, name), time.time()
    if output != "table":
        emit(pool_with_nodes_to_json(pool, nodes), output, schema="pool")
        return
    level = "no level: the pool lends no nodes" if pool.level is None else f"level {pool.level}"
    counts = f"{pool.ready} ready, {pool.provisioning} provisioning, {pool.leased} leased, {pool.failed} failed"
    quota = "" if pool.pool.node_quota is None else f"; at most {pool.pool.node_quota} for each tenant"
    echo(f"{pool.name} ({pool.mechanism}): {level}; {counts}{quota}")
    if pool.shortage is not None:
        echo(f"lacks {describe_shortage(pool, now)}")
    if nodes:
        print_nodes(nodes, now)
    if not read.workers:
        echo(_NO_WORKER, err=True)


def describe_shortage(pool: PoolOverview, now: float) -> str:
    """Return what a pool lacks, why and for how long; empty for a pool at its level."""
    shortage = pool.shortage
    if shortage is None:
        return ""
    since = "" if shortage.since is None else f" for {age(now - shortage.since)}"
    due = "" if pool.next_filling is None else f"; the next attempt is in {age(pool.next_filling - now)}"
    missing = "1 node" if shortage.missing == 1 else f"{shortage.missing} nodes"
    return f"{missing}{since}: {shortage.reason}{due}"


def _cells(pool: PoolOverview, now: float) -> tuple[Text | str, ...]:
    return (
        pool.name,
        pool.mechanism,
        "-" if pool.level is None else str(pool.level),
        str(pool.ready),
        str(pool.provisioning),
        str(pool.leased),
        styled(str(pool.failed), "red" if pool.failed else ""),
        styled(describe_shortage(pool, now), "yellow"),
    )
