"""The command line of ``scripts/simulate``, which needs the standard library alone to explain itself."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from simulation.scenarios import SCENARIOS
from simulation.themes import THEMES
from support.arguments import count, positive_number

if TYPE_CHECKING:
    from collections.abc import Sequence


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line; exit with a message if they are invalid."""
    parser = argparse.ArgumentParser(
        prog="scripts/simulate",
        description="Simulate fleets with faults, one for each seed, and check the invariants of a deployment.",
        epilog="A seed has the same outcome in each run of the same program with the same options.",
    )
    parser.add_argument("--seed", type=int, help="simulate this seed only, and show its whole trace")
    parser.add_argument(
        "--seeds", type=count, default=100, help="how many seeds to simulate (default: %(default)s)"
    )
    parser.add_argument("--first", type=count, default=1, help="the first seed (default: %(default)s)")
    parser.add_argument("--hours", type=positive_number, help="simulate one seed after the other for this time")
    parser.add_argument("--hosts", type=count, default=5, help="hosts of each fleet (default: %(default)s)")
    parser.add_argument(
        "--fleets", type=count, help="simulate a promoter with so many fleets, which have --hosts together"
    )
    parser.add_argument(
        "--services", type=count, help="services of each fleet (default: one for ten hosts, at least 4)"
    )
    parser.add_argument(
        "--faults",
        type=positive_number,
        default=600.0,
        help="simulated seconds with faults (default: %(default)s)",
    )
    parser.add_argument(
        "--theme", choices=list(THEMES), help="what the seeds are about (default: chosen by the seed)"
    )
    parser.add_argument(
        "--mutations",
        nargs="*",
        metavar="NAME",
        help="take out each mechanism of safety, put back each old defect, and show the first seed that finds it",
    )
    parser.add_argument(
        "--search", choices=list(SCENARIOS), help="try all runs of a small fleet instead of random ones"
    )
    parser.add_argument(
        "--minutes",
        type=positive_number,
        default=10.0,
        help="with --search: end after this time (default: %(default)s)",
    )
    parser.add_argument(
        "--save",
        type=Path,
        metavar="FILE",
        default=Path("build/counterexample.json"),
        help="with --search: where a run that fails is saved (default: %(default)s)",
    )
    parser.add_argument("--replay", type=Path, metavar="FILE", help="show a saved run")
    parser.add_argument("--history", type=Path, metavar="FILE", help="with --seed: write the history to this file")
    parser.add_argument("--calm", action="store_true", help="one publication without faults")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    options = parse(sys.argv[1:])
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is a part of a seed's outcome
        os.execve(
            sys.executable,
            [sys.executable, "-m", "simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    from simulation.command import run

    sys.exit(run(options))
