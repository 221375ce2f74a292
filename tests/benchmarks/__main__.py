"""The command line of ``scripts/benchmark``, which needs the standard library alone to explain itself."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from support.arguments import count

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = tuple(sorted(file.stem.removeprefix("bench_") for file in Path(__file__).parent.glob("bench_*.py")))


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/benchmark",
        description="Run benchmarks and show what they find. The results of full sizes are kept in"
        " tests/benchmarks/results, and in the tables of the manual's pages on speed and scale.",
        epilog="Example: scripts/benchmark --quick publish watches",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)} (default: all)")
    scales = parser.add_mutually_exclusive_group()
    for scale, text in (
        ("full", "all sizes (the default)"),
        ("quick", "one small size, few rounds"),
        ("tiny", "only to see that they run"),
    ):
        scales.add_argument(
            f"--{scale}", dest="scale", action="store_const", const=scale, default="full", help=text
        )
    parser.add_argument(
        "--agents", action="append", type=count, help="let so many agents converge (may be repeated)"
    )
    wanted = parser.parse_args(arguments)
    if unknown := [name for name in wanted.names if name not in NAMES]:
        parser.error(f"expected one of {', '.join(NAMES)}, found {unknown[0]!r}")
    wanted.names = wanted.names or NAMES
    return wanted


if __name__ == "__main__":
    options = _parse(sys.argv[1:])
    from benchmarks.command import run

    run(options)
