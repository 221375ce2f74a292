"""``zkdeployment forget``: removes the records of hosts that were removed permanently."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.cli.shared.options import zookeeper_options
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from zkdeployment.model.servers import Servers


@click.command(name="forget")
@click.argument("hosts", metavar="HOST...", nargs=-1, required=True)
@zookeeper_options
def command(connection: Servers, hosts: tuple[str, ...]) -> None:
    """Forget hosts that were removed permanently, so that 'status' no longer shows them as absent.

    HOST is a host's id or name. A registered host cannot be forgotten (exit code 3). The locks of roles that a
    forgotten host holds are released. A forgotten host that returns registers like a new host.

    \b
    Example:
      zkdeployment forget app7.example.com
    """
    with open_operator(connection) as operator:
        for host in hosts:
            echo(f"forgot {operator.fleet.forget(host).identity}")
