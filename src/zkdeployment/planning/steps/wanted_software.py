"""The software that the wanted deployments and the role controller of a host need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.model.checkout import is_checkout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.model.deployment import Assignment
    from zkdeployment.model.host import Identity


@dataclass(frozen=True)
class PackageNeed:
    """The version (``None``: any) and the application of a package that wanted deployments need."""

    version: str | None
    application: str


@dataclass(frozen=True)
class WantedSoftware:
    """The assignments of a host that have instances, sorted by path, its role controller, and what these need.

    ``identity`` is that of the host, ``None`` if it does not matter. ``checkouts`` maps the names of
    checkouts, with that of the controller, to their versions. ``needs`` maps the names of packages, without
    that of the controller, to what the assignments need of them.
    """

    assignments: tuple[Assignment, ...]
    controller: Assignment | None
    checkouts: Mapping[str, str]
    needs: Mapping[str, PackageNeed]
    identity: Identity | None = None

    @classmethod
    def of(
        cls, wanted: Iterable[Assignment], controller: Assignment | None, identity: Identity | None = None
    ) -> WantedSoftware:
        """Return the software of these assignments, which are free of conflicts, and of the controller."""
        assignments = sorted(
            (assignment for assignment in wanted if assignment.n), key=lambda assignment: assignment.path
        )
        checkouts = {
            assignment.package: assignment.version
            for assignment in (*assignments, *(() if controller is None else (controller,)))
            if assignment.version and is_checkout(assignment.version)
        }
        packaged = [assignment for assignment in assignments if assignment.package not in checkouts]
        return cls(tuple(assignments), controller, checkouts, _needs(packaged), identity)

    @property
    def applications(self) -> frozenset[str]:
        """The applications of the assignments."""
        return frozenset(assignment.application for assignment in self.assignments)

    @property
    def controller_packages(self) -> frozenset[str]:
        """The name of the controller's package as a set, which is empty without a controller."""
        return frozenset(() if self.controller is None else (self.controller.package,))

    @property
    def names(self) -> frozenset[str]:
        """The names of all packages and checkouts, without the package of the controller."""
        return frozenset({*self.needs, *self.checkouts})


def _needs(wanted: Iterable[Assignment]) -> dict[str, PackageNeed]:
    """Return the needed packages by name.

    An exact version has precedence over any version, the package of a deployment over a patch.
    """
    wanted = tuple(wanted)
    own = ((assignment.package, PackageNeed(assignment.version, assignment.application)) for assignment in wanted)
    patches = (
        (name, PackageNeed(version, assignment.application))
        for assignment in wanted
        for name, version in assignment.patches.items()
    )
    needs: dict[str, PackageNeed] = {}
    for name, need in (*own, *patches):
        known = needs.setdefault(name, need)
        if known.version is None:
            needs[name] = PackageNeed(need.version, known.application)
    return needs
