"""``zkdeployment session history``: who had which node, and when."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

import click

from zkdeployment.cli.pool.tenants import moment, tenant_names
from zkdeployment.cli.shared.console import console_for
from zkdeployment.cli.shared.options import emit, output_option, zookeeper_options
from zkdeployment.cli.shared.responsive_table import ResponsiveTable
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.documents.durations import duration_seconds
from zkdeployment.pools.usage.lease_history import LeaseFilter, NodeLease, lease_history
from zkdeployment.wiring.leasing import open_pools

if TYPE_CHECKING:
    from zkdeployment.model.servers import Servers

_YEAR = 366 * 86400.0


def read_since(_context: click.Context, _option: click.Parameter, given: str | None) -> float:
    """Return the time in seconds since the epoch that a date or a duration before now means.

    Without both, that is a year ago.
    """
    now = time.time()
    if given is None:
        return now - _YEAR
    seconds = duration_seconds(given)
    try:
        return datetime.fromisoformat(given).timestamp() if seconds is None else now - seconds
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(
            f"expected a duration such as 7d, or a date such as 2027-01-31, found {given!a}"
        ) from error


@click.command(name="history")
@click.option("--node", metavar="NODE", help="Only this node: its id, its name or its address.")
@click.option("--tenant", metavar="NAME", help="Only nodes that this tenant had.")
@click.option(
    "--since",
    metavar="WHEN",
    callback=read_since,
    help="Only leases that ended later: since a duration (7d), or a date (2027-01-31). The default is a year.",
)
@output_option
@zookeeper_options
def command(connection: Servers, node: str | None, tenant: str | None, since: float, output: str) -> None:
    """Show who had which node and when, the newest first. Sessions are kept for a year after they ended.

    A lease that has not ended is shown with the time at which it expires. BY is who ended the session; empty, if
    it expired.

    \b
    Example:
      zkdeployment session history
      zkdeployment session history --node 192.0.2.7 --since 30d -o json
    """
    with open_pools(connection) as adapters:
        read, ended, users = adapters.store.read(), adapters.store.history(since), adapters.users.users()
    sessions = {session.id: session for session in (*read.sessions.values(), *ended.sessions)}
    wanted = LeaseFilter(node=node, tenant=tenant, since=since)
    leases = lease_history(sessions.values(), tenant_names(users), wanted)
    if output != "table":
        emit({"leases": [lease.to_json() for lease in leases]}, output, schema="session-history")
    elif leases:
        table = ResponsiveTable(
            ("NODE", "HOSTNAME", "ADDRESS", "POOL", "SESSION", "TENANT", "FROM", "UNTIL", "BY"),
            map(_cells, leases),
            whole=("HOSTNAME", "FROM", "UNTIL"),
            numbers=("NODE", "SESSION"),
            dispensable=("BY",),
        )
        console_for(stderr=False).print(table, soft_wrap=True)
    else:
        echo("no lease of a node was found", err=True)


def _cells(lease: NodeLease) -> tuple[str, ...]:
    session = lease.session
    return (
        str(lease.node.id),
        lease.node.hostname or "-",
        lease.node.ipaddr or "-",
        lease.node.pool,
        str(session.id),
        lease.tenant,
        moment(lease.begin),
        f"expires {moment(session.expires_at)}" if lease.end is None else moment(lease.end),
        session.retired_by or "",
    )
