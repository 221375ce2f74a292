"""Targets: the services that each host id, host name and role is to run, compiled from the whole tree.

The syncer compiles targets for publication and checks them for all hosts; an agent checks its own again. Both use
this module, so a tree that one of them accepts is accepted by the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from zkdeployment.errors import TreeError
from zkdeployment.model.checkout import is_checkout
from zkdeployment.model.deployment import Assignment, DesiredState
from zkdeployment.model.names import NameKind, is_name
from zkdeployment.model.problem import Problem
from zkdeployment.model.tree import parent_path
from zkdeployment.planning.controllers import read_controller
from zkdeployment.planning.services import (
    Service,
    application_of,
    check_n,
    check_name,
    check_patches,
    check_path,
    check_version,
    has_property,
    patch_problems,
    read_property,
    read_service,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.model.host import Identity
    from zkdeployment.model.publication import Targets
    from zkdeployment.model.tree import Tree, Value

_FIELDS = frozenset({"path", "n", "package", "application", "subtype", "version", "patches"})


def compile_targets(tree: Tree, *, only: Collection[str] | None = None) -> tuple[Targets, tuple[Problem, ...]]:
    """Return the targets of a tree and all problems, each with its path.

    The key of a role's controller is the path of its node, ``/roles/ROLE``, which is no target's name. ``only``
    restricts targets and problems to these names: errors for other hosts do not concern an agent.
    """
    compiler = _Compiler(tree)
    compiler.read(tree.nodes, only)
    targets = {
        name: tuple(sorted(assignments, key=_by_path)) for name, assignments in sorted(compiler.targets.items())
    }
    return targets, (*compiler.problems, *_all_conflicts(targets, targets))


def recompile_targets(tree: Tree, changed: Collection[str], last: Targets) -> tuple[Targets, tuple[Problem, ...]]:
    """Return the result of ``compile_targets``, but compile only services that the ``changed`` nodes concern.

    ``last`` are the targets of the tree before the change, which had no problems. ``changed`` must include all
    nodes with property links, because these depend on other nodes.
    """
    stale = frozenset(path for node in changed for path in _concerned(node))
    compiler = _Compiler(tree)
    places = {f"{path}/deploy" for path in stale}
    compiler.read(path for path in tree.nodes if path in stale or path.rpartition("/")[0] in places)
    renewed = {
        name for name, assignments in last.items() if any(assignment.path in stale for assignment in assignments)
    }
    renewed |= compiler.targets.keys()
    targets = {name: assignments for name, assignments in last.items() if name not in renewed}
    for name in renewed:
        kept = [assignment for assignment in last.get(name, ()) if assignment.path not in stale]
        if assignments := [*kept, *compiler.targets.get(name, ())]:
            targets[name] = tuple(sorted(assignments, key=_by_path))
    checked = renewed | {name.removeprefix("/roles/") for name in renewed}
    return targets, (*compiler.problems, *_all_conflicts(checked & targets.keys(), targets))


def wanted_from_tree(identity: Identity, tree: Tree) -> DesiredState:
    """Return what a host is to run according to the whole tree; raises ``TreeError`` with all problems."""
    targets, problems = compile_targets(tree, only=identity.published_names)
    if problems:
        raise _tree_error(problems)
    return wanted_for(identity, targets)


def wanted_for(identity: Identity, targets: Targets) -> DesiredState:
    """Return what a host is to run and its role's controller; raises ``TreeError`` with all problems.

    ``targets`` need to hold only ``identity.published_names``.
    """
    return DesiredState(assignments_for(identity, targets), next(iter(_controllers(identity.role, targets)), None))


def assignments_for(identity: Identity, targets: Targets) -> tuple[Assignment, ...]:
    """Return the assignments of a host, sorted by path; raises ``TreeError`` with all problems.

    A host with a role gets the assignments of the role only, another host those of its id and its name.
    """
    problems = tuple(_host_conflicts(identity, targets))
    if problems:
        raise _tree_error(problems)
    return unchecked_assignments(identity, targets)


def unchecked_assignments(identity: Identity, targets: Targets) -> tuple[Assignment, ...]:
    """Return the assignments of a host, sorted by path, without a check for conflicts."""
    names = (identity.role,) if identity.role is not None else identity.target_names
    assignments = (assignment for name in names for assignment in targets.get(name, ()))
    return tuple(sorted(assignments, key=_by_path))


def host_problems(targets: Targets, identities: Iterable[Identity]) -> tuple[Problem, ...]:
    """Return the problems that ``assignments_for`` would raise for these hosts, each problem once."""
    return tuple(
        dict.fromkeys(problem for identity in identities for problem in _host_conflicts(identity, targets))
    )


def assignment_from_json(value: object) -> Assignment:
    """Return the assignment that ``Assignment.to_json`` encoded, checked again; raises ``TreeError``."""
    if not isinstance(value, dict) or value.keys() != _FIELDS:
        expected = ", ".join(sorted(_FIELDS))
        found = ", ".join(sorted(map(str, value))) if isinstance(value, dict) else shown(value)
        raise TreeError(f"a published assignment must have {expected}; found {found}; publish again")
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
    )


def assignments_from_json(value: object) -> tuple[Assignment, ...]:
    """Return the assignments of a JSON list; raises ``TreeError``."""
    if not isinstance(value, list):
        raise TreeError(f"published assignments are {shown(value)}, expected a list; publish again")
    return tuple(assignment_from_json(entry) for entry in value)


class _Compiler:
    """One compilation: each service node is read once, however many targets it has."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.services: dict[str, Service | None] = {}
        self.made: dict[tuple[str, int], Assignment] = {}
        self.targets: dict[str, list[Assignment]] = {}
        self.problems: list[Problem] = []
        self.above_types: frozenset[str] | None = None

    def read(self, paths: Iterable[str], only: Collection[str] | None = None) -> None:
        """Add the controllers and targets among these nodes that have one of these names (``None``: all)."""
        for path in paths:
            above, _, name = path.rpartition("/")
            if path.startswith("/roles/"):
                name = path
            if only is not None and name not in only:
                continue
            if above == "/roles":
                self._add_controller(path)
            elif name != path and above.endswith("/deploy") and above != "/deploy":
                self._add(above.removesuffix("/deploy"), path, name)

    def _add(self, service_path: str, path: str, name: str) -> None:
        """Add one target of a service: ``path`` is ``SERVICE/deploy/NAME``."""
        if service_path not in self.services:
            if not has_property(self.tree, service_path, "type"):
                self._note_missing_type(service_path, path)
                return
            self.services[service_path], problems = read_service(self.tree, service_path)
            self.problems += problems
        service = self.services[service_path]
        if problem := _target_problem(name):
            self.problems.append(Problem(problem, path=path))
            return
        n = 1
        if self.tree.nodes[path] and has_property(self.tree, path, "n"):
            try:
                n = check_n(read_property(self.tree, path, "n"))
            except TreeError as error:
                self.problems.append(Problem(str(error), path=path))
                return
        if service is not None:
            self.targets.setdefault(name, []).append(self._assignment(service_path, service, n))

    def _assignment(self, path: str, service: Service, n: int) -> Assignment:
        """Return the assignment of a service; targets with the same number of instances share it."""
        if (path, n) not in self.made:
            self.made[path, n] = Assignment(
                path=path,
                n=n,
                package=service.package,
                application=service.application,
                subtype=service.subtype,
                version=service.version,
                patches=service.patches,
            )
        return self.made[path, n]

    def _add_controller(self, path: str) -> None:
        if has_property(self.tree, path, "type"):
            try:
                self.targets[path] = [read_controller(self.tree, path)]
            except TreeError as error:
                self.problems.append(Problem(str(error), path=path))

    def _note_missing_type(self, service_path: str, path: str) -> None:
        """Add a problem for a service without a type, unless its ``deploy`` node is an ordinary node.

        A service may itself be called deploy, and so may a node above services.
        """
        if has_property(self.tree, service_path + "/deploy", "type") or path in self._above_types():
            return
        self.services[service_path] = None
        message = "no type: it has a deploy node, so expected a package name and perhaps a subtype"
        self.problems.append(Problem(message, path=service_path))

    def _above_types(self) -> frozenset[str]:
        """Return the nodes that have a type, and all nodes above them."""
        if self.above_types is None:
            paths: set[str] = set()
            for path in self.tree.nodes:
                node = path if has_property(self.tree, path, "type") else ""
                while node and node not in paths:
                    paths.add(node)
                    node = parent_path(node)
            self.above_types = frozenset(paths)
        return self.above_types


def _target_problem(name: str) -> str | None:
    """Return why a node below ``deploy`` cannot be a target, or ``None`` if it can."""
    if any(is_name(kind, name) for kind in (NameKind.HOST_ID, NameKind.HOST_NAME, NameKind.ROLE)):
        return None
    shown = name if len(name) <= 60 else name[:57] + "..."
    return f"{shown!a} is not a host id, a host name or a role, so nothing can be deployed to it"


def _host_conflicts(identity: Identity, targets: Targets) -> Iterator[Problem]:
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
    yield from _conflicts((*unchecked_assignments(identity, targets), *_controllers(identity.role, targets)))


def _concerned(path: str) -> Iterator[str]:
    """Yield the services and controllers that may depend on a node: itself, and services with it in ``deploy``."""
    yield path
    while path:
        path, _, name = path.rpartition("/")
        if name == "deploy":
            yield path


def _controllers(role: str | None, targets: Targets) -> Sequence[Assignment]:
    """Return the controller of a role as a sequence, empty if there is none."""
    return targets.get(f"/roles/{role}", ())


def _all_conflicts(names: Iterable[str], targets: Targets) -> Iterable[Problem]:
    """Return the conflicts within targets, each once."""
    return dict.fromkeys(
        problem for name in sorted(names) for problem in _conflicts((*targets[name], *_controllers(name, targets)))
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


def _tree_error(problems: Iterable[Problem]) -> TreeError:
    return TreeError("; ".join(str(problem) for problem in problems))


def _by_path(assignment: Assignment) -> str:
    return assignment.path
