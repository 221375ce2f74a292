"""The command: which benchmarks, how much of them, and where the results go."""

import logging
from importlib import import_module

import click
from rich.console import Console
from rich.table import Table

from benchmarks.results import HEADINGS, SCALES
from zkdeployment import log

NAMES = ("parse", "publish", "watches", "convergence", "memory")


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@click.option("--quick", "scale", flag_value="quick", help="Smaller sizes, fewer rounds.")
@click.option("--tiny", "scale", flag_value="tiny", help="Only to see that they run.")
def main(names, scale):
    """Run benchmarks (default: all)."""
    log.configure()
    logging.getLogger().setLevel(logging.ERROR)
    for name in names or NAMES:
        table = Table(*HEADINGS, title=name)
        for result in import_module(f"benchmarks.bench_{name}").measure(SCALES[scale or "full"]):
            table.add_row(*result.words)
        Console().print(table)
