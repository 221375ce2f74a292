"""``zkdeployment checks simulate``: the workflow of one check instance, without a fleet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich import box
from rich.table import Table

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.checks.rules.simulation import SimulatedStep, play, read_simulation
from zkdeployment.cli.options import emit, output_option
from zkdeployment.cli.tables import console_for, styled

if TYPE_CHECKING:
    from collections.abc import Iterable


_COLOURS = {"ok": "green", "not found": "yellow", "conflict": "yellow"}


@click.command(name="simulate")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@output_option
def command(*, file: Path, output: str) -> None:
    """Play events on one check instance, without a fleet and without ZooKeeper.

    FILE is a JSON or YAML file with the start of the instance and the events. Each step of the output has the
    answer to its event and the instance afterwards.

    \b
    Example:
      zkdeployment checks simulate events.json
      zkdeployment checks simulate events.yaml -o json
    """
    steps = list(play(read_simulation(str(file), _read(file))))
    if output == "table":
        console_for(stderr=False).print(_render(steps))
    else:
        emit({"steps": [step.to_json() for step in steps]}, output)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror}") from error


def _render(steps: Iterable[SimulatedStep]) -> Table:
    """Return a row for each step; the current version is marked."""
    table = Table("EVENT", "ANSWER", "REPLY", "POKED", "UPDATE", "DELETED", "VERSIONS", box=box.SIMPLE_HEAD)
    for step in steps:
        instance = step.instance
        versions = (
            [
                f"{found.version}{'*' if found.version == instance.current else ''} {found.state.value}"
                for found in instance.configurations
            ]
            if instance is not None
            else []
        )
        table.add_row(
            step.event,
            styled(step.answer, style=_COLOURS[step.answer]),
            _reply(step),
            _mark(step.poked),
            _mark(instance is not None and instance.update_available),
            _mark(instance is not None and instance.deleted),
            ", ".join(versions) or "-",
        )
    table.caption = "* the current version"
    return table


def _reply(step: SimulatedStep) -> str:
    if isinstance(step.reply, dict):
        return str(step.reply["task"])
    return "-" if step.reply is None else "listed" if step.reply else "not listed"


def _mark(value: bool) -> str:
    return "yes" if value else "-"
