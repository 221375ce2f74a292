"""Withheld targets: services that are not deployed, because of the state of their intent."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zkdeployment.model.publication import Targets

#: The path of a service node and the name of a target.
ServiceTarget: TypeAlias = "tuple[str, str]"


def without_withheld(targets: Targets, withheld: Collection[ServiceTarget]) -> Targets:
    """Return the targets without these services; a target that has no other services is omitted."""
    if not withheld:
        return targets
    paths: dict[str, set[str]] = {}
    for path, target in withheld:
        paths.setdefault(target, set()).add(path)
    kept = {
        name: tuple(assignment for assignment in assignments if assignment.path not in paths[name])
        if name in paths
        else assignments
        for name, assignments in targets.items()
    }
    return {name: assignments for name, assignments in kept.items() if assignments or not targets[name]}


def withheld_to_json(withheld: Collection[ServiceTarget]) -> dict[str, list[str]]:
    """Return withheld targets in the form that is published under ``/zkdeployment/withheld``: targets by path."""
    listed: dict[str, list[str]] = {}
    for path, target in sorted(withheld):
        listed.setdefault(path, []).append(target)
    return listed


def withheld_from_json(value: Mapping[str, object]) -> frozenset[ServiceTarget]:
    """Return the withheld targets that ``withheld_to_json`` encoded; malformed entries withhold nothing."""
    return frozenset(
        (path, target)
        for path, names in value.items()
        if isinstance(names, list)
        for target in names
        if isinstance(target, str)
    )
