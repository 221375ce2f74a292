"""``zkdeployment checks list``: the published check configurations and monitoring systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.checks.views import configurations_to_json
from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.options import emit, output_option, zookeeper_options
from zkdeployment.cli.shared.responsive_table import ResponsiveTable
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.documents.checks.kinds import CHECK, SYSTEM
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from rich.text import Text

    from zkdeployment.documents.checks.values import CheckConfiguration
    from zkdeployment.model.servers import Servers


@click.command(name="list")
@output_option
@zookeeper_options
def command(connection: Servers, output: str) -> None:
    """List the published check configurations; with -o json also the monitoring systems.

    \b
    Example:
      zkdeployment checks list
      zkdeployment checks list -o json
    """
    with open_operator(connection) as operator:
        documents = operator.fleet.documents()
    checks = documents.of(CHECK).values()
    if output != "table":
        emit(configurations_to_json(checks, documents.of(SYSTEM).values()), output, schema="checks")
    elif checks:
        rows = (_cells(found) for found in sorted(checks, key=lambda found: found.name))
        headings = ("NAME", "OBJECT", "MONITORING", "COMMAND", "INTERVAL")
        table = ResponsiveTable(headings, rows, whole=("NAME", "OBJECT"), numbers=("INTERVAL",))
        console_for(stderr=False).print(table, soft_wrap=True)
    else:
        echo("no check is published; create one with 'zkdeployment checks create FILE'", err=True)


def _cells(found: CheckConfiguration) -> tuple[Text | str, ...]:
    return found.name, styled(found.path or "/"), found.monitoring, found.command, f"{found.interval} s"
