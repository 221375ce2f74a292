"""``zkdeployment pool`` and ``node``: shows and fills pools, shows, adds and removes their nodes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from zkdeployment.base.durations import age, ago
from zkdeployment.base.errors import ConfigurationError, RefusedError, ZkdeploymentError
from zkdeployment.base.text import counted, printable
from zkdeployment.cli.act_verbs import act_verb
from zkdeployment.cli.operator_options import new_act, reason_option
from zkdeployment.cli.options import SECONDS, emit, output_option, past_time, zookeeper_options
from zkdeployment.cli.tables import ResponsiveTable, console_for, live_display, styled
from zkdeployment.cli.terminal import echo
from zkdeployment.fleet.operator import open_operator
from zkdeployment.pools.acts.nodes import add_node, fill_pool, node_runs, read_pools
from zkdeployment.pools.opening import open_pools
from zkdeployment.pools.rules.listing import (
    PoolView,
    ShortageCause,
    failure_of,
    find_pool,
    pool_node_to_json,
    pool_nodes,
)
from zkdeployment.pools.rules.node import NewPoolNode, NodeState, PoolNode, check_new_node, node_data, node_of_host
from zkdeployment.pools.rules.usage import TenantUsage, UsageFilter, pool_usage, usage_window
from zkdeployment.pools.user_acts import DrainNode, ForgiveNode, RetireNode
from zkdeployment.pools.verbs.sessions import moment, tenant_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rich.text import Text

    from zkdeployment.base.json_values import Value
    from zkdeployment.zookeeper.servers import Servers


_COLOURS = {NodeState.READY: "green", NodeState.FAILED: "red", NodeState.DEPLOYED: "cyan", NodeState.DONE: "dim"}


def print_nodes(nodes: Iterable[PoolNode], now: float) -> None:
    """Print a table of nodes; ``now`` is in seconds since the epoch."""
    headings = ("ID", "POOL", "STATE", "HOSTNAME", "ADDRESS", "SESSION", "SINCE", "COMMENT", "ERROR")
    table = ResponsiveTable(
        headings,
        (_node_cells(node, now) for node in nodes),
        whole=("POOL", "STATE", "HOSTNAME"),
        numbers=("ID", "SESSION"),
        dispensable=("COMMENT", "ERROR"),
    )
    console_for(stderr=False).print(table, soft_wrap=True)


def _node_cells(node: PoolNode, now: float) -> tuple[Text | str, ...]:
    return (
        str(node.id),
        node.pool or "-",
        styled(node.state.value, _COLOURS.get(node.state, "")),
        node.hostname or "-",
        node.ipaddr or "-",
        "-" if node.session is None else str(node.session),
        ago(node.changed, now),
        node.comment or "",
        failure_of(node) or "",
    )


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
        body = {"workers": [*read.workers], "pools": [pool.to_json() for pool in pools]}
        emit(body, output, schema="pools")
        return
    if not pools:
        echo(_NO_POOLS, err=True)
        return
    now = time.time()
    headings = ("POOL", "MECHANISM", "LEVEL", "READY", "PROVISIONING", "LEASED", "FAILED", "LACKS")
    table = ResponsiveTable(
        headings,
        (_pool_cells(pool, now) for pool in pools),
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
        emit({**pool.to_json(), "nodes": [*map(pool_node_to_json, nodes)]}, output, schema="pool")
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


def describe_shortage(pool: PoolView, now: float) -> str:
    """Return a sentence with the missing nodes of a pool, the reason and the time; empty at its level."""
    shortage = pool.shortage
    if shortage is None:
        return ""
    since = "" if shortage.since is None else f" for {age(now - shortage.since)}"
    due = "" if pool.next_filling is None else f"; the next attempt is in {age(pool.next_filling - now)}"
    return f"{counted(shortage.missing, 'node')}{since}: {shortage.reason}{due}"


def _pool_cells(pool: PoolView, now: float) -> tuple[Text | str, ...]:
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
        emit(pool.to_json(), output, schema="pool-level")
    else:
        echo(_counts(pool))


def _changes(before: PoolView | None, pool: PoolView) -> Iterator[str]:
    if before is None or _counts(before) != _counts(pool):
        yield _counts(pool)


def _render(pool: PoolView, _problem: str) -> Text:
    return styled(_counts(pool))


def _counts(pool: PoolView) -> str:
    making = f", {pool.provisioning} being provisioned" if pool.provisioning else ""
    return f"{pool.name}: {pool.ready} of {pool.level} ready{making}"


_NUMBERS = ("SESSIONS", "NODE-HOURS", "MOST", "MEDIAN WAIT", "LONGEST WAIT")


@click.command(name="usage")
@click.option("--tenant", metavar="NAME", help="Only the nodes of this tenant.")
@click.option("--pool", metavar="POOL", help="Only the nodes of this pool.")
@click.option(
    "--since",
    metavar="WHEN",
    default="30d",
    callback=past_time,
    help="Only the time since then: a duration before now (7d), or a date (2027-01-31). The default is 30d.",
)
@output_option
@zookeeper_options
def usage(*, connection: Servers, tenant: str | None, pool: str | None, since: float, output: str) -> None:
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
        emit({"nodes": [*map(pool_node_to_json, nodes)]}, output, schema="pool-nodes")
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
