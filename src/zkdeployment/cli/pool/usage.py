"""``zkdeployment pool usage``: how many nodes each tenant held, and how long its requests waited."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from zkdeployment.cli.pool.history import read_since
from zkdeployment.cli.pool.tenants import moment, tenant_names
from zkdeployment.cli.shared.console import console_for
from zkdeployment.cli.shared.options import emit, output_option, zookeeper_options
from zkdeployment.cli.shared.responsive_table import ResponsiveTable
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.fleet.ages import age
from zkdeployment.pools.usage.pool_usage import TenantUsage, UsageFilter, pool_usage, usage_window
from zkdeployment.wiring.leasing import open_pools

if TYPE_CHECKING:
    from zkdeployment.model.servers import Servers

_NUMBERS = ("SESSIONS", "NODE-HOURS", "MOST", "MEDIAN WAIT", "LONGEST WAIT")


@click.command(name="usage")
@click.option("--tenant", metavar="NAME", help="Only the nodes of this tenant.")
@click.option("--pool", metavar="POOL", help="Only the nodes of this pool.")
@click.option(
    "--since",
    metavar="WHEN",
    default="30d",
    callback=read_since,
    help="Only the time since then: a duration before now (7d), or a date (2027-01-31). The default is 30d.",
)
@output_option
@zookeeper_options
def command(*, connection: Servers, tenant: str | None, pool: str | None, since: float, output: str) -> None:
    """Show how many nodes of each pool each tenant held, and how long its requests waited for them.

    A node is held from its reservation until the end of the session. A request waits until the tenant can log in
    to all its nodes. With '-o json', 'held' is the average number of nodes in each period of 'step' seconds. The
    page of pools has a plot of the same numbers. Sessions are kept for a year after they ended.

    \b
    Example:
      zkdeployment pool usage
      zkdeployment pool usage --pool metal-x86 --since 90d -o json
    """
    with open_pools(connection) as adapters:
        uses, users = adapters.uses(), adapters.users.users()
    window = usage_window(since, time.time())
    usage = pool_usage(uses, tenant_names(users), window, UsageFilter(tenant, pool))
    if output != "table":
        emit(usage.to_json(), output, schema="pool-usage")
    elif usage.tenants:
        table = ResponsiveTable(
            ("TENANT", "POOL", *_NUMBERS), map(_cells, usage.tenants), whole=("TENANT", "POOL"), numbers=_NUMBERS
        )
        console_for(stderr=False).print(table, soft_wrap=True)
    else:
        echo(f"no tenant held a node since {moment(window.begin)}", err=True)


def _cells(usage: TenantUsage) -> tuple[str, ...]:
    return (
        usage.tenant,
        usage.pool,
        str(usage.sessions),
        f"{usage.node_hours:.1f}",
        str(usage.most),
        *("-" if wait is None else age(wait) for wait in (usage.median_wait, usage.longest_wait)),
    )
