"""The command line of ``scripts/chaos``, which needs the standard library alone to explain itself."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from support.arguments import count, positive_number

if TYPE_CHECKING:
    from collections.abc import Sequence


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/chaos",
        description="Bring faults to a fleet of real programs, and check from outside what must always hold.",
        epilog="A seed draws the same plans each time; what the fleet does meanwhile is up to the machine.",
    )
    parser.add_argument(
        "--minutes", type=positive_number, default=5.0, help="how long to bring faults (default: %(default)g)"
    )
    parser.add_argument("--seed", type=int, help="the seed of the plans (default: a new one, which is printed)")
    parser.add_argument("--hosts", type=count, default=5, help="hosts of the fleet (default: %(default)s)")
    parser.add_argument(
        "--round",
        type=positive_number,
        default=45.0,
        help="seconds of faults before the fleet has to converge (%(default)g)",
    )
    parser.add_argument("--first", type=count, default=1, help="the number of the first round (%(default)s)")
    parser.add_argument("--plan", action="store_true", help="print the plan of the first round, and end")
    parser.add_argument("--verbose", action="store_true", help="print the whole trace")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    options = _parse(sys.argv[1:])
    from chaos.command import run

    sys.exit(run(options))
