"""Decides for which hosts others wait in a publication."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.model.publication import OrderEntry
from zkdeployment.planning.targets.selection import unchecked_assignments

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zkdeployment.model.host import Identity
    from zkdeployment.model.publication import Targets


@dataclass(frozen=True, slots=True)
class ServiceOrder:
    """The order of one publication: its ``entries`` by the path of the service that others wait for.

    ``waiting`` are the hosts, by id, that wait for an entry: because they deploy a service after it, or because
    they lose it. Each is given with the path of the service that it deploys or loses.
    """

    entries: Mapping[str, OrderEntry] = field(default_factory=dict)
    waiting: Mapping[str, frozenset[tuple[str, str]]] = field(default_factory=dict)


def service_order(
    before: Targets, after: Targets, hosts: Iterable[Identity], unfinished: Mapping[str, Collection[str]]
) -> ServiceOrder:
    """Return the order of a publication that replaces the targets ``before`` by those ``after``.

    ``hosts`` are the known hosts that take part in the publication. ``unfinished`` are hosts, by the path of a
    service, that were to gain the service in the publication before and have not got it yet: hosts that lose it
    still wait for these.
    """
    assignments = [assignment for assigned in after.values() for assignment in assigned]
    awaited = {path for assignment in assignments for path in assignment.after}
    lasting = {assignment.path for assignment in assignments if assignment.undeploys_last}
    if not awaited and not lasting:
        return ServiceOrder()
    expected: dict[str, set[str]] = {path: set() for path in awaited}
    gaining: dict[str, set[str]] = {}
    waiting: dict[str, set[tuple[str, str]]] = {}
    for host in hosts:
        had = {assignment.path: assignment.n for assignment in unchecked_assignments(host, before)}
        has = {assignment.path: assignment for assignment in unchecked_assignments(host, after) if assignment.n}
        for path in awaited & has.keys():
            expected[path].add(host.id)
        for path in lasting & (had.keys() | has.keys()):
            n, before_n = (has[path].n if path in has else 0), had.get(path, 0)
            if n > before_n or (n and host.id in unfinished.get(path, ())):
                gaining.setdefault(path, set()).add(host.id)
            elif n < before_n:
                waiting.setdefault(path, set()).add((host.id, path))
        for assignment in has.values():
            for path in assignment.after:
                waiting.setdefault(path, set()).add((host.id, assignment.path))
    entries = {
        path: OrderEntry(
            tuple(sorted(expected.get(path, set()) | gaining.get(path, set()))),
            tuple(sorted(gaining.get(path, ()))),
        )
        for path in expected.keys() | gaining.keys()
    }
    return ServiceOrder(entries, {path: frozenset(hosts) for path, hosts in waiting.items() if path in entries})
