"""Decides whether the releases and the patterns of packages that system nodes newly want exist."""

from __future__ import annotations

from collections import defaultdict
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from zkdeployment.base.source_files import Problem, Severity
from zkdeployment.base.text import listing
from zkdeployment.publishing.targets.services import node_of_target
from zkdeployment.publishing.targets.systems import SYSTEMS, system_target

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from zkdeployment.agent.rules.availability import Demand, HostSoftware, Offers
    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.publication import Targets
    from zkdeployment.base.system import WantedSystem

#: The most repositories that a message names.
_NAMED = 5


def new_systems(targets: Targets, before: Targets) -> Mapping[WantedSystem, frozenset[str]]:
    """Return the systems with an update that was not wanted ``before``, each with its targets."""
    wanted: dict[WantedSystem, set[str]] = defaultdict(set)
    for name, entries in targets.items():
        if name.startswith(SYSTEMS):
            last = _systems(before.get(name, ()))
            for system in _systems(entries):
                if system.new_release is not None and all(map(system.is_update_after, last)):
                    wanted[system].add(node_of_target(name))
    return {system: frozenset(names) for system, names in wanted.items()}


def demands_by_release(
    demands: Mapping[str, frozenset[Demand]], hosts: Iterable[HostSoftware], targets: Targets
) -> Mapping[str, Mapping[str, frozenset[Demand]]]:
    """Return the demands of targets by the release of the target's hosts; empty without a system node."""
    known = {name: host.release for host in hosts for name in host.identity.published_names}
    found: dict[str, dict[str, frozenset[Demand]]] = defaultdict(dict)
    for name, needed in demands.items():
        systems = _systems(targets.get(system_target(node_of_target(name)), ()))
        release = known.get(name, next((system.new_release or "" for system in systems), ""))
        found[release][name] = needed
    return dict(sorted(found.items()))


def release_problems(
    system: WantedSystem, offers: Offers, installed: Collection[str], arch: str
) -> Iterator[Problem]:
    """Yield an error for a release that all repositories lack, and warnings for patterns that match nothing.

    ``offers`` are the packages that match the patterns in the repositories at the release, ``installed`` the names
    of the packages of the system's known hosts.
    """
    release, having = system.release, offers.releases
    if having and not any(having.values()) and not offers.unreachable.keys() - having.keys():
        asked = listing(sorted(having), _NAMED)
        hosts = f"hosts of the architecture {arch}" if arch else "the hosts"
        yield Problem(
            f"no repository of {hosts} has the release {release} (asked: {asked}); publish the snapshot of the"
            " repositories, or correct release",
            path=system.path,
        )
        return
    if not having and not offers.unreachable:
        yield Problem(
            f"the release {release} has no effect: no address of the repositories contains $release; correct the"
            " repositories of the hosts and of this check",
            path=system.path,
            severity=Severity.WARNING,
        )
    if not offers.unreachable:
        yield from _unmatched(system, {*offers.packages, *installed})


def patterns_of(system: WantedSystem) -> tuple[str, ...]:
    """Return the names and patterns of packages in a system node."""
    return (*(() if isinstance(system.update, str) else system.update), *system.exclude)


def _unmatched(system: WantedSystem, names: Collection[str]) -> Iterator[Problem]:
    """Yield a warning for each pattern that matches no name."""
    update = () if isinstance(system.update, str) else system.update
    for key, patterns in (("update", update), ("exclude", system.exclude)):
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                yield Problem(
                    f"{key} holds {pattern}, which matches no package of the repositories or of a known host;"
                    " correct or remove it",
                    path=system.path,
                    severity=Severity.WARNING,
                )


def _systems(entries: Iterable[Assignment]) -> tuple[WantedSystem, ...]:
    return tuple(entry.system for entry in entries if entry.system is not None)
