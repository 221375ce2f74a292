"""Warnings about services that are to be undeployed last, but move to hosts that may never have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.model.listing import listing
from zkdeployment.model.problem import Problem, Severity
from zkdeployment.planning.targets.selection import unchecked_assignments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.model.host import Identity
    from zkdeployment.model.publication import Targets
    from zkdeployment.planning.precedence.entries import ServiceOrder
    from zkdeployment.planning.published_state import PublicationSnapshot

#: The most hosts that a warning names.
_NAMED = 5


def move_warnings(
    before: Targets, after: Targets, order: ServiceOrder, snapshot: PublicationSnapshot
) -> Iterator[Problem]:
    """Yield a warning for each service that hosts lose while no registered host gains it that they can wait for.

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
    """Whether a service has more instances at some target than before."""
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
