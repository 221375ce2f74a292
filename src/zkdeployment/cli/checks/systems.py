"""``zkdeployment checks drift``, ``abandon`` and ``allow-removal``: checks that differ from what is deployed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from zkdeployment.checks.overview import host_name, overview_to_json
from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.operator_options import new_act, reason_option
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

    Such results are dropped. Differences that were not reported for an hour are left out.

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


@click.command(name="abandon")
@click.option("--system", metavar="NAME", required=True, help="The monitoring system that is gone.")
@reason_option(required=True)
@output_option
@zookeeper_options
def abandon(*, connection: Servers, system: str, reason: str, output: str) -> None:
    """End the checks of a monitoring system that is gone, and that cannot remove them any more.

    The check instances become deprovisioned, so that their successors on other monitoring systems start. The exit
    code is 3 while published checks name the system, or if it has no instances.

    \b
    Example:
      zkdeployment checks abandon --system nagios1 --reason 'the machine was scrapped'
    """
    act = new_act(f"checks abandon --system {system}", reason)
    with open_checks(connection) as checks:
        ended = checks.abandon(system, act)
    if output != "table":
        emit({"instances": [overview_to_json(found, None) for found in ended]}, output, schema="check-instances")
    else:
        echo(f"abandoned {system}; ended check instances: {len(ended)}")


@click.command(name="allow-removal")
@click.option("--system", metavar="NAME", required=True, help="The monitoring system.")
@reason_option(required=True)
@output_option
@zookeeper_options
def allow_removal(*, connection: Servers, system: str, reason: str, output: str) -> None:
    """Let the bridge of a monitoring system remove many checks that the service does not know, for an hour.

    A bridge refuses to remove more than 30 % of its checks unless the service asks for it.

    \b
    Example:
      zkdeployment checks allow-removal --system nagios1 --reason 'these files are from an old backup'
    """
    act = new_act(f"checks allow-removal --system {system}", reason)
    with open_checks(connection) as checks:
        until = checks.allow_removal(system, act)
    if output != "table":
        emit({"monitoring": system, "until": until}, output, schema="allowed-removal")
    else:
        echo(f"{system} may remove unknown checks within the next hour")


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
