"""``zkdeployment node log``: the output of the playbooks that were run for a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.acts.pools.nodes import node_runs
from zkdeployment.cli.pool.tenants import moment
from zkdeployment.cli.shared.options import emit, output_option, zookeeper_options
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.printable import printable
from zkdeployment.wiring.leasing import open_pools

if TYPE_CHECKING:
    from zkdeployment.model.servers import Servers


@click.command(name="log")
@click.argument("number", metavar="ID", type=click.IntRange(min=1))
@output_option
@zookeeper_options
def command(*, connection: Servers, number: int, output: str) -> None:
    """Show the output of each playbook that was run for a node, the last run last.

    The last 500 runs of all pools are kept, each with the end of its output.

    \b
    Example:
      zkdeployment node log 12
      zkdeployment node log 12 -o json
    """
    with open_pools(connection) as adapters:
        runs = node_runs(number, adapters)
    if output != "table":
        emit({"runs": [run.to_json() for run in runs]}, output, schema="node-log")
        return
    for run in runs:
        outcome = "succeeded" if run.succeeded else "failed"
        what = f"{printable(run.playbook)} for the pool {printable(run.pool)}"
        echo(f"{moment(run.begun)}: {what} {outcome} after {run.seconds:.0f} s")
        for line in run.output.splitlines():
            echo(f"  {printable(line)}")
    if not runs:
        echo(f"no run of a playbook is recorded for node {number}", err=True)
