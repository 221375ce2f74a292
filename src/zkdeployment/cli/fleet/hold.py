"""``zkdeployment hold``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.cli.shared.operator_options import act, reason_option
from zkdeployment.cli.shared.options import zookeeper_options
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from zkdeployment.model.servers import Servers


@click.command(name="hold")
@reason_option(required=True)
@zookeeper_options
def command(connection: Servers, reason: str) -> None:
    """Hold all hosts until the next push: set the cluster version to false.

    Hosts finish the step they are in and start no other. The hold ends with 'zkdeployment resume', or when a
    running syncer publishes the next revision, which it does even if some hosts are behind. 'zkdeployment stop' is
    firm: nothing is published then. Exits with 3 while the fleet is stopped or a publication is under way.

    \b
    Example:
      zkdeployment hold --reason 'switch in rack 7 is being replaced'
    """
    with open_operator(connection) as operator:
        operator.cluster.hold(act("hold", reason))
    echo("held")
    echo("The next revision that is published ends the hold, or 'zkdeployment resume'.", err=True)
