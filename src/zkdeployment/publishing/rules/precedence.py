"""The order between services in a publication: the hosts that wait for services of other hosts."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from zkdeployment.base.publication import OrderEntry, Targets
from zkdeployment.base.source_files import Problem, Severity
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.targets.services import unchecked_assignments
from zkdeployment.strategies.order import Order, Turn
from zkdeployment.strategies.order import order as order_of_groups
from zkdeployment.strategies.strategy import Strategy, is_selected

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from zkdeployment.base.host import Host, Identity
    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.publishing.rules.convergence import PublicationSnapshot


@dataclass(frozen=True, slots=True)
class ServiceOrder:
    """The order of one publication: its ``entries`` by the path of the awaited service.

    ``waiting`` has, for each entry, the ids of the hosts that wait because they deploy a service after the awaited
    one, or because they lose it, each with the path of the service that it deploys or loses.
    """

    entries: Mapping[str, OrderEntry] = field(default_factory=dict)
    waiting: Mapping[str, frozenset[tuple[str, str]]] = field(default_factory=dict)


def service_order(
    before: Targets, after: Targets, hosts: Iterable[Identity], unfinished: Mapping[str, Collection[str]]
) -> ServiceOrder:
    """Return the order of a publication that replaces the targets ``before`` by those ``after``.

    ``hosts`` are the known hosts that take part in the publication. ``unfinished`` are hosts, by the path of a
    service, that gain the service in the previous publication and have not deployed it yet: hosts that lose the
    service still wait for them.
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


def order_of_known_hosts(
    before: Targets,
    after: Targets,
    snapshot: PublicationSnapshot,
    strategy: Strategy | None,
) -> ServiceOrder:
    """Return the order of a publication among the known hosts that take part in it.

    Hosts in no group of the strategy do not take part, and no host waits for hosts that can be leased.
    """
    hosts: list[Host | KnownHost] = [*snapshot.hosts, *snapshot.absent]
    participants = (
        host.identity
        for host in hosts
        if not host.facts.is_leasable and (strategy is None or is_selected(strategy, host.identity.id, host.facts))
    )
    order = service_order(before, after, participants, snapshot.unfinished)
    absent = {known.identity.id for known in snapshot.absent}
    entries = {
        path: replace(entry, absent=tuple(host_id for host_id in entry.hosts if host_id in absent))
        for path, entry in order.entries.items()
    }
    return replace(order, entries=entries)


def placement_problems(
    between_services: ServiceOrder,
    strategy: Strategy | None,
    snapshot: PublicationSnapshot,
    targets: Targets,
) -> Iterator[Problem]:
    """Yield an error for each wait that could never end because of the groups of the strategy.

    A host in a group waits for ever for a host of a later group, which begins only when the host has finished. The
    same happens within a group with ``max_parallel``, whose places the waiting hosts may take.
    """
    if strategy is not None and between_services.waiting:
        yield from _problems(between_services, order_of_groups(strategy, snapshot.hosts, snapshot.absent, targets))


def _problems(between_services: ServiceOrder, turns: Order) -> Iterator[Problem]:
    places = {host_id: (place, turn) for place, turn in enumerate(turns.turns) for host_id in turn.hosts}
    for path, entry in sorted(between_services.entries.items()):
        for host_id, waiting in sorted(between_services.waiting.get(path, ())):
            if host_id not in places:
                continue
            expected = entry.gaining if waiting == path else entry.hosts
            others = [(name, places[name]) for name in expected if name in places and name != host_id]
            obstacle = _obstacle(places[host_id], others)
            if obstacle is not None:
                verb = "keeps" if waiting == path else "deploys"
                until = "until" if waiting == path else "after"
                message = f"{host_id} {verb} {waiting} {until} {path} is deployed on {obstacle}"
                yield Problem(f"{message}; change the strategy or the order of the services", path=waiting)
                break


def _obstacle(place: tuple[int, Turn], expected: Iterable[tuple[str, tuple[int, Turn]]]) -> str | None:
    """Return the host for which a host in this place would wait without end, with the reason, or ``None``."""
    number, turn = place
    for host_id, (other_number, other) in expected:
        if other_number > number:
            return f"{host_id}, but its group {other.group.name} comes after the group {turn.group.name}"
        if other_number == number and turn.group.pace.max_parallel is not None and len(turn.hosts) > 1:
            return f"{host_id} of the same group {turn.group.name}, which has max_parallel"
    return None


#: The most hosts that a warning names.
_NAMED = 5


def move_warnings(
    before: Targets, after: Targets, order: ServiceOrder, snapshot: PublicationSnapshot
) -> Iterator[Problem]:
    """Yield a warning for each service that hosts lose without a registered host to wait for.

    ``order`` belongs to the publication that replaces the targets ``before`` by the targets ``after``.
    """
    lasting = {
        assignment.path
        for assignments in after.values()
        for assignment in assignments
        if assignment.undeploys_last
    }
    for path in sorted(path for path in lasting if _has_new_targets(path, before, after)):
        losing, gaining = _moving(path, before, after, snapshot.known)
        if not losing:
            continue
        entry = order.entries.get(path)
        if entry is None or not entry.gaining:
            yield _warning(
                path, gaining, f"for which no host waits, so {_named(losing)} undeploys it at once", _FREE
            )
        elif set(entry.gaining) <= set(entry.absent):
            awaited = [host for host in gaining if host.id in entry.gaining]
            kept = (
                f"of which none is registered, so {_named(losing)} keeps it, and waits, until one of them has it"
            )
            yield _warning(path, awaited, kept, "start such a host, or choose another one")


_FREE = (
    "hosts that can be leased, that are in no group of the strategy or that were never registered are not awaited:"
    " choose other hosts if the service must not be missing"
)


def _has_new_targets(path: str, before: Targets, after: Targets) -> bool:
    """Whether a service has more instances on any target than before."""
    had = _numbers(path, before)
    return any(n > had.get(name, 0) for name, n in _numbers(path, after).items())


def _numbers(path: str, targets: Targets) -> Mapping[str, int]:
    return {
        name: assignment.n
        for name, assignments in targets.items()
        for assignment in assignments
        if assignment.path == path
    }


def _moving(
    path: str, before: Targets, after: Targets, known: Iterable[Identity]
) -> tuple[list[Identity], list[Identity]]:
    """Return the known hosts that lose instances of a service, and those that gain some."""
    losing: list[Identity] = []
    gaining: list[Identity] = []
    for host in known:
        had, has = (
            sum(assignment.n for assignment in unchecked_assignments(host, targets) if assignment.path == path)
            for targets in (before, after)
        )
        if has != had:
            (gaining if has > had else losing).append(host)
    return losing, gaining


def _warning(path: str, gaining: Iterable[Identity], consequence: str, advice: str) -> Problem:
    hosts = _named(gaining) or "a target without a known host"
    message = f"undeploy = 'last': the service moves to {hosts}, {consequence}; {advice}"
    return Problem(message, path=path, severity=Severity.WARNING)


def _named(hosts: Iterable[Identity]) -> str:
    return listing(sorted(map(str, hosts)), _NAMED)
