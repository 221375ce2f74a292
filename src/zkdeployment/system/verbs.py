"""``zkdeployment system``: shows the operating systems of hosts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
from rich.console import Group

from zkdeployment.cli.options import emit, output_option, zookeeper_options
from zkdeployment.cli.tables import ResponsiveTable, console_for, styled
from zkdeployment.fleet.operator import open_operator
from zkdeployment.system.opening import read_systems
from zkdeployment.system.views import HEADINGS

if TYPE_CHECKING:
    from zkdeployment.zookeeper.servers import Servers


@click.command(name="system")
@output_option
@zookeeper_options
def system(connection: Servers, output: str) -> None:
    """Show the operating system of each host that has a system node: its release, the wanted one, and its kernel.

    A host whose packages ask for a reboot is shown with these packages, and with the time for which the reboot has
    been due. The last two columns have the number of security advisories of its release that the host lacked after
    its last update, and the packages that updates leave or treat differently: those that are excluded by the node,
    those that are held by the configuration of dnf, and the streams of modules that are installed.

    \b
    Example:
      zkdeployment system
      zkdeployment system -o json
    """
    with open_operator(connection) as operator:
        status = read_systems(operator.fleet)
    if output != "table":
        emit(status.to_json(), output, schema="system")
        return
    now = time.time()
    rows = [row.cells(now) for row in status.hosts]
    table = [ResponsiveTable(HEADINGS, rows, whole=("HOST",))] if rows else []
    console_for(stderr=False).print(Group(*table, styled(status.summary, "bold")), soft_wrap=True)
