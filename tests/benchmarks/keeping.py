"""Stores benchmark results as JSON, as a plot, and as tables, some of which the manual's pages include."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import scale_page
from benchmarks.results import HEADINGS, HIGHLIGHTS, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

RESULTS = Path(__file__).parent / "results"


def keep(
    name: str,
    measured: Sequence[Result],
    draw: Callable[[Mapping[str, Sequence[Result]], Path], None],
    *,
    directory: Path = RESULTS,
) -> None:
    """Replace the stored results of one benchmark; rewrite all tables, and the plot by calling ``draw``."""
    directory.mkdir(exist_ok=True)
    file = directory / "results.json"
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    kept[name] = {
        "machine": f"{os.cpu_count()} processors, Python {platform.python_version()}",
        "results": [asdict(result) for result in measured],
    }
    file.write_text(json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    results = load(directory)
    for file_name, text in files(results).items():
        (directory / file_name).write_text(text, encoding="utf-8")
    draw(results, directory / "speed.svg")


def files(results: Mapping[str, Sequence[Result]]) -> dict[str, str]:
    """Return the tables by file name: all results, and those that the pages on speed and scale include."""
    scale = {
        f"scale-{name.replace(' ', '-')}.txt": grid(*rows) for name, rows in scale_page.tables(results).items()
    }
    return {"table.txt": table(results), "highlights.txt": table(highlights(results)), **scale}


def load(directory: Path = RESULTS) -> dict[str, list[Result]]:
    """Return the stored results by benchmark name."""
    kept = json.loads((directory / "results.json").read_text(encoding="utf-8"))
    return {name: [Result(**fields) for fields in part["results"]] for name, part in kept.items()}


def highlights(by_benchmark: Mapping[str, Sequence[Result]]) -> dict[str, list[Result]]:
    """Return the results that the manual shows: the most important ones, and those that miss their aim."""
    return {
        name: [
            result
            for result in results
            if (result.work, result.size, result.against) in HIGHLIGHTS or result.met is False
        ]
        for name, results in by_benchmark.items()
    }


def table(by_benchmark: Mapping[str, Sequence[Result]]) -> str:
    """Return the results as a reStructuredText table."""
    return grid(HEADINGS, *(result.words for results in by_benchmark.values() for result in results))


def grid(*rows: Sequence[str]) -> str:
    """Return a reStructuredText table of these rows; the first one has the headings."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    line = "  ".join("=" * width for width in widths)
    heading, *lines = (
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
    return "\n".join([line, heading, line, *lines, line]) + "\n"
