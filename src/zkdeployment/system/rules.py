"""The updates of operating systems that a publication brings, grouped by kind, with the time that they take.

The changes of packages are estimated from the inventories that hosts report and from the packages of the release.
The time is estimated from the times at which hosts completed their last update.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, cast

from zkdeployment.agent.rules.availability import Offers, architecture
from zkdeployment.agent.rules.estimated_update import EstimatedUpdate, estimated_update
from zkdeployment.base.inventory import Inventory
from zkdeployment.base.text import counted, listing
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.forecast import PlanAddition
from zkdeployment.fleet.views.history import time_at_pace
from zkdeployment.publishing.targets.services import unchecked_systems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zkdeployment.agent.rules.availability import PackageFindings
    from zkdeployment.base.host import Identity
    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.json_values import Value
    from zkdeployment.base.packages import Item
    from zkdeployment.base.publication import Targets
    from zkdeployment.base.system import WantedSystem
    from zkdeployment.fleet.views.forecast import HostForecast, Prediction, PredictionBasis
    from zkdeployment.publishing.rules.review import Review

#: The most kinds of updates that are listed for people, and in the JSON form.
_SHOWN = 20
_MOST_KINDS = 1000

#: The limit of packages or repositories that a line names.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class UpdateKind:
    """An update of operating systems to the ``release`` of the system node at ``path``.

    ``update`` is the estimate of its changes, ``None`` if these are unknown for the reason ``unknown``.
    ``missing`` are the repositories that could not be read.
    """

    path: str
    release: str
    update: EstimatedUpdate | None
    unknown: str = ""
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.update is None:
            return f"packages unknown: {self.unknown}"
        number, fixes = len(self.update.changes), len(self.update.security)
        parts = [counted(number, "update") if number else "no package changes"]
        parts += [f"{fixes} security"] if fixes else []
        if self.update.reboots:
            reasons = listing(self.update.reasons, _NAMED)
            parts.append(f"reboot ({reasons})" if reasons else "reboot")
        lacking = f"; not read: {listing(self.missing, _NAMED)}" if self.missing else ""
        return f"{', '.join(parts)}{lacking}"


@dataclass(frozen=True, slots=True)
class UpdateGroup:
    """The hosts with one kind of update, in the order of the plan."""

    kind: UpdateKind
    hosts: tuple[Identity, ...]

    def __str__(self) -> str:
        hosts = counted(len(self.hosts), "host", ",")
        return f"{self.kind.path} to {self.kind.release}: {hosts}: {self.kind}"

    def to_json(self) -> dict[str, Value]:
        """Return the JSON form, as ``plan -o json`` prints it."""
        kind = self.kind
        return {
            "path": kind.path,
            "release": kind.release,
            "hosts": [host.id for host in self.hosts],
            "unknown": kind.unknown or None,
            "missing": [*kind.missing],
            "update": None if kind.update is None else _to_json(kind.update),
        }


def _to_json(update: EstimatedUpdate) -> dict[str, Value]:
    return {
        "packages": [_package_to_json(item, update) for item in update.changes],
        "updates": len(update.changes),
        "security": len(update.security),
        "reboot": update.reboots,
        "reboot_for": [*update.reasons],
    }


def _package_to_json(item: Item, update: EstimatedUpdate) -> dict[str, Value]:
    return {
        "name": item.name,
        "before": None if item.before is None else item.before.nevra,
        "after": None if item.after is None else item.after.nevra,
        "security": item.name in update.security,
    }


@dataclass(frozen=True, slots=True)
class UpdateQueue:
    """The most ``hosts`` that update one after the other, under one ``lock``.

    ``pace`` is the number of seconds from one to the next, ``None`` if no earlier updates show it.
    """

    lock: str
    hosts: int
    pace: float | None

    def text(self, *, governed: bool) -> str:
        """Return the time of the updates for people, empty if it cannot be predicted; as ``time_at_pace``."""
        time = "" if self.pace is None else time_at_pace(self.hosts, self.pace, governed=governed)
        hosts = counted(self.hosts, "host", ",")
        return (
            f"about {time} at the pace of the last updates: {hosts} under the lock of {self.lock}" if time else ""
        )


def planned_updates(
    hosts: Iterable[HostForecast], known: Mapping[str, KnownHost], packages: PackageFindings | None
) -> tuple[UpdateGroup, ...]:
    """Return the updates of hosts by kind, those of most hosts first.

    ``known`` are the reports of hosts, by id. ``packages`` are the findings about packages, with those of the
    releases; ``None`` if no repository was read.
    """
    alike: dict[object, list[HostForecast]] = defaultdict(list)
    for host in hosts:
        if host.system is not None:
            alike[_facts(host, known[host.identity.id])].append(host)
    groups: dict[UpdateKind, list[Identity]] = defaultdict(list)
    for same in alike.values():
        kind = _kind(same[0], known[same[0].identity.id], packages)
        groups[kind] += [host.identity for host in same]
    found = (UpdateGroup(kind, tuple(identities)) for kind, identities in groups.items())
    return tuple(sorted(found, key=lambda group: -len(group.hosts)))


def _facts(host: HostForecast, known: KnownHost) -> object:
    """Return a value that is equal for hosts with the same facts, and seldom differs for other ones.

    Hosts that were read together share their equal packages, so that their places in memory are compared.
    """
    inventory = known.inventory or Inventory()
    packages = tuple(map(id, inventory.packages.values()))
    return host.system, host.kept, inventory.installonly, _due(known), packages


def _due(known: KnownHost) -> tuple[str, ...]:
    """Return the packages that ask for a reboot of a host already."""
    return () if known.system is None else known.system.reasons


def _kind(host: HostForecast, known: KnownHost, packages: PackageFindings | None) -> UpdateKind:
    system, inventory = cast("WantedSystem", host.system), known.inventory or Inventory()
    arch = architecture(inventory)
    offers = None if packages is None else packages.releases.get((system.release, arch))
    if system.update == "none":
        offers = Offers({}, {})
    elif offers is None or not offers.packages:
        unknown = "no repository was read" if offers is None else "no repository has the release"
        return UpdateKind(system.path, system.release, None, unknown)
    update = estimated_update(system, inventory, host.kept, offers, arch, _due(known))
    return UpdateKind(system.path, system.release, update, missing=tuple(sorted(offers.unreachable)))


def longest_queue(
    hosts: Iterable[HostForecast], known: Iterable[KnownHost], before: Targets
) -> UpdateQueue | None:
    """Return the longest queue of hosts that update under one lock; ``None`` without updates.

    The pace is the median of the times between the ends of two updates to one release under one system node of the
    targets ``before``, as ``known`` hosts report them.
    """
    queues = Counter(host.lock for host in hosts if host.system is not None)
    if not queues:
        return None
    ends: dict[object, list[float]] = defaultdict(list)
    for host in known:
        if host.system is not None and host.system.updated is not None:
            for entry in unchecked_systems(host.identity, before):
                ends[entry.path, host.system.release, host.system.generation].append(host.system.updated)
    gaps = [later - earlier for times in ends.values() for earlier, later in pairwise(sorted(times))]
    ((lock, number),) = queues.most_common(1)
    return UpdateQueue(lock, number, median(gaps) if gaps else None)


def plan_addition(_reviewed: Review, basis: PredictionBasis, predicted: Prediction) -> PlanAddition:
    """Return the updates of operating systems that a publication brings, as an addition to its plan."""
    forecast = predicted.forecast
    groups = planned_updates(forecast.hosts, {host.identity.id: host for host in basis.known}, predicted.packages)
    queue = longest_queue(forecast.hosts, basis.known, predicted.targets_before)
    time = "" if queue is None else queue.text(governed=forecast.governed)
    value: dict[str, Value] = {
        "hosts": sum(len(group.hosts) for group in groups),
        "kinds": [group.to_json() for group in groups[:_MOST_KINDS]],
        "more": max(0, len(groups) - _MOST_KINDS),
        "time": time or None,
    }
    return PlanAddition("system", "Operating systems", value, tuple(_lines(groups, time)))


def _lines(groups: Sequence[UpdateGroup], time: str) -> Iterator[str]:
    yield from map(str, groups[:_SHOWN])
    if others := groups[_SHOWN:]:
        hosts = counted(sum(len(group.hosts) for group in others), "host", ",")
        yield f"{counted(len(others), 'more kind')} of updates on {hosts}"
    if any(group.kind.update is not None for group in groups):
        yield (
            "packages are estimated from the inventories of hosts, without new dependencies; 'zkdeployment agent"
            " --dry-run' shows the exact ones of its host"
        )
    if time:
        yield f"time: {time}"
