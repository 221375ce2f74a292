"""The small fleets whose runs are searched completely, within bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The kinds of deviations from the run in a fixed order without faults.
KINDS = ("fault", "order", "act")

#: The faults that come with a request, and whether only writes have them.
FAULTS = {
    "is killed before it": True,
    "is killed after it": True,
    "loses the answer": True,
    "loses the session": True,
    "is frozen after it": False,
}

#: The faults of an agent whose script runs, at each moment at which something happens.
BESIDE = ("is killed", "is terminated", "has a full disk", "loses the session", "is frozen")


@dataclass(frozen=True)
class Bounds:
    """The most deviations of each kind in one run, and of all kinds together."""

    fault: int = 1
    order: int = 1
    act: int = 1
    all: int = 1

    def kinds(self, used: Mapping[str, int]) -> frozenset[str]:
        """Return the kinds of deviations that a run may have in addition to those that it has."""
        if sum(used.values()) >= self.all:
            return frozenset()
        return frozenset(kind for kind in KINDS if used.get(kind, 0) < getattr(self, kind))


@dataclass(frozen=True)
class Scenario:
    """What happens to a small fleet besides faults: operators perform ``acts`` in order, each at any time.

    Each service is on each host. With ``ordered``, the second service waits for the first one. With ``governed``,
    a strategy lets the first host deploy before the others, and each publication runs only the first service
    again. ``faults`` are parts of the names of the faults that may come, by default all; a failing script is one
    of them. ``reads`` is whether hosts are also frozen after reads. Scripts last ``script`` seconds.
    """

    acts: tuple[str, ...] = ()
    hosts: int = 2
    services: int = 2
    ordered: bool = False
    governed: bool = False
    faults: tuple[str, ...] = ("",)
    reads: bool = True
    script: float = 8.0
    theme: str = "mixed"
    bounds: Bounds = field(default_factory=Bounds)

    def permits(self, variant: str, *, is_write: bool) -> bool:
        """Whether a fault or act belongs to the scenario."""
        if variant.startswith("act "):
            return True
        if variant in FAULTS and not is_write and (FAULTS[variant] or not self.reads):
            return False
        return any(part in variant for part in self.faults)


_WRITES = ("is killed before", "loses")

#: The scenarios by name. The last three take some minutes on two processors, all others less than one. ``orders``
#: has no bound: it tries all orders of the requests of one host and a syncer. Of orders that differ only in
#: requests without dependence, it tries one. Two hosts have about the square of so many orders, so ``orders of
#: two hosts`` reverses at most four pairs of requests, and ``two faults`` none: its 8,632 runs take eight minutes
#: of processor time.
SCENARIOS = {
    "smallest": Scenario(
        ("stop", "resume latest"), services=1, faults=("killed beside", "frozen after"), reads=False, script=100.0
    ),
    "one service": Scenario(services=1),
    "two services": Scenario(("stop", "resume latest")),
    "ordered": Scenario(("push version",), ordered=True, faults=_WRITES, reads=False),
    "restarts": Scenario(services=1, script=100.0, theme="restarts", faults=("terminated",)),
    "groups": Scenario(services=3, script=20.0, theme="group stops", faults=("full disk", "failing")),
    "resumed groups": Scenario(
        ("correct", "resume group"),
        services=3,
        governed=True,
        faults=("failing",),
        theme="group stops",
        bounds=Bounds(order=0, all=2),
    ),
    "resumed groups published again": Scenario(
        ("correct", "resume group", "publish again"),
        services=3,
        governed=True,
        faults=("failing",),
        theme="group stops",
        bounds=Bounds(order=0, all=2),
    ),
    "retries": Scenario(
        ("retry", "resume latest"), services=1, faults=("failing",), bounds=Bounds(fault=2, order=0, act=0, all=2)
    ),
    "retries of two services": Scenario(
        ("retry", "resume latest"), faults=("failing",), bounds=Bounds(act=0, all=2)
    ),
    "versions by hand": Scenario(
        ("retry", "version by hand", "resume latest"), faults=("failing",), bounds=Bounds(order=0, all=2)
    ),
    "imports": Scenario(
        ("import beside a retry", "resume latest"), services=1, faults=("failing",), bounds=Bounds(act=0, all=2)
    ),
    "pruning": Scenario(("remove file", "prune"), faults=_WRITES, reads=False),
    "maintenance": Scenario(
        ("cordon", "uncordon"), services=1, faults=_WRITES, reads=False, bounds=Bounds(fault=0, act=2, all=2)
    ),
    "two faults": Scenario(services=1, faults=_WRITES, reads=False, bounds=Bounds(fault=2, act=0, all=2)),
    "orders": Scenario(hosts=1, services=1, bounds=Bounds(fault=0, order=999, act=0, all=999)),
    "orders of two hosts": Scenario(services=1, bounds=Bounds(fault=0, order=4, act=0, all=4)),
}
