"""``zkdeployment nagios``: runs the bridge beside a Nagios."""

from __future__ import annotations

from pathlib import Path

import click

from zkdeployment import log
from zkdeployment.cli.shared.interruption import obey_signals
from zkdeployment.config.load import load
from zkdeployment.wiring.nagios import build_bridge


@click.command(name="nagios")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("-v", "--verbose", is_flag=True, help="Log debug messages, too.")
def command(config: Path, *, verbose: bool) -> None:
    """Run the bridge of a Nagios on this machine, in the foreground, until SIGTERM.

    The bridge fetches checks from the service, writes them as definitions of hosts and services, reloads Nagios,
    and reports the results of the checks. The section [nagios] of CONFIG names the service and the files of
    Nagios.

    \b
    Example:
      zkdeployment nagios /etc/zkdeployment/zkdeployment.cfg
    """
    log.configure(verbose=verbose)
    settings = load(config, host=False)
    with build_bridge(settings) as (bridge, control):
        obey_signals(control)
        bridge.run()
