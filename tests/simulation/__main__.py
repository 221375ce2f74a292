"""The command ``scripts/simulate``: simulates fleets by seeds, and shows what a failing seed did."""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from simulation.mutations import DEFECTS, MUTATIONS
from simulation.themes import THEMES
from simulation.world import Options, World
from support.arguments import count, positive_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simulation.world import Result

#: The lines of a failing seed's trace that are shown.
_SHOWN = 120

#: Hosts of a fleet whose many objects make the collection of garbage expensive.
_LARGE = 300

#: Seconds between two lines of progress.
_PROGRESS = 60.0


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code: 0 if all invariants held, else 1."""
    wanted = _parse(arguments)
    if wanted.hosts > _LARGE:
        gc.set_threshold(1_000_000, 20, 20)  # most objects live as long as their host
    if wanted.seed is not None:
        result = World(_options(wanted, wanted.seed), _say).run()
        _say(result.sentence)
        return 1 if result.violations else 0
    return _run_mutations(wanted) if wanted.mutations is not None else _run_many(wanted)


def _run_mutations(wanted: argparse.Namespace) -> int:
    """Show for each mutation the first seed that finds it; return 1 if one is not found."""
    missed = 0
    for name, mutation in {**MUTATIONS, **DEFECTS}.items():
        if wanted.mutations and name not in wanted.mutations:
            continue
        for seed in range(mutation.first, mutation.first + wanted.seeds):
            with mutation.change():
                result = World(replace(_options(wanted, seed), theme=mutation.theme)).run()
            if result.violations:
                _say(f"found: {name}: {result.sentence}")
                break
        else:
            missed += 1
            _say(f"missed: {name}: not in {wanted.seeds} seeds")
    return 1 if missed else 0


def _run_many(wanted: argparse.Namespace) -> int:
    begun, shown, done, scripts, virtual = time.monotonic(), time.monotonic(), 0, 0, 0.0
    for seed in _seeds(wanted):
        result = World(_options(wanted, seed)).run()
        if result.violations:
            _show_failure(wanted, result)
            return 1
        done, scripts, virtual = done + 1, scripts + result.scripts, virtual + result.virtual
        if time.monotonic() - shown > _PROGRESS:
            shown = time.monotonic()
            _say(f"{done} seeds up to {seed}: all invariants held")
    seconds = time.monotonic() - begun
    _say(f"{done} seeds, {virtual / 3600:.1f} hours, {scripts} scripts, in {seconds:.0f} s: all invariants held")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _seeds(wanted: argparse.Namespace) -> Iterator[int]:
    if wanted.hours is None:
        yield from range(wanted.first, wanted.first + wanted.seeds)
        return
    end = time.monotonic() + wanted.hours * 3600
    for seed in itertools.count(wanted.first):
        if time.monotonic() > end:
            return
        yield seed


def _show_failure(wanted: argparse.Namespace, result: Result) -> None:
    """Show the end of a failing seed's trace, and how to see all of it."""
    seed = result.options.seed
    trace: list[str] = []
    World(_options(wanted, seed), trace.append).run()
    _say("\n".join(trace[-_SHOWN:]))
    _say(result.sentence)
    size = f"--hosts {wanted.hosts} --services {result.options.services} --faults {wanted.faults:g}"
    theme = "" if wanted.theme is None else f" --theme {wanted.theme}"
    _say(f"the whole trace: scripts/simulate --seed {seed} {size}{theme}{' --calm' if wanted.calm else ''}")


def _options(wanted: argparse.Namespace, seed: int) -> Options:
    return Options(
        seed,
        hosts=wanted.hosts,
        services=wanted.services or max(4, wanted.hosts // 10),
        faults=0.0 if wanted.calm else wanted.faults,
        calm=wanted.calm,
        theme=wanted.theme,
    )


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
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
    parser.add_argument("--calm", action="store_true", help="one publication without faults")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is a part of a seed's outcome
        os.execve(
            sys.executable,
            [sys.executable, "-m", "simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    sys.exit(main(sys.argv[1:]))
