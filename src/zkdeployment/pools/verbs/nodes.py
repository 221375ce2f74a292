"""``zkdeployment node list``, ``log``, ``add``, ``drain``, ``retire`` and ``forgive``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.text import printable
from zkdeployment.cli.act_verbs import act_verb
from zkdeployment.cli.operator_options import new_act, reason_option
from zkdeployment.cli.options import emit, output_option, zookeeper_options
from zkdeployment.cli.terminal import echo
from zkdeployment.fleet.operator import open_operator
from zkdeployment.pools.acts.nodes import add_node, node_runs, read_pools
from zkdeployment.pools.opening import open_pools
from zkdeployment.pools.rules.node import NewPoolNode, NodeState, check_new_node, node_data, node_of_host
from zkdeployment.pools.rules.overview import find_pool, nodes_to_json, pool_node_to_json, pool_nodes
from zkdeployment.pools.user_acts import DrainNode, ForgiveNode, RetireNode
from zkdeployment.pools.verbs.pools import print_nodes
from zkdeployment.pools.verbs.sessions import moment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.pools.rules.node import PoolNode
    from zkdeployment.tree.values import Value
    from zkdeployment.zookeeper.servers import Servers


@click.command(name="list")
@click.option("--pool", metavar="POOL", help="Only the nodes of this pool.")
@click.option(
    "--state",
    type=click.Choice([state.value for state in NodeState if state is not NodeState.DONE]),
    help="Only the nodes in this state.",
)
@output_option
@zookeeper_options
def list_nodes(*, connection: Servers, pool: str | None, state: str | None, output: str) -> None:
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


@click.command(name="log")
@click.argument("number", metavar="ID", type=click.IntRange(min=1))
@output_option
@zookeeper_options
def log(*, connection: Servers, number: int, output: str) -> None:
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


def _read_data(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> Mapping[str, Value]:
    """Return the values of a node."""
    try:
        return node_data(given)
    except ConfigurationError as error:
        raise click.BadParameter(str(error)) from error


@click.command(name="add")
@click.argument("hostname", required=False)
@click.argument("address", required=False)
@click.option("--host", metavar="HOST", help="A host of this fleet, by id or name, instead of another machine.")
@click.option(
    "--data",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_read_data,
    help='A value of the node, as reuse-nodes wants it; "2" in quotes is text. Repeat it for more values.',
)
@click.option("--comment", metavar="TEXT", help="A comment, which lists of nodes show.")
@reason_option(required=False)
@output_option
@zookeeper_options
def add(
    *,
    connection: Servers,
    hostname: str | None,
    address: str | None,
    host: str | None,
    data: Mapping[str, Value],
    comment: str | None,
    reason: str,
    output: str,
) -> None:
    """Add a machine to the unused nodes, from which pools take what they lack.

    A machine has a HOSTNAME and an ADDRESS, and admits the workers by SSH. Pools with reuse-nodes take it if it
    has their values. Hosts of this fleet whose configuration has 'role = lease:IDLE' become nodes by themselves;
    --host adds such a host again after it was drained or retired. The exit code is 3 if a node is this machine
    already.

    \b
    Example:
      zkdeployment node add metal7.example.com 192.0.2.7 --data architecture=x86_64
      zkdeployment node add --host app7 --reason 'the disk is replaced'
    """
    if (host is None) == (hostname is None) or (hostname is None) != (address is None):
        raise click.UsageError("expected HOSTNAME and ADDRESS, or --host HOST")
    if host is not None:
        with open_operator(connection) as operator:
            new = node_of_host(operator.fleet.known_hosts(), host, comment=comment, data=data)
    else:
        new = NewPoolNode(hostname=hostname or "", ipaddr=address, comment=comment, data=data)
        check_new_node(new)
    with open_pools(connection) as adapters:
        node = add_node(new, adapters, new_act(f"add node {new.hostname}", reason))
    _print(node, output, f"added node {node.id} ({node.hostname})")


@act_verb(DrainNode, "drain", open_pools)
@click.argument("node", metavar="ID", type=click.IntRange(min=1))
@output_option
def drain(_planned: DrainNode, node: PoolNode, output: str) -> None:
    """Take a node out of the pools for good: an unused or a ready one now, a leased one after its session.

    The worker deprovisions the node before it is done. The exit code is 3 if there is no such node, if it has
    failed, or while a worker changes it.

    \b
    Example:
      zkdeployment node drain 12 --reason 'the disk is to be replaced'
    """
    outcomes = {
        NodeState.DONE: "is done",
        NodeState.DEPROVISIONING: "is being deprovisioned, and done after that",
        NodeState.DEPLOYED: f"leaves its pool after session {node.session}",
    }
    _print(node, output, f"node {node.id} {outcomes.get(node.state, node.state.value)}")


@act_verb(RetireNode, "retire", open_pools)
@click.argument("node", metavar="ID", type=click.IntRange(min=1))
@output_option
def retire(_planned: RetireNode, node: PoolNode, output: str) -> None:
    """Retire a node that is unused or has failed: no pool uses it again, and nothing is done to the machine.

    The exit code is 3 if there is no such node, or if it is in use; 'zkdeployment node drain' takes it out then.

    \b
    Example:
      zkdeployment node retire 12 --reason 'the machine is scrapped'
    """
    _print(node, output, f"node {node.id} is done")


@act_verb(ForgiveNode, "forgive", open_pools)
@click.argument("node", metavar="ID", type=click.IntRange(min=1))
@output_option
def forgive(_planned: ForgiveNode, node: PoolNode, output: str) -> None:
    """Let a failed node be deprovisioned again, so that it can be used again.

    The exit code is 3 if there is no such node, or if it has not failed.

    \b
    Example:
      zkdeployment node forgive 12 --reason 'the network is back'
    """
    _print(node, output, f"node {node.id} is being deprovisioned; after that it is used again if it can be")


def _print(node: PoolNode, output: str, message: str) -> None:
    if output != "table":
        emit(pool_node_to_json(node), output, schema="pool-node")
    else:
        echo(message)
