"""Compiles a tree into targets, and decides the wanted state of a host, after a check for conflicts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.base.deployment import Assignment, DesiredState, Rerun
from zkdeployment.base.errors import TreeError
from zkdeployment.base.names import NameKind, is_name
from zkdeployment.base.source_files import Problem
from zkdeployment.publishing.targets.properties import has_property, needed_digest, read_property
from zkdeployment.publishing.targets.services import (
    by_path,
    check_n,
    node_of_target,
    read_controller,
    read_service,
    role_controller,
    unchecked_assignments,
    unchecked_systems,
)
from zkdeployment.publishing.targets.systems import is_system, read_system, system_conflicts, system_target
from zkdeployment.tree.checkout import is_checkout
from zkdeployment.tree.values import Tree, node_name, parent_path, top_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.host import Identity
    from zkdeployment.base.publication import Targets
    from zkdeployment.base.system import WantedSystem


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
    """Return the withheld targets that ``withheld_to_json`` encoded, without malformed entries."""
    return frozenset(
        (path, target)
        for path, names in value.items()
        if isinstance(names, list)
        for target in names
        if isinstance(target, str)
    )


def host_conflicts(identity: Identity, targets: Targets) -> Iterator[Problem]:
    """Yield the conflicts between the assignments of one host, and of its role's controller."""
    if identity.role is not None:
        for name in identity.target_names:
            for assignment in _entries(name, targets) if name != identity.role else ():
                path = f"{assignment.path}/deploy/{name}"
                role = identity.role
                message = f"{path} is for {identity}, which has the role {role}: only deploy/{role} counts"
                yield Problem(message, path=path)
    elif identity.id != identity.name:
        by_id = {assignment.path for assignment in _entries(identity.id, targets)}
        for assignment in _entries(identity.name, targets):
            if assignment.path in by_id:
                message = (
                    f"{assignment.path} is deployed to both {identity.name} and {identity.id}, which are one host"
                )
                yield Problem(message, path=assignment.path)
    software = (*unchecked_assignments(identity, targets), *role_controller(identity.role, targets))
    yield from _conflicts(software)
    yield from system_conflicts(unchecked_systems(identity, targets), software)


def _entries(name: str, targets: Targets) -> Iterator[Assignment]:
    """Yield the services and the system nodes of a target."""
    yield from targets.get(name, ())
    yield from targets.get(system_target(name), ())


def target_conflicts(names: Iterable[str], targets: Targets) -> Iterable[Problem]:
    """Return the conflicts within each of the targets with these ``names``, each conflict once."""
    return dict.fromkeys(
        problem for name in sorted(names) for problem in _target_conflicts(node_of_target(name), targets)
    )


def _target_conflicts(name: str, targets: Targets) -> Iterator[Problem]:
    software = (*targets.get(name, ()), *role_controller(name, targets))
    yield from _conflicts(software)
    yield from system_conflicts(targets.get(system_target(name), ()), software)


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
    """Whether a host cannot have both versions; packages, not checkouts, satisfy ``None`` (any version)."""
    if version is None or other is None:
        return version is not other and (is_checkout(version) or is_checkout(other))
    return version != other


def _with_version(package: str, version: str | None) -> str:
    return package if version is None else f"{package} {version}"


def compile_targets(
    tree: Tree,
    *,
    only: Collection[str] | None = None,
    checks_conflicts: bool = True,
    with_properties: bool = False,
) -> tuple[Targets, tuple[Problem, ...]]:
    """Return the targets of a tree and all problems, each with its path.

    The key of a role's controller is the path of its node, ``/roles/ROLE``, which cannot be the name of a target.
    The system nodes of a target have the key ``/system/TARGET``.
    ``only`` restricts targets and problems to these names, because errors for other hosts do not concern an agent.
    Without ``checks_conflicts``, conflicts between services of one target are not reported. ``with_properties``
    adds the digest of the properties to all assignments, and not only to those that need it because of ``rerun =
    'changed'``.
    """
    compiler = _Compiler(tree, with_properties=with_properties)
    compiler.read(tree.nodes, only)
    targets = {
        name: tuple(sorted(assignments, key=by_path)) for name, assignments in sorted(compiler.targets.items())
    }
    conflicts = target_conflicts(targets, targets) if checks_conflicts else ()
    return targets, (*compiler.problems, *conflicts)


def recompile_targets(
    tree: Tree,
    before: Tree,
    changed: Collection[str],
    last: Targets,
    *,
    checks_conflicts: bool = True,
    with_properties: bool = False,
) -> tuple[Targets, tuple[Problem, ...], frozenset[str]]:
    """Return the result of ``compile_targets``, but compile only services that the ``changed`` nodes affect.

    The last value of the result has the names of the targets that may differ from the ``last`` targets.

    ``last`` are the targets of the tree ``before`` the change, which had no problems. ``changed`` must include all
    nodes with property links whose values may have changed. ``with_properties`` must have the value with which
    ``last`` was compiled.
    """
    stale = frozenset(path for node in changed for path in _concerned(node))
    compiler = _Compiler(tree, with_properties=with_properties)
    compiler.read(_nodes_of(stale, tree))
    names = {_target_name(path) for path in _nodes_of(stale, before)}
    renewed = frozenset({*compiler.targets, *names, *(last.keys() & map(system_target, names))})
    targets = dict(last)
    for name in renewed:
        kept = [assignment for assignment in last.get(name, ()) if assignment.path not in stale]
        if assignments := [*kept, *compiler.targets.get(name, ())]:
            targets[name] = tuple(sorted(assignments, key=by_path))
        else:
            targets.pop(name, None)
    checked = renewed | {node_of_target(name) for name in renewed}
    conflicts = target_conflicts(checked & targets.keys(), targets) if checks_conflicts else ()
    return targets, (*compiler.problems, *conflicts), renewed


class _Compiler:
    """One compilation, which reads each service node once for all its targets."""

    def __init__(self, tree: Tree, *, with_properties: bool) -> None:
        self.tree = tree
        self.with_properties = with_properties
        self.services: dict[str, Assignment | None] = {}
        self.systems: dict[str, Assignment | None] = {}
        self.made: dict[tuple[str, int], Assignment] = {}
        self.targets: dict[str, list[Assignment]] = {}
        self.problems: list[Problem] = []
        self.above_types: frozenset[str] | None = None

    def read(self, paths: Iterable[str], only: Collection[str] | None = None) -> None:
        """Add the controllers and targets among these nodes that have one of these names (``None``: all)."""
        for path in paths:  # this code runs for each node of the tree
            above, _, name = path.rpartition("/")
            if above == "/roles":
                if only is None or path in only:
                    self._add_controller(path)
            elif above[-7:] != "/deploy" or above == "/deploy" or path.startswith("/roles/"):
                continue
            elif only is None or name in only:
                self._add(above[:-7], path, name)

    def _add(self, service_path: str, path: str, name: str) -> None:
        """Add one target of a service: ``path`` is ``SERVICE/deploy/NAME``."""
        if service_path not in self.services and not self._read_service(service_path, path, name):
            return
        service = self.services[service_path]
        listed = self.targets.get(name)
        if listed is None and (problem := target_problem(name)):
            self.problems.append(Problem(problem, path=path))
            return
        if self.tree.properties(path) and has_property(self.tree, path, "n"):
            try:
                n = check_n(read_property(self.tree, path, "n"))
            except TreeError as error:
                self.problems.append(Problem(str(error), path=path))
                return
            service = service and self._instances(service, n)
        if service is not None:
            if listed is None:
                self.targets[name] = [service]
            else:
                listed.append(service)

    def _read_service(self, service_path: str, path: str, name: str) -> bool:
        """Read a service with the target ``path``; return whether its node is that of a service, valid or not.

        The target ``name`` of a system node is added.
        """
        if not has_property(self.tree, service_path, "type"):
            self._note_missing_type(service_path, path)
            return False
        if is_system(self.tree, service_path):
            self._add_system(service_path, path, name)
            return False
        service, problems = read_service(self.tree, service_path, with_properties=self.with_properties)
        self.problems += problems
        self.services[service_path] = service
        return True

    def _instances(self, service: Assignment, n: int) -> Assignment:
        """Return a service with this number of instances; targets with the same number share the value."""
        if (service.path, n) not in self.made:
            self.made[service.path, n] = replace(service, n=n)
        return self.made[service.path, n]

    def _add_system(self, node: str, path: str, name: str) -> None:
        """Add one target of a system node: ``path`` is ``NODE/deploy/NAME``."""
        if node not in self.systems:
            system, problems = read_system(self.tree, node)
            self.problems += problems
            self.systems[node] = None if system is None else self._entry(system)
        problem = target_problem(name)
        if problem is None and has_property(self.tree, path, "n"):
            problem = "n is a property of the targets of services; an operating system has no instances: remove n"
        if problem is not None:
            self.problems.append(Problem(problem, path=path))
        elif (entry := self.systems[node]) is not None:
            self.targets.setdefault(system_target(name), []).append(entry)

    def _entry(self, system: WantedSystem) -> Assignment | None:
        try:
            digest = needed_digest(self.tree, system.path, Rerun.ALWAYS, with_properties=self.with_properties)
        except TreeError as error:
            self.problems.append(Problem(str(error), path=system.path))
            return None
        return Assignment.of_system(system, digest)

    def _add_controller(self, path: str) -> None:
        if has_property(self.tree, path, "type"):
            try:
                controller = read_controller(self.tree, path, with_properties=self.with_properties)
            except TreeError as error:
                self.problems.append(Problem(str(error), path=path))
            else:
                self.targets[path] = [controller]

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


def target_problem(name: str) -> str | None:
    """Return why a node below ``deploy`` cannot be a target, or ``None`` if it can."""
    if is_name(NameKind.HOST_ID, name) or is_name(NameKind.HOST_NAME, name) or is_name(NameKind.ROLE, name):
        return None
    shown = name if len(name) <= 60 else name[:57] + "..."
    return f"{shown!a} is not a host id, a host name or a role, so nothing can be deployed to it"


def _target_name(path: str) -> str:
    """Return the name of the target of a node ``SERVICE/deploy/NAME`` or of the controller ``/roles/ROLE``."""
    return path if path.startswith("/roles/") else node_name(path)


def _nodes_of(services: Collection[str], tree: Tree) -> Iterator[str]:
    """Yield the target nodes of these services in a tree, and the controllers among these services."""
    places = {f"{path}/deploy" for path in services}
    tops = {top_path(path) for path in services}
    for part in [part for top, part in tree.parts.items() if top in tops]:
        for path in part:
            if parent_path(path) in places or (path.startswith("/roles/") and path in services):
                yield path


def _concerned(path: str) -> Iterator[str]:
    """Yield services and controllers that may depend on a node: the node, and the service of its ``deploy``."""
    yield path
    while path:
        path, _, name = path.rpartition("/")
        if name == "deploy":
            yield path


def wanted_from_tree(
    identity: Identity, tree: Tree, withheld: Collection[ServiceTarget] = frozenset()
) -> DesiredState:
    """Return the wanted state of a host according to the whole tree; raises ``TreeError`` with all problems.

    ``withheld`` are the services that are withheld because of the state of their intents.
    """
    whole, problems = compile_targets(tree, only=identity.published_names, checks_conflicts=False)
    targets = without_withheld(whole, withheld)
    problems = (*problems, *target_conflicts(targets, targets))
    if problems:
        raise _tree_error(problems)
    return wanted_for(identity, targets)


def wanted_for(identity: Identity, targets: Targets) -> DesiredState:
    """Return the wanted state of a host; raises ``TreeError`` with all problems.

    ``targets`` need to hold only ``identity.published_names`` and the system nodes of its targets.
    """
    return DesiredState(
        assignments_for(identity, targets),
        next(iter(role_controller(identity.role, targets)), None),
        next((entry.system for entry in unchecked_systems(identity, targets)), None),
    )


def assignments_for(identity: Identity, targets: Targets) -> tuple[Assignment, ...]:
    """Return the assignments of a host, sorted by path; raises ``TreeError`` with all problems.

    A host with a role gets the assignments of the role only, another host those of its id and its name.
    """
    problems = tuple(host_conflicts(identity, targets))
    if problems:
        raise _tree_error(problems)
    return unchecked_assignments(identity, targets)


def host_problems(targets: Targets, identities: Iterable[Identity]) -> tuple[Problem, ...]:
    """Return the problems that ``assignments_for`` would raise for these hosts, each once."""
    return tuple(
        dict.fromkeys(problem for identity in identities for problem in host_conflicts(identity, targets))
    )


def _tree_error(problems: Iterable[Problem]) -> TreeError:
    return TreeError("; ".join(str(problem) for problem in problems))
