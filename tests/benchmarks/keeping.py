"""Keeping results: as JSON, as a table, as a plot, and in the README."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.results import HEADINGS, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_HERE = Path(__file__).parent / "results"
_README = Path(__file__).parents[2] / "README.rst"
#: What stands between these lines of the README is written here.
_BEGIN, _END = ".. speed: the table begins\n", ".. speed: the table ends\n"


def keep(
    name: str,
    found: Sequence[Result],
    draw: Callable[[Mapping[str, Sequence[Result]], Path], None],
    *,
    directory: Path = _HERE,
    readme: Path = _README,
) -> None:
    """Replace what was kept of a benchmark, and all that is made of it; ``draw`` makes the plot."""
    directory.mkdir(exist_ok=True)
    file = directory / "results.json"
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    kept[name] = {
        "machine": f"{os.cpu_count()} processors, Python {platform.python_version()}",
        "results": [asdict(result) for result in found],
    }
    file.write_text(json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    all_found = {one: [Result(**fields) for fields in part["results"]] for one, part in kept.items()}
    (directory / "table.txt").write_text(_table(all_found), encoding="utf-8")
    draw(all_found, directory / "speed.svg")
    before, rest = readme.read_text(encoding="utf-8").split(_BEGIN)
    after = rest.split(_END)[1]
    # Plain comparisons of costs are for whoever makes things faster: they are in the table of its own.
    told = {
        one: [result for result in results if result.met is not None or result.reference is None]
        for one, results in all_found.items()
    }
    readme.write_text(f"{before}{_BEGIN}\n{_table(told)}\n{_END}{after}", encoding="utf-8")


def _table(found: Mapping[str, Sequence[Result]]) -> str:
    """Return a table in reStructuredText."""
    rows = [result.words for results in found.values() for result in results]
    widths = [max(map(len, column)) for column in zip(HEADINGS, *rows, strict=True)]
    line = "  ".join("=" * width for width in widths)
    heading, *lines = (
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (HEADINGS, *rows)
    )
    return "\n".join([line, heading, line, *lines, line]) + "\n"
