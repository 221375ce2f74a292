"""Searches the runs of a small fleet, from those with the fewest deviations on, and replays one that fails.

A deviation is a fault, an act of the operator at another time, or another order of two requests that depend on
each other. Runs that differ only in the order of independent requests are one run: a run leads to another order
only where two of its requests race. Each run is executed from its begin, by its choices.
"""

from __future__ import annotations

import heapq
import itertools
import json
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from histories.checker import judge
from simulation.chosen_schedule import ChoiceError
from simulation.races import Alternative, alternatives, order
from simulation.scenarios import SCENARIOS
from simulation.small_worlds import SmallWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from simulation.scenarios import Scenario

#: The processes that execute runs.
_PROCESSES = 2


@dataclass(frozen=True)
class Run:
    """What became of one run: its choices, its violations, and the runs to try because of it."""

    choices: tuple[str, ...]
    violations: tuple[str, ...]
    found: tuple[Alternative, ...] = ()
    is_possible: bool = True


@dataclass
class Report:
    """The outcome of a search. ``runs`` counts them by the number of their deviations; ``left`` were not tried.

    ``impossible`` runs began with a request that its client sends only because of what the run left out.
    """

    runs: Counter[int] = field(default_factory=Counter)
    impossible: int = 0
    left: int = 0
    seconds: float = 0.0
    failed: Run | None = None

    @property
    def sentence(self) -> str:
        """The outcome in one line."""
        count = " + ".join(str(self.runs[number]) for number in sorted(self.runs))
        rest = f", {self.left} left" if self.left else ""
        outcome = self.failed.violations[0] if self.failed else "all invariants held"
        return f"{count} runs{rest}, in {self.seconds:.0f} s: {outcome}"


def execute(
    scenario: Scenario,
    begin: Sequence[str],
    kinds: frozenset[str] = frozenset(),
    watch: Callable[[str], None] | None = None,
) -> Run:
    """Execute the run that begins with these choices; find the runs with one more deviation of the ``kinds``."""
    history: list[dict[str, Any]] = []
    world = SmallWorld(scenario, begin, watch, history.append)
    try:
        result = world.run()
    except ChoiceError:
        return Run((), (), is_possible=False)
    choices = tuple(step.choice for step in world.steps)
    violations = (*result.violations, *judge(history))
    if violations or not kinds:
        return Run(choices, violations)
    order(world.steps)
    return Run(choices, (), tuple(alternatives(world.steps, max(0, len(begin) - 1), kinds)))


class _Frontier:
    """The runs to try, those with the fewest deviations first; each only once."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, tuple[str, ...], Alternative | None, Counter[str]]] = []
        self._seen: set[str] = set()
        self._number = itertools.count()
        heapq.heappush(self._entries, (0, next(self._number), (), None, Counter()))

    def __len__(self) -> int:
        return len(self._entries)

    def pop(self) -> tuple[Sequence[str], Counter[str]]:
        """Return the choices with which the next run begins, and its deviations by their kinds."""
        _, _, choices, alternative, used = heapq.heappop(self._entries)
        return choices if alternative is None else alternative.choices(choices), used

    def add(self, run: Run, used: Counter[str]) -> None:
        """Add the runs that a run with these deviations leads to."""
        for found in run.found:
            if found.key not in self._seen:
                self._seen.add(found.key)
                using = used + Counter([found.kind])
                heapq.heappush(self._entries, (using.total(), next(self._number), run.choices, found, using))


def search(scenario: Scenario, seconds: float) -> Report:
    """Execute the runs of a scenario until one fails, all within its bounds are done, or the time is over."""
    report, begun, frontier = Report(), time.monotonic(), _Frontier()
    pending: dict[Future[Run], Counter[str]] = {}
    with ProcessPoolExecutor(_PROCESSES, mp_context=get_context("fork")) as pool:
        while (frontier or pending) and report.failed is None and time.monotonic() < begun + seconds:
            while frontier and len(pending) < 2 * _PROCESSES:
                begin, used = frontier.pop()
                pending[pool.submit(execute, scenario, begin, scenario.bounds.kinds(used))] = used
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                used, run = pending.pop(future), future.result()
                report.impossible += not run.is_possible
                report.runs[used.total()] += run.is_possible
                report.failed = run if run.violations else report.failed
                frontier.add(run, used)
        report.left = len(frontier) + len(pending)
        pool.shutdown(cancel_futures=True)
    report.seconds = time.monotonic() - begun
    return report


def save(path: Path, name: str, mutation: str | None, run: Run) -> None:
    """Write a run of a scenario, under a mutation if one is named, to a file that ``load`` reads."""
    content = {"scenario": name, "mutation": mutation, "choices": run.choices}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> tuple[Scenario, str | None, list[str]]:
    """Return the scenario, the mutation and the choices of a run that ``save`` wrote."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return SCENARIOS[content["scenario"]], content["mutation"], content["choices"]
