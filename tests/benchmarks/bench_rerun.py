"""Measures a commit that concerns one of 100 services, with ``rerun = 'always'`` and with ``rerun = 'changed'``.

The fleets and agents are those of ``bench_convergence``. Each host runs three services on average.
"""

from collections.abc import Iterator
from functools import partial

from benchmarks.bench_convergence import converge
from benchmarks.fleets import FleetRepository, services_text
from benchmarks.results import Result, Scale

_AGAINST = "rerun = 'always'"


def measure(scale: Scale) -> Iterator[Result]:
    """Measure the largest fleet that has a tree of its size, else the smallest."""
    agents = max((count for count in scale.agents if count in scale.hosts), default=scale.agents[0])
    hosts = min(size for size in scale.hosts if size >= agents)
    always, changed = (
        converge(agents, partial(FleetRepository, hosts=hosts, text=partial(services_text, rerun=rerun)))
        for rerun in ("always", "changed")
    )
    fleet = f"{agents:,} agents, one of 100 services changed"
    for work, unit, ours, theirs in (
        ("rerun = 'changed': convergence on a revision", "s", changed.seconds, always.seconds),
        ("rerun = 'changed': script runs", "", changed.scripts, always.scripts),
        (
            "rerun = 'changed': ZooKeeper requests per agent",
            "",
            changed.requests / agents,
            always.requests / agents,
        ),
    ):
        yield Result(
            work=work,
            size=fleet,
            value=ours,
            unit=unit,
            against=_AGAINST,
            reference=theirs,
            at_least=2 if unit else None,
            at_most=None if unit else 0.33,
        )
