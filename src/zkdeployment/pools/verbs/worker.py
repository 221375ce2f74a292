"""``zkdeployment pools``: runs a worker of host pools in the foreground."""

from __future__ import annotations

from pathlib import Path

import click

from zkdeployment.base import log
from zkdeployment.base.daemon.control import obey_signals
from zkdeployment.base.machine.program import pools_libraries
from zkdeployment.config.settings import load


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
    log.configure(verbose=verbose)
    settings = load(config, host=False)
    with pools_libraries():
        from zkdeployment.pools.program import build_pool_worker  # noqa: PLC0415  hosts have no libraries of the worker
    with build_pool_worker(settings) as (worker, control):
        obey_signals(control)
        worker.run()
