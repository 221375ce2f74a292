"""``zkdeployment filter``: runs a filter of the instances of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment import log
from zkdeployment.cli.shared.interruption import obey_signals
from zkdeployment.cli.shared.majority_option import majority_option
from zkdeployment.cli.shared.options import zookeeper_options
from zkdeployment.wiring.provider_filter import build_filter

if TYPE_CHECKING:
    from fractions import Fraction

    from zkdeployment.model.servers import Servers


@click.command(name="filter")
@click.argument("source", metavar="INPUT")
@click.argument("output", metavar="OUTPUT")
@majority_option
@click.option("-v", "--verbose", is_flag=True, help="Log debug messages, too.")
@zookeeper_options
def command(connection: Servers, source: str, output: str, majority: Fraction, *, verbose: bool) -> None:
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
    log.configure(verbose=verbose)
    with build_filter(connection, source, output, majority) as (provider_filter, control):
        obey_signals(control)
        provider_filter.run()
