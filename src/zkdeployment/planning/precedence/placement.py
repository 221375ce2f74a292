"""Checks that a strategy lets hosts go first for which other hosts wait."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.model.problem import Problem
from zkdeployment.planning.order import order as order_of_groups
from zkdeployment.planning.precedence.entries import ServiceOrder, service_order
from zkdeployment.rollout.groups import is_selected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zkdeployment.model.host import Host
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.publication import Targets
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.planning.order import Order, Turn
    from zkdeployment.planning.published_state import PublicationSnapshot


def order_of_known_hosts(
    before: Targets,
    after: Targets,
    snapshot: PublicationSnapshot,
    strategy: Strategy | None,
) -> ServiceOrder:
    """Return the order of a publication among the known hosts that take part in it.

    Hosts in no group of the strategy do not, and no host waits for hosts that can be leased.
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
    """Yield an error for each wait that the groups of the strategy would never let end.

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
    """Return the host that a host in this place would wait for without end, and why, or ``None``."""
    number, turn = place
    for host_id, (other_number, other) in expected:
        if other_number > number:
            return f"{host_id}, but its group {other.group.name} comes after the group {turn.group.name}"
        if other_number == number and turn.group.pace.max_parallel is not None and len(turn.hosts) > 1:
            return f"{host_id} of the same group {turn.group.name}, which has max_parallel"
    return None
