"""``zkdeployment stop``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.cli.shared.operator_options import act, reason_option
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

    Hosts finish the step they are in and start no other; the syncer publishes nothing. Only 'zkdeployment resume'
    and 'sync --force' end that. Who stopped it, when and why is shown by status, why and the monitor until then.
    For a fleet that is stopped already, your reason is added.

    \b
    Example:
      zkdeployment stop --reason 'web 1.3 loses sessions; do not roll on'
    """
    with open_operator(connection) as operator:
        operator.cluster.stop(act("stop", reason))
    echo("stopped")
    echo("Hosts finish the step they are in; 'zkdeployment resume' ends the stop.", err=True)
