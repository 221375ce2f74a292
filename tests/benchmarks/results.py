"""The result of a benchmark, its scale, and functions that time calls."""

import gc
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The scale of a benchmark run.

    ``hosts`` are the sizes of the trees (five nodes a host), ``watchers`` and ``agents`` the sizes of the fleets,
    ``large`` is the number of nodes of the largest tree. Each figure is the median of ``rounds`` rounds; ensembles
    are compared in ``turns`` turns in each round.
    ``grown_nodes`` and ``grown_hosts`` are the sizes of the trees and fleets whose growth is measured.
    ``carried`` are the sizes of the fleets of one server, ``spread`` the numbers of sessions of an ensemble, and
    ``real`` is the number of agents of a sandbox.
    """

    hosts: tuple[int, ...]
    watchers: tuple[int, ...]
    agents: tuple[int, ...]
    large: int
    rounds: int
    carried: tuple[int, ...]
    spread: tuple[int, ...]
    real: int
    grown_nodes: tuple[int, ...]
    grown_hosts: tuple[int, ...]
    turns: int = 30


SCALES = {
    "full": Scale(
        hosts=(1000, 5000),
        watchers=(1000, 5000, 10_000),
        agents=(100, 300, 1000),
        large=100_000,
        rounds=10,
        carried=(1000, 3000, 10_000),
        spread=(20_000, 40_000),
        real=20,
        grown_nodes=(1000, 5000, 25_000, 100_000),
        grown_hosts=(1000, 10_000, 30_000),
    ),
    "quick": Scale(
        hosts=(1000,),
        watchers=(1000,),
        agents=(100,),
        large=25_000,
        rounds=3,
        carried=(1000,),
        spread=(3000,),
        real=5,
        grown_nodes=(1000, 5000, 25_000),
        grown_hosts=(1000, 5000),
    ),
    "tiny": Scale(
        hosts=(20,),
        watchers=(20,),
        agents=(3,),
        large=500,
        rounds=1,
        turns=1,
        carried=(20,),
        spread=(30,),
        real=1,
        grown_nodes=(100, 300),
        grown_hosts=(20, 60),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One measured figure: ``value`` and the ``reference`` from the same run, both in ``unit``.

    ``against`` describes the reference. With ``at_least``, the reference is slow and the aim is to be that many
    times faster (0: no aim). With ``at_most``, the reference is a lower bound and the aim is at most that many
    times its cost.
    """

    work: str
    size: str
    value: float
    unit: str = "s"
    against: str = ""
    reference: float | None = None
    at_least: float | None = None
    at_most: float | None = None

    @property
    def ratio(self) -> float | None:
        """The factor by which the value beats the reference, or the multiple of the reference that it costs."""
        if self.reference is None:
            return None
        return self.value / self.reference if self.at_least is None else self.reference / self.value

    @property
    def met(self) -> bool | None:
        """Whether the aim is reached; ``None`` if the result has no aim."""
        if self.ratio is None:
            return None
        if self.at_least:
            return self.ratio >= self.at_least
        return None if self.at_most is None else self.ratio <= self.at_most

    @property
    def words(self) -> tuple[str, ...]:
        """The result as the cells of a table."""
        ratio = aim = ""
        if self.ratio is not None:
            ratio = f"{figure(self.ratio)} times{'' if self.at_least is None else ' faster'}"
        if self.at_least:
            aim = f"at least {self.at_least:g}"
        elif self.at_most is not None:
            aim = f"at most {self.at_most:g}"
        met = {None: "", True: "yes", False: "no"}[self.met]
        reference = "" if self.reference is None else quantity(self.reference, self.unit)
        return (self.work, self.size, quantity(self.value, self.unit), self.against, reference, ratio, aim, met)


#: The measurement that the plot draws by the size of the fleet.
CONVERGENCE = "convergence on a revision"

#: The most important results: ``work``, ``size`` and ``against`` of each.
HIGHLIGHTS = {
    ("full import", "24,601 nodes", "node by node"),
    ("full import", "24,601 nodes", "bare transactions of 500 creates"),
    ("one property changed, syncer running", "24,601 nodes", "node by node"),
    ("what one host is to run", "24,601 nodes", "walk of the tree"),
    ("publication until all watches fired", "1,000 watchers", "bare fan-out of one set"),
    ("version set until the agent's first write", "1 agent", "bare watch, and 20 ms"),
    ("idle agent's memory", "1 agent", "process with a bare client"),
    ("convergence on a revision", "1,000 agents, tree for 1,000 hosts", ""),
    ("next group decided", "10,000 hosts in 50 groups", "all again with sets"),
    ("grants written", "10,000 hosts", "one request at a time"),
    (
        "rerun = 'changed': convergence on a revision",
        "1,000 agents, one of 100 services changed",
        "rerun = 'always'",
    ),
    ("page of the fleet: exponent", "1,000 to 30,000 hosts", "linear growth"),
    ("service lock: a turn of all and a release", "1,000 hosts wait", "all read the queue in each turn"),
    ("packages changed through the port", "10 packages", "one bare dnf transaction"),
    ("page fleet: first paint", "10,000 hosts", "limit"),
    ("slowest decision of a promotion", "100 fleets with 10,000 hosts", "a second"),
    ("convergence on a revision", "3,000 agents, tree for 5,000 hosts", ""),
    ("an agent's processor time", "3,000 agents, tree for 5,000 hosts", "a bare client with as many requests"),
}

#: The headings of ``Result.words``.
HEADINGS = ("what", "size", "ours", "against", "its", "ratio", "aim", "met")


def quantity(value: float, unit: str) -> str:
    """Return a value with its unit as text; seconds below 1 are given in milliseconds."""
    if unit == "s" and value < 1:
        return f"{figure(value * 1000)} ms"
    return f"{figure(value)} {unit}"


def figure(value: float) -> str:
    """Return a number with three digits, or with all digits before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def seconds(action: Callable[[], object]) -> float:
    """Return the seconds a call takes; its return value is freed after the measurement."""
    gc.collect()
    start = time.perf_counter()
    result = action()
    taken = time.perf_counter() - start
    del result
    return taken


def interleaved(steps: Iterable[object], count: int, sample: Callable[[], None], rounds: int) -> float:
    """Run ``count`` steps in equal batches, with a sample after each batch; return the seconds the steps take.

    Slow and fast measurements then meet the same load of the machine. As with ``best``, the fastest batch
    determines the result for all batches.
    """
    ends = [round(count * (number + 1) / rounds) for number in range(rounds)]
    taking = iter(steps)
    stretches = []
    for start, end in zip([0, *ends], ends, strict=False):
        stretches.append(seconds(lambda: deque(islice(taking, end - start), maxlen=0)) / (end - start))  # noqa: B023
        sample()
    deque(taking, maxlen=0)
    return min(stretches) * count


def best(values: list[float]) -> float:
    """Return the smallest value, because disturbances only lengthen a measurement."""
    return min(values)


def middle(values: list[float]) -> float:
    """Return the median."""
    return statistics.median(values)
