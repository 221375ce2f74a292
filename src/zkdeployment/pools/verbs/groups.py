"""``zkdeployment pool``, ``session`` and ``node``: groups of verbs about host pools; ``pools``: their worker."""

from __future__ import annotations

from pathlib import Path

import click

from zkdeployment.cli.places import LazyVerb
from zkdeployment.cli.verb_group import LazyVerbGroup

_POOL_VERBS = {
    "fill": LazyVerb(".pools.verbs.pools", "Fill pools now, and show how their nodes are made."),
    "list": LazyVerb(".pools.verbs.pools", "Show all pools: their levels and their nodes.", "list_pools"),
    "show": LazyVerb(".pools.verbs.pools", "Show a pool and its nodes.", "show"),
    "usage": LazyVerb(
        ".pools.verbs.pools", "Show how many nodes each tenant held, and how long it waited.", "usage"
    ),
}

_NODE_VERBS = {
    "add": LazyVerb(".pools.verbs.pools", "Add a machine to the unused nodes.", "add"),
    "drain": LazyVerb(".pools.verbs.pools", "Take a node out of the pools, after its session.", "drain"),
    "forgive": LazyVerb(".pools.verbs.pools", "Let a failed node be deprovisioned again.", "forgive"),
    "list": LazyVerb(".pools.verbs.pools", "Show the nodes of all pools.", "list_nodes"),
    "log": LazyVerb(".pools.verbs.pools", "Show the output of the playbooks for a node.", "log"),
    "retire": LazyVerb(".pools.verbs.pools", "Retire an unused or failed node permanently.", "retire"),
}

_SESSION_VERBS = {
    "cancel": LazyVerb(".pools.verbs.sessions", "End the wait of a request.", "cancel"),
    "extend": LazyVerb(".pools.verbs.sessions", "Change the end of a session.", "extend"),
    "history": LazyVerb(".pools.verbs.sessions", "Show who had which node, and when.", "history"),
    "list": LazyVerb(
        ".pools.verbs.sessions", "Show the active sessions and the requests that wait.", "list_sessions"
    ),
    "request": LazyVerb(".pools.verbs.sessions", "Lease nodes to a tenant.", "request"),
    "retire": LazyVerb(".pools.verbs.sessions", "End a session.", "retire"),
    "show": LazyVerb(".pools.verbs.sessions", "Show a session and its nodes.", "show"),
}


@click.group(name="pool", cls=LazyVerbGroup, verbs=_POOL_VERBS)
def pool() -> None:
    """Show and fill host pools, whose nodes tenants lease.

    \b
    Example:
      zkdeployment pool list
      zkdeployment pool show metal-x86
      zkdeployment pool fill metal-x86
    """


@click.group(name="node", cls=LazyVerbGroup, verbs=_NODE_VERBS)
def node() -> None:
    """Show the nodes of host pools, add nodes, and take them out.

    \b
    Example:
      zkdeployment node list
      zkdeployment node add metal7.example.com 192.0.2.7 --data architecture=x86_64
      zkdeployment node drain 12 --reason 'the disk is to be replaced'
    """


@click.group(name="session", cls=LazyVerbGroup, verbs=_SESSION_VERBS)
def session() -> None:
    """Lease nodes of host pools to tenants, extend and end their sessions.

    Tenants are users of the service. Use the configuration of the service: only its credentials may read users.

    \b
    Example:
      zkdeployment session request metal-x86=2 --tenant ci
      zkdeployment session list
      zkdeployment session retire 17
    """


@click.command(name="pools")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("-v", "--verbose", is_flag=True, help="Log debug messages, too.")
def pools(config: Path, *, verbose: bool) -> None:
    """Run a worker of host pools, in the foreground, until SIGTERM.

    The worker fills pools, puts the keys of tenants on nodes, ends expired sessions, and deprovisions nodes.
    Several workers may run on different machines and share the work. Their whole state is in ZooKeeper: whatever a
    worker leaves unfinished, another one finishes or undoes. The section [pools] of CONFIG names the key for the
    nodes.

    \b
    Example:
      zkdeployment pools /etc/zkdeployment/zkdeployment.cfg
    """
    from zkdeployment.base import log  # noqa: PLC0415  the groups start faster without these modules
    from zkdeployment.base.daemon.control import obey_signals  # noqa: PLC0415
    from zkdeployment.base.machine.program import pools_libraries  # noqa: PLC0415
    from zkdeployment.config.settings import load  # noqa: PLC0415

    log.configure(verbose=verbose)
    settings = load(config, host=False)
    with pools_libraries():
        from zkdeployment.pools.program import build_pool_worker  # noqa: PLC0415  hosts have no libraries of the worker
    with build_pool_worker(settings) as (worker, control):
        obey_signals(control)
        worker.run()
