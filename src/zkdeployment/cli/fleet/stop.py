"""``zkdeployment stop``: stops the fleet until it is resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.cli.shared.operator_options import new_act, reason_option
from zkdeployment.cli.shared.options import zookeeper_options
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from zkdeployment.model.servers import Servers


@click.command(name="stop")
@reason_option(required=True)
@zookeeper_options
def command(connection: Servers, reason: str) -> None:
    """Stop the whole fleet: set the cluster version to null.

    Hosts finish their present step and start no other step; the syncer publishes nothing. Only 'zkdeployment
    resume' and 'sync --force' end the stop. Until then, status, why and the monitor show the operator, the time
    and the reason. If the fleet is stopped already, the reason is added. Sessions of host pools go on and expire,
    but hosts of the fleet that are lent change no role.

    \b
    Example:
      zkdeployment stop --reason 'web 1.3 loses sessions; do not roll on'
    """
    with open_operator(connection) as operator:
        operator.cluster.stop(new_act("stop", reason))
    echo("stopped")
    echo("Hosts finish their present step; 'zkdeployment resume' ends the stop.", err=True)
