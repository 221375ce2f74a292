"""The verbs that run daemons: ``coordinate``, ``filter``, ``nagios``, ``pools`` and ``serve``.

Each verb imports the composition of its own daemon only.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.base import log
from zkdeployment.base.daemon.control import obey_signals
from zkdeployment.base.machine.program import pools_libraries, service_libraries
from zkdeployment.cli.options import zookeeper_options
from zkdeployment.config.settings import load
from zkdeployment.providers.verbs import majority_option

if TYPE_CHECKING:
    from fractions import Fraction

    from zkdeployment.zookeeper.servers import Servers


@click.command(name="coordinate")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("-v", "--verbose", is_flag=True, help="Log debug messages, too.")
def coordinate(config: Path, *, verbose: bool) -> None:
    """Lead rollouts by the published strategy, in the foreground, until SIGTERM.

    Several coordinators may run on different hosts: one leads, and another takes over when the leader ends.
    The leader grants hosts the phases prepare and deploy, group by group, judges the groups, and stops the fleet
    when a critical group failed. Its whole state is in ZooKeeper. Without a strategy a coordinator does nothing.

    \b
    Example:
      zkdeployment coordinate /etc/zkdeployment/zkdeployment.cfg
    """
    from zkdeployment.programs.coordinator import build_coordinator  # noqa: PLC0415  see above

    log.configure(verbose=verbose)
    with build_coordinator(load(config, host=False)) as (coordinator, control):
        obey_signals(control)
        coordinator.run()


@click.command(name="filter")
@click.argument("source", metavar="INPUT")
@click.argument("output", metavar="OUTPUT")
@majority_option
@click.option("-v", "--verbose", is_flag=True, help="Log debug messages, too.")
@zookeeper_options
def filter_instances(connection: Servers, source: str, output: str, majority: Fraction, *, verbose: bool) -> None:
    """Keep the instances of the version in service at INPUT as a list at OUTPUT, in the foreground, until SIGTERM.

    The nodes below OUTPUT are equal to the instances at INPUT of one version: the version used last, until another
    version has the majority of the instances. A switch is one transaction. OUTPUT records the version in service,
    so that a restart changes nothing. Several filters of the same paths may run on different hosts: one leads, and
    another takes over when the leader ends.

    OUTPUT has to be below a top-level node that the tree's repository does not manage; anything else is refused.

    \b
    Example:
      zkdeployment filter /shop/web/providers /in-service/web
    """
    from zkdeployment.programs.filter import build_filter  # noqa: PLC0415  see above

    log.configure(verbose=verbose)
    with build_filter(connection, source, output, majority) as (provider_filter, control):
        obey_signals(control)
        provider_filter.run()


@click.command(name="nagios")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("-v", "--verbose", is_flag=True, help="Log debug messages, too.")
def nagios(config: Path, *, verbose: bool) -> None:
    """Run the bridge of a Nagios on this machine, in the foreground, until SIGTERM.

    The bridge fetches checks from the service, writes them as definitions of hosts and services, reloads Nagios,
    and reports the results of the checks. The section [nagios] of CONFIG names the service and the files of
    Nagios.

    \b
    Example:
      zkdeployment nagios /etc/zkdeployment/zkdeployment.cfg
    """
    from zkdeployment.programs.nagios import build_bridge  # noqa: PLC0415  see above

    log.configure(verbose=verbose)
    settings = load(config, host=False)
    with build_bridge(settings) as (bridge, control):
        obey_signals(control)
        bridge.run()


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
        from zkdeployment.programs.pools import build_pool_worker  # noqa: PLC0415  hosts have no libraries of the worker
    with build_pool_worker(settings) as (worker, control):
        obey_signals(control)
        worker.run()


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
