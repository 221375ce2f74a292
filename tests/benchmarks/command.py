"""The command line of the benchmarks: selects benchmarks and scale, prints and stores the results."""

from __future__ import annotations

import logging
from dataclasses import replace
from importlib import import_module

import click
from rich.console import Console
from rich.table import Table

from benchmarks.keeping import keep
from benchmarks.plot import draw
from benchmarks.results import HEADINGS, SCALES, Result, Scale
from zkdeployment import log

NAMES = (
    "parse",
    "publish",
    "signing",
    "watches",
    "convergence",
    "rerun",
    "agent",
    "start",
    "memory",
    "rollout",
    "locks",
    "packages",
    "repositories",
    "service",
)


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@click.option("--full", "scale", flag_value="full", default="full", help="All sizes (the default).")
@click.option("--quick", "scale", flag_value="quick", help="One small size, few rounds.")
@click.option("--tiny", "scale", flag_value="tiny", help="Only to see that they run.")
@click.option("--agents", multiple=True, type=int, help="Let so many agents converge (may be repeated).")
def main(names: tuple[str, ...], scale: str, agents: tuple[int, ...]) -> None:
    """Run benchmarks (default: all) and show what they find.

    The results of full sizes are kept in tests/benchmarks/results, README.rst and etc/manual/reference/speed.rst.

    \b
    Example:
      scripts/benchmark --quick publish watches
    """
    log.configure()
    logging.getLogger().setLevel(logging.ERROR)
    much = replace(SCALES[scale], agents=agents) if agents else SCALES[scale]
    for name in dict.fromkeys(names or NAMES):
        result = run(name, much)
        if scale == "full":
            keep(name, result, draw)


def run(name: str, scale: Scale) -> list[Result]:
    """Run a benchmark, print its table and return its results."""
    table = Table(*HEADINGS, title=name)
    results: list[Result] = []
    for result in import_module(f"benchmarks.bench_{name}").measure(scale):
        results.append(result)
        table.add_row(*result.words)
    Console().print(table)
    return results
