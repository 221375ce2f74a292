"""``zkdeployment hold``: holds the fleet until the next publication."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.cli.shared.operator_options import new_act, reason_option
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

    Hosts finish their present step and start no other step. The hold ends with 'zkdeployment resume', or when a
    running syncer publishes the next revision, even if some hosts are behind. To prevent publications as well, use
    'zkdeployment stop'. The exit code is 3 while the fleet is stopped or a publication is under way.

    \b
    Example:
      zkdeployment hold --reason 'switch in rack 7 is being replaced'
    """
    with open_operator(connection) as operator:
        operator.cluster.hold(new_act("hold", reason))
    echo("held")
    echo("The hold ends with the next publication, or with 'zkdeployment resume'.", err=True)
