"""The assignments that a host or a role selects from the targets, without a check for conflicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.model.deployment import Assignment
    from zkdeployment.model.host import Identity
    from zkdeployment.model.publication import Targets


def unchecked_assignments(identity: Identity, targets: Targets) -> tuple[Assignment, ...]:
    """Return the assignments of a host, sorted by path, without a check for conflicts."""
    names = (identity.role,) if identity.role is not None else identity.target_names
    assignments = (assignment for name in names for assignment in targets.get(name, ()))
    return tuple(sorted(assignments, key=by_path))


def role_controller(role: str | None, targets: Targets) -> Sequence[Assignment]:
    """Return the controller of a role as a sequence, empty if it does not exist."""
    return targets.get(f"/roles/{role}", ())


def by_path(assignment: Assignment) -> str:
    """Return the key that sorts assignments by path."""
    return assignment.path
