"""The parts that a host lacks of a version that it claims to have deployed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zkdeployment.base.deployment import DesiredState


def missing_of(wanted: DesiredState, marked: Collection[tuple[str, int]], have: Mapping[str, str]) -> list[str]:
    """Return the contradictions to the claim that a host has the state ``wanted``, sorted; empty for a true claim.

    ``marked`` are the path and number of each instance with a marker, ``have`` the versions of the packages that
    are installed.
    """
    deployments = {
        (deployment.path, deployment.number)
        for assignment in wanted.assignments
        for deployment in assignment.deployments
    }
    needed = {assignment.package: assignment.version for assignment in wanted.assignments}
    if wanted.controller is not None:
        needed[wanted.controller.package] = wanted.controller.version
    problems = [f"{path} {number} has no marker" for path, number in deployments - set(marked)]
    problems += [f"{path} {number} is still marked" for path, number in set(marked) - deployments]
    problems += [
        f"{package} is {have.get(package)}, not {version}"
        for package, version in needed.items()
        if have.get(package) != version
    ]
    problems += [f"{name} is still installed" for name in have if name not in needed]
    return sorted(problems)
