"""Runs benchmarks, prints their tables and stores the results."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from benchmarks.keeping import keep
from benchmarks.plot import draw
from benchmarks.results import HEADINGS, SCALES, Result, Scale
from zkdeployment.base import log

if TYPE_CHECKING:
    import argparse

#: Columns for a table that goes to a file: more than any table needs.
_WIDE = 1000


def run(wanted: argparse.Namespace) -> None:
    """Run the benchmarks with these options."""
    log.configure()
    logging.getLogger().setLevel(logging.ERROR)
    much = replace(SCALES[wanted.scale], agents=tuple(wanted.agents)) if wanted.agents else SCALES[wanted.scale]
    for name in dict.fromkeys(wanted.names):
        result = measure(name, much)
        if wanted.scale == "full":
            keep(name, result, draw)


def measure(name: str, scale: Scale) -> list[Result]:
    """Run a benchmark, print its table and return its results."""
    table = Table(*HEADINGS, title=name)
    results: list[Result] = []
    for result in import_module(f"benchmarks.bench_{name}").measure(scale):
        results.append(result)
        table.add_row(*result.words)
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDE
    console.print(table)
    return results
