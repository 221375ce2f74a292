"""``zkdeployment checks list`` and ``show``: the published check configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.checks.overview import InstanceFilter, state_counts
from zkdeployment.checks.views import check_errors, check_to_json, configurations_to_json, instances_of
from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.options import emit, output_option, zookeeper_options
from zkdeployment.cli.shared.responsive_table import ResponsiveTable
from zkdeployment.cli.shared.terminal import echo, echo_lines
from zkdeployment.cli.shared.yaml_output import yaml_text
from zkdeployment.documents.checks.kinds import CHECK, SYSTEM
from zkdeployment.documents.checks.on_call import ON_CALL
from zkdeployment.wiring.checks import open_checks
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from rich.text import Text

    from zkdeployment.documents.checks.values import CheckConfiguration
    from zkdeployment.model.servers import Servers


@click.command(name="list")
@output_option
@zookeeper_options
def list_checks(connection: Servers, output: str) -> None:
    """List the published check configurations; with -o json also the monitoring systems and on-call duties.

    \b
    Example:
      zkdeployment checks list
      zkdeployment checks list -o json
    """
    with open_operator(connection) as operator:
        documents = operator.fleet.documents()
    checks, duties = documents.of(CHECK).values(), documents.of(ON_CALL).values()
    if output != "table":
        emit(configurations_to_json(checks, documents.of(SYSTEM).values(), duties), output, schema="checks")
    elif checks:
        rows = (_cells(found) for found in sorted(checks, key=lambda found: found.name))
        headings = ("NAME", "OBJECT", "MONITORING", "COMMAND", "INTERVAL")
        table = ResponsiveTable(headings, rows, whole=("NAME", "OBJECT"), numbers=("INTERVAL",))
        console_for(stderr=False).print(table, soft_wrap=True)
    else:
        echo("no check is published; create one with 'zkdeployment checks create FILE'", err=True)


@click.command(name="show")
@click.argument("name")
@output_option
@zookeeper_options
def show(connection: Servers, name: str, output: str) -> None:
    """Show a published check configuration, how many instances are in which state, and its errors.

    An error is the reason for which instances have no details, or cannot be written: these stay unchanged, and
    new ones are not made.
    The exit code is 3 if no check NAME is published.

    \b
    Example:
      zkdeployment checks show front-http
      zkdeployment checks show front-http -o json
    """
    with open_checks(connection) as checks:
        document = checks.document(name)
        wanted = instances_of(checks.sources.read().basis, name)
        states = state_counts(checks.select(InstanceFilter(check=name)))
        unwritten = checks.instances.unwritten()
    if output != "table":
        emit(check_to_json(document, wanted, states, unwritten), output, schema="check")
        return
    echo_lines(yaml_text(dict(document)).rstrip("\n"))
    echo("")
    counts = ", ".join(f"{count} {state}" for state, count in states.items())
    echo(f"instances: {len(wanted)} wanted; {counts or 'none made yet'}")
    for error in check_errors(wanted, unwritten):
        echo(f"error: {error.path}: {error.message} (instances: {error.instances})")


def _cells(found: CheckConfiguration) -> tuple[Text | str, ...]:
    return found.name, styled(found.path or "/"), found.monitoring, found.command, f"{found.interval} s"
