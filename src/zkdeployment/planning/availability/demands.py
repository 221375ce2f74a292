"""The packages and patches that a publication newly wants.

Packages that a target wanted before the publication are not checked again: a repository may drop deployed
versions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.model.checkout import is_checkout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.model.deployment import Assignment
    from zkdeployment.model.publication import Targets


@dataclass(frozen=True, slots=True, order=True)
class Demand:
    """A package or a patch that the service at ``path`` wants, at any version if ``version`` is empty."""

    path: str
    package: str
    version: str = ""


def demands_of(assignments: Iterable[Assignment]) -> Iterator[Demand]:
    """Yield the demands of assignments; checkouts are no packages."""
    for assignment in assignments:
        if assignment.n and not is_checkout(assignment.version):
            yield Demand(assignment.path, assignment.package, assignment.version or "")
        if assignment.n:
            for name, version in sorted(assignment.patches.items()):
                yield Demand(assignment.path, name, version)


def new_demands(targets: Targets, before: Targets) -> Mapping[str, frozenset[Demand]]:
    """Return the demands of each target that wants a package or a version which it did not want ``before``."""
    demands = {}
    for name, assignments in targets.items():
        old = before.get(name, ())
        if assignments == old:
            continue
        wanted = {(demand.package, demand.version) for demand in demands_of(old)}
        added = [demand for demand in demands_of(assignments) if (demand.package, demand.version) not in wanted]
        if added:
            demands[name] = frozenset(added)
    return demands
