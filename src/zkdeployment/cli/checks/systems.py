"""``zkdeployment checks drift``: monitoring systems whose checks differ from what is deployed there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from zkdeployment.checks.overview import host_name
from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.options import emit, output_option, zookeeper_options
from zkdeployment.cli.shared.responsive_table import ResponsiveTable
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.fleet.ages import ago
from zkdeployment.wiring.checks import open_checks

if TYPE_CHECKING:
    from rich.text import Text

    from zkdeployment.checks.systems.drift import CheckDrift
    from zkdeployment.model.servers import Servers


@click.command(name="drift")
@output_option
@zookeeper_options
def drift(connection: Servers, output: str) -> None:
    """Show checks that monitoring systems run in other configurations than the deployed ones.

    Such results are dropped. What was not reported for an hour is left out.

    \b
    Example:
      zkdeployment checks drift
      zkdeployment checks drift -o json
    """
    now = time.time()
    with open_checks(connection) as checks:
        found = checks.drift(now)
    if output != "table":
        emit({"drift": [entry.to_json() for entry in found]}, output, schema="check-drift")
    elif found:
        headings = ("ID", "MONITORING", "CHECK", "HOST", "RUNS", "EXPECTED", "SINCE")
        rows = (_cells(entry, now) for entry in found)
        console_for(stderr=False).print(ResponsiveTable(headings, rows, whole=("ID",)), soft_wrap=True)
    else:
        echo("no drift: monitoring systems report only what is deployed there", err=True)


def _cells(entry: CheckDrift, now: float) -> tuple[Text | str, ...]:
    instance = entry.instance
    return (
        entry.id,
        styled(entry.system),
        styled("-" if instance is None else f"{instance.key.check} of {instance.key.path} {instance.key.number}"),
        styled("-" if instance is None else host_name(instance)),
        styled(entry.reported or "-"),
        styled(entry.expected or "nothing"),
        ago(entry.since, now),
    )
