"""Simulates fleets by seeds, and shows the events of a failing seed."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import logging
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from simulation.checks import PROGRAM_DEFECT
from simulation.mutations import DEFECTS, MUTATIONS, SEARCHED
from simulation.promotions import PromotionOptions, PromotionWorld, run_promotions
from simulation.scenarios import SCENARIOS
from simulation.search import execute, load, save, search
from simulation.world import Options, World
from zkdeployment.base import log

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from simulation.world import Result

#: The lines of a failing seed's trace that are shown.
_SHOWN = 120

#: Hosts of a fleet whose many objects make the collection of garbage expensive.
_LARGE = 300

#: Seconds between two lines of progress.
_PROGRESS = 60.0


def run(wanted: argparse.Namespace) -> int:
    """Run the command with these options and return its exit code: 0 if all invariants held, else 1."""
    if wanted.fleets is not None:
        return _run_promotions(wanted)
    if wanted.replay is not None:
        return _run_again(wanted)
    if wanted.search is not None:
        return _run_searches(wanted)
    if wanted.hosts > _LARGE:
        gc.set_threshold(1_000_000, 20, 20)  # most objects live as long as their host
    if wanted.seed is not None:
        history: list[dict[str, Any]] = []
        result = World(_options(wanted, wanted.seed), _say, history.append).run()
        if wanted.history is not None:
            wanted.history.write_text("".join(f"{json.dumps(event)}\n" for event in history), encoding="utf-8")
        _say(result.sentence)
        return 1 if result.violations else 0
    return _run_mutations(wanted) if wanted.mutations is not None else _run_many(wanted)


def _run_promotions(wanted: argparse.Namespace) -> int:
    """Simulate a promoter with many fleets; a single seed shows its whole trace."""
    log.configure()
    logging.getLogger().setLevel(logging.CRITICAL)  # failed groups are a part of the simulation
    options = PromotionOptions(wanted.first, wanted.fleets, max(wanted.hosts, wanted.fleets), wanted.faults)
    if wanted.seed is None:
        return run_promotions(options, _seeds(wanted), _say)
    result = PromotionWorld(replace(options, seed=wanted.seed), _say).run()
    _say(result.sentence)
    return 1 if result.violations else 0


def _run_searches(wanted: argparse.Namespace) -> int:
    """Search a scenario, or once for each named mutation; return 1 if an invariant does not hold."""
    scenario, outcome = SCENARIOS[wanted.search], 0
    for name in wanted.mutations or [None]:
        with _mutated(name):
            report = search(scenario, wanted.minutes * 60)
            _say(f"{wanted.search}{f' with {name}' if name else ''}: {report.sentence}")
            if report.failed is not None:
                outcome = 1
                wanted.save.parent.mkdir(parents=True, exist_ok=True)
                save(wanted.save, wanted.search, name, report.failed)
                _say(f"the whole story: scripts/simulate --replay {wanted.save}")
    return outcome


def _run_again(wanted: argparse.Namespace) -> int:
    """Execute a saved run again, and show what happens in it; return 2 for a file that has no run."""
    try:
        scenario, mutation, choices = load(wanted.replay)
    except (OSError, ValueError, LookupError, TypeError) as error:
        _say(f"cannot replay {wanted.replay}: expected a file that --search saved, found: {error}")
        return 2
    with _mutated(mutation):
        run = execute(scenario, choices, watch=_say)
    _say(run.violations[0] if run.violations else "all invariants held")
    return 1 if run.violations else 0


def _mutated(name: str | None) -> contextlib.AbstractContextManager[Any]:
    """Return a block in which a mutation changes the code under test."""
    return contextlib.nullcontext() if name is None else {**MUTATIONS, **DEFECTS, **SEARCHED}[name].change()


def _run_mutations(wanted: argparse.Namespace) -> int:
    """Show for each mutation the first seed that finds it; return 1 if one is not found.

    A mutation is broken if it makes the program fail by itself, or if the seed fails without it: the failure does
    not show what the mechanism prevents.
    """
    missed = 0
    for name, mutation in {**MUTATIONS, **DEFECTS}.items():
        if wanted.mutations and name not in wanted.mutations:
            continue
        for seed in range(mutation.first, mutation.first + wanted.seeds):
            with mutation.change():
                result = World(replace(_options(wanted, seed), theme=mutation.theme)).run()
            if result.violations:
                is_broken = result.violations[0].startswith(PROGRAM_DEFECT)
                before = None if is_broken else World(replace(_options(wanted, seed), theme=mutation.theme)).run()
                if before is not None and before.violations:
                    is_broken, result = True, before
                missed += is_broken
                _say(f"{'broken' if is_broken else 'found'}: {name}: {result.sentence}")
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
