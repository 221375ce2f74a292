"""The assignments that a host or a role selects from the targets, and their encoding in ZooKeeper."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from zkdeployment.base.deployment import FIRST, Assignment, Rerun
from zkdeployment.base.errors import TreeError
from zkdeployment.base.names import NameKind
from zkdeployment.publishing.targets.services import (
    application_of,
    check_after,
    check_group,
    check_n,
    check_name,
    check_patches,
    check_path,
    check_properties,
    check_rerun,
    check_undeploy,
    check_version,
    patch_problems,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.base.host import Identity
    from zkdeployment.base.publication import Targets
    from zkdeployment.tree.values import Value


#: The node of a role below this path names its controller.
_ROLES = "/roles/"

#: The required keys of an assignment. Other keys are optional; unknown keys belong to later releases.
_FIELDS = frozenset({"path", "n", "package", "application", "subtype", "version", "patches"})


def assignment_from_json(value: object) -> Assignment:
    """Return the assignment that ``Assignment.to_json`` encoded, after all checks; raises ``TreeError``."""
    if not isinstance(value, dict) or not value.keys() >= _FIELDS:
        expected = ", ".join(sorted(_FIELDS))
        found_fields = ", ".join(sorted(map(str, value))) if isinstance(value, dict) else shown(value)
        raise TreeError(f"a published assignment must have {expected}; found {found_fields}; publish again")
    fields = cast("Mapping[str, Value]", value)
    package = check_name(NameKind.PACKAGE, fields["package"])
    application = check_name(NameKind.PACKAGE, fields["application"])
    version = None if fields["version"] is None else check_version(fields["version"])
    expected = package if version is not None else application_of(package)
    if application != expected:
        raise TreeError(
            f"a published assignment of {package} names {application}, expected {expected}; publish again"
        )
    patches = check_patches(fields["patches"])
    for problem in patch_problems(package, version, patches):
        raise TreeError(f"a published assignment {problem}; publish again")
    return Assignment(
        path=check_path(fields["path"]),
        n=check_n(fields["n"]),
        package=package,
        application=application,
        subtype=None if fields["subtype"] is None else check_name(NameKind.SUBTYPE, fields["subtype"]),
        version=version,
        patches=patches,
        rerun=check_rerun(fields.get("rerun", Rerun.ALWAYS.value)),
        properties=None if fields.get("properties") is None else check_properties(fields["properties"]),
        after=check_after(fields.get("after", [])),
        undeploys_last=check_undeploy(fields.get("undeploy", FIRST)),
        group=check_group(fields.get("group")),
    )


def decode_target(name: str, data: bytes) -> Targets:
    """Return the content of a target's node: its assignments and, by its path, the controller of a role.

    Raises ``TreeError``.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TreeError(f"the target {name} does not hold a list of assignments: {error}") from error
    assignments = assignments_from_json(value)
    controller = f"{_ROLES}{name}"
    return {
        name: tuple(assignment for assignment in assignments if not assignment.path.startswith(_ROLES)),
        **{assignment.path: (assignment,) for assignment in assignments if assignment.path == controller},
    }


def assignments_from_json(value: object) -> tuple[Assignment, ...]:
    """Return the assignments of a JSON list; raises ``TreeError``."""
    if not isinstance(value, list):
        raise TreeError(f"published assignments are {shown(value)}, expected a list; publish again")
    return tuple(assignment_from_json(entry) for entry in value)


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
