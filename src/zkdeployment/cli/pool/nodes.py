"""``zkdeployment node list``: the nodes of all pools."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from zkdeployment.acts.pools.filling import read_pools
from zkdeployment.cli.pool.node_table import print_nodes
from zkdeployment.cli.shared.options import emit, output_option, zookeeper_options
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.pools.node import NodeState
from zkdeployment.pools.overview import find_pool, pool_nodes
from zkdeployment.pools.overview_json import nodes_to_json
from zkdeployment.wiring.leasing import open_pools

if TYPE_CHECKING:
    from zkdeployment.model.servers import Servers


@click.command(name="list")
@click.option("--pool", metavar="POOL", help="Only the nodes of this pool.")
@click.option(
    "--state",
    type=click.Choice([state.value for state in NodeState if state is not NodeState.DONE]),
    help="Only the nodes in this state.",
)
@output_option
@zookeeper_options
def command(*, connection: Servers, pool: str | None, state: str | None, output: str) -> None:
    """Show the nodes of all pools, and those that no pool uses.

    Nodes that are done are left out; 'zkdeployment session history' shows who had them.

    \b
    Example:
      zkdeployment node list
      zkdeployment node list --state failed -o json
    """
    with open_pools(connection) as adapters:
        read, pools = read_pools(adapters)
    if pool is not None:
        find_pool(pool, pools)
    nodes = [node for node in pool_nodes(read, pool) if state in {None, node.state.value}]
    if output != "table":
        emit(nodes_to_json(nodes), output, schema="pool-nodes")
    elif nodes:
        print_nodes(nodes, time.time())
    else:
        echo("no node was found", err=True)
