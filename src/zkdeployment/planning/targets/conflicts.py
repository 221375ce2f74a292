"""Conflicts: services that exclude each other on one host or in one role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.model.checkout import is_checkout
from zkdeployment.model.problem import Problem
from zkdeployment.planning.targets.selection import role_controller, unchecked_assignments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zkdeployment.model.deployment import Assignment
    from zkdeployment.model.host import Identity
    from zkdeployment.model.publication import Targets


def host_conflicts(identity: Identity, targets: Targets) -> Iterator[Problem]:
    """Yield the conflicts between the assignments of one host, and of its role's controller."""
    if identity.role is not None:
        for name in identity.target_names:
            for assignment in targets.get(name, ()) if name != identity.role else ():
                path = f"{assignment.path}/deploy/{name}"
                role = identity.role
                message = f"{path} is for {identity}, which has the role {role}: only deploy/{role} counts"
                yield Problem(message, path=path)
    elif identity.id != identity.name:
        by_id = {assignment.path for assignment in targets.get(identity.id, ())}
        for assignment in targets.get(identity.name, ()):
            if assignment.path in by_id:
                message = (
                    f"{assignment.path} is deployed to both {identity.name} and {identity.id}, which are one host"
                )
                yield Problem(message, path=assignment.path)
    yield from _conflicts((*unchecked_assignments(identity, targets), *role_controller(identity.role, targets)))


def target_conflicts(names: Iterable[str], targets: Targets) -> Iterable[Problem]:
    """Return the conflicts within each of the targets with these ``names``, each conflict once."""
    return dict.fromkeys(
        problem
        for name in sorted(names)
        for problem in _conflicts((*targets[name], *role_controller(name, targets)))
    )


def _conflicts(assignments: Sequence[Assignment]) -> Iterator[Problem]:
    """Yield a problem for each package that one host would need in two versions."""
    if len({assignment.package for assignment in assignments}) == len(assignments) and not any(
        assignment.patches for assignment in assignments
    ):
        return
    wanted: dict[str, dict[str | None, str]] = {}
    for assignment in assignments:
        for package, version in (
            [(assignment.package, assignment.version), *assignment.patches.items()] if assignment.n else ()
        ):
            paths = wanted.setdefault(package, {})
            others = [other for other in paths if _exclude_each_other(version, other)]
            if others and version not in paths:
                conflict = f"{_with_version(package, others[0])} for {paths[others[0]]}"
                yield Problem(
                    f"{_with_version(package, version)} for {assignment.path} and {conflict} on the same host",
                    path=assignment.path,
                )
            paths.setdefault(version, assignment.path)


def _exclude_each_other(version: str | None, other: str | None) -> bool:
    """Whether a host cannot have both versions; any version (``None``) is satisfied by packages, not checkouts."""
    if version is None or other is None:
        return version is not other and (is_checkout(version) or is_checkout(other))
    return version != other


def _with_version(package: str, version: str | None) -> str:
    return package if version is None else f"{package} {version}"
