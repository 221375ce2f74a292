"""``zkdeployment coordinate``: runs a coordinator of rollouts."""

from __future__ import annotations

from pathlib import Path

import click

from zkdeployment import log
from zkdeployment.cli.shared.interruption import obey_signals
from zkdeployment.config.load import load
from zkdeployment.wiring.coordinator import build_coordinator


@click.command(name="coordinate")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("-v", "--verbose", is_flag=True, help="Log debug messages, too.")
def command(config: Path, *, verbose: bool) -> None:
    """Lead rollouts by the published strategy, in the foreground, until SIGTERM.

    Several coordinators may run on different hosts: one leads, and another takes over when the leader ends.
    The leader grants hosts the phases prepare and deploy, group by group, judges the groups, and stops the fleet
    when a critical group failed. Its whole state is in ZooKeeper. Without a strategy a coordinator does nothing.

    \b
    Example:
      zkdeployment coordinate /etc/zkdeployment/zkdeployment.cfg
    """
    log.configure(verbose=verbose)
    with build_coordinator(load(config, host=False)) as (coordinator, control):
        obey_signals(control)
        coordinator.run()
