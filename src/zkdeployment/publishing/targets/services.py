"""Service nodes, role controllers and assignments: their properties, and the encoding of assignments in ZooKeeper.

The checks are used on trees, and again on published assignments.
"""

from __future__ import annotations

import json
import re
from operator import attrgetter
from typing import TYPE_CHECKING, cast

from zkdeployment.base.deployment import ALL, ALLOWED, FIRST, LAST, ONE, Assignment, Rerun
from zkdeployment.base.errors import HostFilesError, TreeError
from zkdeployment.base.names import NameKind, is_name
from zkdeployment.base.packages import is_installed, removable_packages
from zkdeployment.base.plan import ChangeController, PackageChange
from zkdeployment.base.source_files import Correction
from zkdeployment.base.system import SYSTEM
from zkdeployment.publishing.targets.properties import (
    NodeReader,
    check_name,
    check_path,
    has_property,
    needed_digest,
    read_property,
    shown,
)
from zkdeployment.publishing.targets.systems import SYSTEMS, is_system, system_from_json, system_target
from zkdeployment.tree.checkout import is_checkout, parse_checkout
from zkdeployment.tree.values import PROPERTY_LINK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from zkdeployment.base.host import Identity
    from zkdeployment.base.inventory import Inventory
    from zkdeployment.base.json_values import Properties, Value
    from zkdeployment.base.publication import Targets
    from zkdeployment.base.source_files import Problem
    from zkdeployment.tree.values import Tree


#: The most instances of one service on one host; a larger number is a typing error.
MAX_N = 1000

_DIGEST = re.compile(r"[0-9a-f]{64}")


def deploy_node(service: str) -> str:
    """Return the path of a service's ``deploy`` node, which has the targets as children."""
    return f"{service}/deploy"


def services(tree: Tree) -> frozenset[str]:
    """Return the paths of a tree's service nodes, valid or not."""
    paths = (path.removesuffix("/deploy") for path in tree.nodes if path.endswith("/deploy"))
    return frozenset(path for path in paths if not is_system(tree, path))


def read_service(
    tree: Tree, path: str, *, with_properties: bool = False
) -> tuple[Assignment | None, tuple[Problem, ...]]:
    """Return one instance of the service of a node that has a ``type``, or ``None``, and all problems of the node.

    ``with_properties`` adds the digest of the properties also if ``rerun`` does not need it.
    """
    reader = NodeReader(tree, path)
    reader.attempt(lambda: check_path(path))
    service_type = reader.required("type", check_type)
    version = reader.optional("version", check_version)
    patches = reader.optional("patches", check_patches) or {}
    rerun = reader.optional("rerun", check_rerun) or Rerun.ALWAYS
    after = reader.optional("deploy_after", check_after) or ()
    undeploys_last = reader.optional("undeploy", check_undeploy) or False
    registers_one = reader.optional("registers", check_registers) or False
    reboot_allowed = reader.optional("reboot", check_reboot_allowed) or False
    if service_type is None:
        return None, tuple(reader.problems)
    package, subtype = service_type
    in_place = has_property(tree, path, "version")
    application = package if in_place else _application(reader, package, tree.properties(path) or {})
    for problem in patch_problems(package, version, patches):
        reader.add(problem)
    if reader.problems or application is None:
        return None, tuple(reader.problems)
    properties = reader.attempt(lambda: needed_digest(tree, path, rerun, with_properties=with_properties))
    if reader.problems:
        return None, tuple(reader.problems)
    found = Assignment(
        path=path,
        n=1,
        package=package,
        application=application,
        subtype=subtype,
        version=version,
        patches=patches,
        rerun=rerun,
        properties=properties,
        after=after,
        undeploys_last=undeploys_last,
        registers_one=registers_one,
        reboot_allowed=reboot_allowed,
    )
    return found, ()


def _application(reader: NodeReader, package: str, given: Properties) -> str | None:
    """Return the application of a service without a version; ``None`` with a problem if its package has none."""
    try:
        return application_of(package)
    except TreeError as error:
        import difflib  # noqa: PLC0415  agents start without it

        names = [name.removesuffix(PROPERTY_LINK) for name in given]
        near = difflib.get_close_matches("version", names, n=1, cutoff=0.8)
        hint = f"; did you mean version instead of {near[0]}?" if near else ""
        reader.add(f"{error}{hint}", Correction(near[0], "version") if near else None)
        return None


def check_type(value: Value) -> tuple[str, str | None]:
    """Split a type into package and subtype; raises ``TreeError`` unless it is one or two words."""
    if not isinstance(value, str):
        raise TreeError(f"type is {shown(value)}, expected text: a package name and perhaps a subtype")
    match value.split():
        case [package]:
            return check_package(package), None
        case [package, subtype]:
            return check_package(package), check_name(NameKind.SUBTYPE, subtype)
        case words:
            raise TreeError(
                f"type {shown(value)} has {len(words)} words, expected a package name and perhaps a subtype"
            )


def check_package(value: Value) -> str:
    """Return the name of a package; raises ``TreeError`` unless it is valid and not reserved."""
    if value == SYSTEM:
        raise TreeError(
            f"{SYSTEM} is the reserved type of a node with targets that describes the operating system of hosts;"
            " expected the name of a package"
        )
    return check_name(NameKind.PACKAGE, value)


def application_of(package: str) -> str:
    """Return the part before the last dash of a package name that holds its version; raises ``TreeError``."""
    application, dash, version = package.rpartition("-")
    if not dash:
        raise TreeError(
            f"no version: type {package!a} has no dash; expected a version property or a type like {package}-1.0"
        )
    check_name(NameKind.VERSION, version)
    return check_package(application)


def check_version(value: Value) -> str:
    """Return the version of a package or a checkout as text; raises ``TreeError`` unless it is valid."""
    match value:
        case str():
            return parse_checkout(value).text if is_checkout(value) else check_name(NameKind.VERSION, value)
        case bool():
            pass
        case int() | float() if 0 <= value < 10**15:
            return str(value)
    raise TreeError(f"version is {shown(value)}, expected text like '1.4' or a number")


def check_patches(value: Value) -> dict[str, str]:
    """Return the patches by name; raises ``TreeError`` unless it is a list of ``NAME VERSION``."""
    if not isinstance(value, list):
        raise TreeError(f"patches is {shown(value)}, expected a list like ['foo-fix 1.4']")
    patches: dict[str, str] = {}
    for entry in value:
        match entry.split() if isinstance(entry, str) else None:
            case [name, version]:
                if is_checkout(version):
                    raise TreeError(f"patch {shown(entry)} is a checkout, expected a package's version like 1.4")
                exact = check_version(version)
                if patches.setdefault(check_package(name), exact) != exact:
                    raise TreeError(f"patch {name} is listed in two versions, {patches[name]} and {exact}")
            case _:
                raise TreeError(f"patches holds {shown(entry)}, expected texts like 'foo-fix 1.4'")
    return patches


def patch_problems(package: str, version: str | None, patches: Collection[str]) -> Iterator[str]:
    """Yield the reasons why a package or a checkout cannot have these patches."""
    if package in patches:
        yield f"lists its own package {package} as a patch"
    if patches and is_checkout(version):
        yield f"{package} is checked out, and only packages can have patches; remove patches"


def check_rerun(value: Value) -> Rerun:
    """Return the value of ``rerun``; raises ``TreeError`` unless it is ``'always'`` or ``'changed'``."""
    for rerun in Rerun:
        if value == rerun.value:
            return rerun
    raise TreeError(f"rerun is {shown(value)}, expected 'always' or 'changed'")


def check_after(value: Value) -> tuple[str, ...]:
    """Return the paths of services, sorted; raises ``TreeError`` unless the value is a list of such paths."""
    if not isinstance(value, list):
        raise TreeError(f"deploy_after is {shown(value)}, expected a list of paths of services like ['/shop/db']")
    try:
        return tuple(sorted({check_path(path) for path in value}))
    except TreeError as error:
        raise TreeError(f"deploy_after: {error}") from error


def check_undeploy(value: Value) -> bool:
    """Return whether undeployments are last; raises ``TreeError`` unless the value is 'first' or 'last'."""
    if not isinstance(value, str) or value not in {FIRST, LAST}:
        raise TreeError(f"undeploy is {shown(value)}, expected '{FIRST}' or '{LAST}'")
    return value == LAST


def check_registers(value: Value) -> bool:
    """Return whether only one instance registers; raises ``TreeError`` unless the value is 'all' or 'one'."""
    if not isinstance(value, str) or value not in {ALL, ONE}:
        raise TreeError(f"registers is {shown(value)}, expected '{ALL}' or '{ONE}'")
    return value == ONE


def check_reboot_allowed(value: Value) -> bool:
    """Return whether a deploy script may ask for a reboot; raises ``TreeError`` unless the value is 'allowed'."""
    if value != ALLOWED:
        raise TreeError(f"reboot is {shown(value)}, expected '{ALLOWED}', or no such property on a service")
    return True


def check_group(value: Value) -> str | None:
    """Return the subject of a deployment intent group, ``None`` for no group; raises ``TreeError`` otherwise."""
    if value is None:
        return None
    names = value.split("/") if isinstance(value, str) else []
    if len(names) == 4 and all(is_name(NameKind.PLAIN, name) for name in names):
        return "/".join(names)
    raise TreeError(f"group is {shown(value)}, expected PROJECT/APP/VERSION/NAME")


def check_properties(value: Value) -> str:
    """Return a digest of properties; raises ``TreeError`` unless it is a SHA-256 in hexadecimal digits."""
    if isinstance(value, str) and _DIGEST.fullmatch(value):
        return value
    raise TreeError(f"properties is {shown(value)}, expected a SHA-256 of 64 hexadecimal digits")


def check_n(value: Value) -> int:
    """Return a number of instances; raises ``TreeError`` unless it is a whole number from 0 to ``MAX_N``."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_N:
        return value
    raise TreeError(f"n is {shown(value)}, expected a whole number from 0 to {MAX_N}")


def read_controller(tree: Tree, path: str, *, with_properties: bool = False) -> Assignment:
    """Return the controller of ``/roles/ROLE``, which has a ``type``; raises ``TreeError``.

    The type is the package's name, without a subtype; the version is a package's or a checkout's.
    ``with_properties`` adds the digest of the properties.
    """
    check_path(path)
    package, subtype = check_type(read_property(tree, path, "type"))
    if subtype is not None:
        raise TreeError(f"type of a role controller is '{package} {subtype}', expected a package name alone")
    if not has_property(tree, path, "version"):
        raise TreeError(f"no version: expected the version of the role controller {package}")
    version = check_version(read_property(tree, path, "version"))
    digest = needed_digest(tree, path, Rerun.ALWAYS, with_properties=with_properties)
    return Assignment(path=path, n=1, package=package, application=package, version=version, properties=digest)


def change_controller(
    controller: Assignment | None, needed: Collection[str], inventory: Inventory
) -> ChangeController | None:
    """Return the step that brings the role controller's package up to date, if one is needed.

    For a controller that is a checkout, the step removes the package in its place. ``needed`` are the packages and
    checkouts of the wanted deployments, which are kept even if they have a controller's scripts. Raises
    ``HostFilesError`` if two packages of controllers are installed, or if deployments use the software in the
    controller's directory.
    """
    wanted = "" if controller is None else controller.package
    package = None if controller is None or is_checkout(controller.version) else controller
    _check_place(controller, inventory)
    # Unneeded checkouts are removed with those of deployments.
    installed = inventory.controllers - inventory.checkouts.keys() - (frozenset(needed) - {wanted})
    # A managed controller beside the wanted one is left over from an interrupted switch between the two.
    extra = installed - {wanted} - (inventory.managed.keys() if wanted in installed else frozenset())
    if len(installed) > 1 and extra:
        raise HostFilesError(
            f"two role controllers are installed, {' and '.join(sorted(installed))}, expected one at most:"
            " remove the one that does not belong on this host"
        )
    if package is None and wanted in inventory.packages.keys() & (
        inventory.managed.keys() | inventory.scripts.keys()
    ):
        installed |= {wanted}
    unwanted = installed if package is None else installed - {wanted}
    removed = tuple(sorted(removable_packages(unwanted, inventory)))
    want: dict[str, str | None] = {}
    if package is not None and not _is_there(package, inventory):
        want[package.package] = package.version
    again = frozenset() if package is None or want else _lost(wanted, inventory)
    if not want and not removed and not again:
        return None
    names = frozenset({*want, *removed, *again})
    return ChangeController(
        change=PackageChange(
            want=want,
            remove=frozenset(name for name in removed if name in inventory.packages),
            managed=names,
            reinstall=again,
        ),
        removed=removed,
        registered={name: inventory.managed.get(name, name) for name in sorted(names)},
        reason=f"{wanted} has lost its scripts" if again else _reason(controller, removed, inventory),
    )


def _check_place(controller: Assignment | None, inventory: Inventory) -> None:
    """Raise ``HostFilesError`` if deployments would lose the script that undeploys them.

    The controller changes before the undeployments. A new version of a package or a checkout can undeploy the
    deployments of the old version, but a checkout and a package are different software.
    """
    if controller is None:
        return
    name, is_checked_out = controller.package, controller.package in inventory.checkouts
    used = any(name == (marker.package or marker.application) for marker in inventory.markers)
    if used and is_checked_out is not is_checkout(controller.version):
        raise HostFilesError(
            f"/opt/{name} is {'a checkout' if is_checked_out else 'no checkout'} with deployments, expected room"
            f" for the role controller {name} {controller.version}: publish a revision without both first"
        )


def _is_there(controller: Assignment, inventory: Inventory) -> bool:
    name, version = controller.package, controller.version
    installed = inventory.packages.get(name, ())
    return version is not None and is_installed(installed, version, installonly=name in inventory.installonly)


def _lost(name: str, inventory: Inventory) -> frozenset[str]:
    """Return the controller's name if its package is installed but its scripts are missing."""
    return frozenset({name} if name in inventory.lost_scripts or name not in inventory.controllers else ())


def _reason(controller: Assignment | None, removed: tuple[str, ...], inventory: Inventory) -> str:
    if controller is None:
        return f"the role controller {', '.join(removed)} is not wanted any more"
    asked = f"{controller.path} asks for {controller.package} {controller.version}"
    installed = removed or tuple(str(package) for package in inventory.packages.get(controller.package, ()))
    return f"{asked}, found {', '.join(installed) or 'none'}"


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
    properties = None if fields.get("properties") is None else check_properties(fields["properties"])
    if fields.get("system") is not None:
        return Assignment.of_system(system_from_json(fields["system"]), properties)
    package = check_package(fields["package"])
    application = check_package(fields["application"])
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
        properties=properties,
        after=check_after(fields.get("after", [])),
        undeploys_last=check_undeploy(fields.get("undeploy", FIRST)),
        group=check_group(fields.get("group")),
        registers_one=check_registers(fields.get("registers", ALL)),
        reboot_allowed="reboot" in fields and check_reboot_allowed(fields["reboot"]),
    )


def decode_target(name: str, data: bytes) -> Targets:
    """Return the content of a target's node: its assignments, its system nodes, and the controller of a role.

    Raises ``TreeError``.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TreeError(f"the target {name} does not hold a list of assignments: {error}") from error
    assignments = assignments_from_json(value)
    controller = f"{_ROLES}{name}"
    systems = tuple(assignment for assignment in assignments if assignment.system is not None)
    services = (assignment for assignment in assignments if assignment.system is None)
    return {
        name: tuple(assignment for assignment in services if not assignment.path.startswith(_ROLES)),
        **{assignment.path: (assignment,) for assignment in assignments if assignment.path == controller},
        **({system_target(name): systems} if systems else {}),
    }


def node_of_target(name: str) -> str:
    """Return the target whose published node has the content of a name of ``Targets``."""
    return name.removeprefix(_ROLES).removeprefix(SYSTEMS)


def is_deployed_to(name: str, targets: Targets) -> bool:
    """Whether an instance or a system is deployed to hosts with this id, name or role; no controller counts."""
    assignments = (*targets.get(name, ()), *targets.get(system_target(name), ()))
    return any(one.n or one.system is not None for one in assignments)


def assignments_from_json(value: object) -> tuple[Assignment, ...]:
    """Return the assignments of a JSON list; raises ``TreeError``."""
    if not isinstance(value, list):
        raise TreeError(f"published assignments are {shown(value)}, expected a list; publish again")
    return tuple(assignment_from_json(entry) for entry in value)


def targets_of(identity: Identity) -> tuple[str, ...]:
    """Return the targets whose services a host runs: only its role, if it has one."""
    return (identity.role,) if identity.role is not None else identity.target_names


def unchecked_assignments(identity: Identity, targets: Targets) -> tuple[Assignment, ...]:
    """Return the assignments of a host, sorted by path, without a check for conflicts."""
    assignments = (assignment for name in targets_of(identity) for assignment in targets.get(name, ()))
    return tuple(sorted(assignments, key=by_path))


def role_controller(role: str | None, targets: Targets) -> Sequence[Assignment]:
    """Return the controller of a role as a sequence, empty if it does not exist."""
    return targets.get(f"/roles/{role}", ())


def unchecked_systems(identity: Identity, targets: Targets) -> tuple[Assignment, ...]:
    """Return the system nodes of a host, sorted by path, without a check that there is only one."""
    names = map(system_target, targets_of(identity))
    return tuple(sorted((one for name in names for one in targets.get(name, ())), key=by_path))


#: The key that sorts assignments by path.
by_path = attrgetter("path")
