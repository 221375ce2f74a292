"""Measures the slowest decision of a promoter with 100 fleets, and the largest node of its records.

The promoter, its rules and the encoding are the program's own, the fleets are simulated. The seconds are those of
the processor, for one whole cycle: documents, facts about all fleets, the decision, and all records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.results import Result, Scale
from simulation.promotions import DECISION_LIMIT, PromotionOptions, PromotionWorld
from zkdeployment.base import log

if TYPE_CHECKING:
    from collections.abc import Iterator


def measure(scale: Scale) -> Iterator[Result]:
    """Measure a simulated promotion, with a hundredth of the scale's largest number of watchers as fleets."""
    log.configure(quiet=True)
    hosts = max(scale.watchers)
    fleets = max(2, hosts // 100)
    outcome = PromotionWorld(PromotionOptions(1, fleets=fleets, hosts=hosts, faults=5000.0)).run()
    assert not outcome.violations, outcome.sentence
    size = f"{fleets:,} fleets with {hosts:,} hosts"
    yield Result(
        work="slowest decision of a promotion",
        size=size,
        value=outcome.decision,
        against="a second",
        reference=DECISION_LIMIT,
        at_most=1,
    )
    yield Result(work="largest node of a promotion", size=size, value=outcome.size / 1000, unit="kB")
