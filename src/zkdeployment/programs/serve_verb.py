"""``zkdeployment serve``: runs the service in the foreground."""

from __future__ import annotations

from pathlib import Path

import click

from zkdeployment.base import log
from zkdeployment.base.daemon.control import obey_signals
from zkdeployment.base.machine.program import service_libraries
from zkdeployment.config.settings import load


@click.command(name="serve")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("-v", "--verbose", is_flag=True, help="Log debug messages, too.")
def serve(config: Path, *, verbose: bool) -> None:
    """Run the service, in the foreground, until SIGTERM: pages for people, an HTTP API for programs.

    The section [server] of CONFIG sets the addresses; the default is http://127.0.0.1:8420. Several services
    may run on different machines: each answers every request. Hosts do not need the service.

    \b
    Example:
      zkdeployment serve /etc/zkdeployment/zkdeployment.cfg
    """
    log.configure(verbose=verbose)
    settings = load(config, host=False)
    with service_libraries():
        from zkdeployment.programs.server import build_service  # noqa: PLC0415  hosts have no libraries of the service
    with build_service(settings) as (service, control):
        obey_signals(control)
        service.run()
