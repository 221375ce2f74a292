"""The package changes that a host would make after a publication, from its inventory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.errors import HostFilesError, TreeError
from zkdeployment.model.plan import ChangeController, ChangePackages
from zkdeployment.planning.availability.demands import Demand, demands_of
from zkdeployment.planning.planner import plan
from zkdeployment.planning.targets.wanted import wanted_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.model.host import Identity
    from zkdeployment.model.inventory import Inventory, KnownHost, Packages
    from zkdeployment.model.plan import PackageChange, Plan
    from zkdeployment.model.publication import Targets


@dataclass(frozen=True, slots=True)
class HostSoftware:
    """The installed packages of a host and the package changes of its plan, in order.

    ``arch`` is the architecture of most of its packages, empty if all are for any architecture. ``demands`` are
    those of its assignments and its controller. ``put_back`` are packages whose original version the host keeps a
    copy of, so no repository needs to have it. ``absent``: the host is not registered.
    """

    identity: Identity
    installed: Packages
    arch: str
    changes: tuple[PackageChange, ...]
    demands: tuple[Demand, ...]
    put_back: frozenset[str] = frozenset()
    absent: bool = False

    @property
    def missing(self) -> frozenset[Demand]:
        """The demands that the host does not meet yet."""
        wanted = {name for change in self.changes for name in change.want.keys() - self.put_back}
        return frozenset(demand for demand in self.demands if demand.package in wanted)


def host_software(known: KnownHost, targets: Targets, *, absent: bool = False) -> HostSoftware | None:
    """Return the package changes of a host; ``None`` if its inventory is unknown, or if its agent would refuse.

    A host with ``packages = none`` reports no packages and changes none, whatever it wants. A refusal for other
    reasons than packages is part of the forecast.
    """
    if known.inventory is None:
        return None
    try:
        wanted = wanted_for(known.identity, targets)
        steps = plan(wanted.assignments, known.inventory, wanted.controller, identity=known.identity)
    except (TreeError, HostFilesError):
        return None
    controller = () if wanted.controller is None else (wanted.controller,)
    return HostSoftware(
        identity=known.identity,
        installed=known.inventory.packages,
        arch=_architecture(known.inventory),
        changes=tuple(
            step.change
            for step in steps.steps
            if isinstance(step, ChangeController | ChangePackages) and (step.change.want or step.change.remove)
        )
        if known.inventory.packages
        else (),
        demands=tuple(demands_of((*wanted.assignments, *controller))),
        put_back=_put_back(steps),
        absent=absent,
    )


def unmet_demands(
    demands: Mapping[str, frozenset[Demand]], hosts: Iterable[HostSoftware]
) -> Mapping[str, frozenset[Demand]]:
    """Return, by architecture, the new ``demands`` of targets that repositories have to meet.

    A demand that all known hosts of its target meet already needs no repository. The architecture of targets
    without a known host is empty.
    """
    unmet: dict[str, set[Demand]] = {}
    judged: set[str] = set()
    for host in hosts:
        names = demands.keys() & set(host.identity.published_names)
        judged |= names
        new = frozenset[Demand]().union(*(demands[name] for name in names))
        if needed := new & host.missing:
            unmet.setdefault(host.arch, set()).update(needed)
    for name in demands.keys() - judged:
        unmet.setdefault("", set()).update(demands[name])
    return {arch: frozenset(needed) for arch, needed in sorted(unmet.items())}


def demands_of_absent_hosts(hosts: Iterable[HostSoftware]) -> Mapping[Demand, tuple[Identity, ...]]:
    """Return the demands that absent hosts, and no registered ones, do not meet yet, with these hosts."""
    lacking: dict[Demand, list[HostSoftware]] = {}
    for host in hosts:
        for demand in host.missing:
            lacking.setdefault(demand, []).append(host)
    return {
        demand: tuple(host.identity for host in those)
        for demand, those in lacking.items()
        if all(host.absent for host in those)
    }


def _architecture(inventory: Inventory) -> str:
    counts = Counter(package.arch for packages in inventory.packages.values() for package in packages)
    del counts["noarch"]
    return min(counts, key=lambda arch: (-counts[arch], arch), default="")


def _put_back(steps: Plan) -> frozenset[str]:
    return frozenset(name for step in steps.steps if isinstance(step, ChangePackages) for name in step.put_back)
