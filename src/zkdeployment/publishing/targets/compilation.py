"""The compilation of a tree under a governance, and services that would wait for themselves."""

from __future__ import annotations

from collections import deque
from dataclasses import field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from zkdeployment.base.source_files import Problem
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.governance import NO_GOVERNANCE, Governance
from zkdeployment.publishing.targets.compiler import (
    ServiceTarget,
    compile_targets,
    recompile_targets,
    target_conflicts,
    without_withheld,
)
from zkdeployment.publishing.targets.services import services
from zkdeployment.tree.diff import apply_change

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.publication import Targets
    from zkdeployment.tree.values import Tree, TreeChange


_ROLES = "/roles/"


def order_problems(targets: Targets, services: Collection[str]) -> tuple[Problem, ...]:
    """Return the errors in the order between services; ``services`` are the paths of all service nodes.

    A host with a role controller deploys all its services between the controller's scripts. All of them wait
    together, so for circles each counts as waiting for the others.
    """
    waiting = {
        assignment.path: assignment.after
        for assignments in targets.values()
        for assignment in assignments
        if assignment.after
    }
    if not waiting:
        return ()
    return (*_unknown(waiting, services), *_circles(waiting, targets))


def _unknown(waiting: Mapping[str, Collection[str]], services: Collection[str]) -> Iterator[Problem]:
    for path, awaited in sorted(waiting.items()):
        for name in awaited:
            if name not in services:
                message = f"deploy_after names {name}, expected the path of a service; no service has this path"
                yield Problem(message, path=path)


def _circles(waiting: Mapping[str, Collection[str]], targets: Targets) -> Iterator[Problem]:
    """Yield one problem for each circle, at its first service in the order of paths."""
    edges = _edges(waiting, targets)
    found: set[frozenset[str]] = set()
    for path, awaited in sorted(waiting.items()):
        for name in awaited:
            way = _way(name, path, edges)
            if way is not None and frozenset(way) not in found:
                found.add(frozenset(way))
                yield Problem(_sentence([path, *way]), path=path)


def _edges(waiting: Mapping[str, Collection[str]], targets: Targets) -> dict[str, list[str]]:
    """Return the awaited services by service; services of one role controller and its node wait for each other."""
    edges = {path: [*awaited] for path, awaited in waiting.items()}
    for controller in targets:
        if controller.startswith(_ROLES):
            for assignment in targets.get(controller.removeprefix(_ROLES), ()):
                if assignment.n:
                    edges.setdefault(assignment.path, []).append(controller)
                    edges.setdefault(controller, []).append(assignment.path)
    return edges


def _way(start: str, end: str, edges: Mapping[str, Collection[str]]) -> list[str] | None:
    """Return the shortest way from one service to another, with both; ``None`` if it does not exist."""
    before: dict[str, str | None] = {start: None}
    reached = deque([start])
    while reached:
        node = reached.popleft()
        if node == end:
            way: list[str] = []
            step: str | None = node
            while step is not None:
                way.insert(0, step)
                step = before[step]
            return way
        for neighbour in edges.get(node, ()):
            if neighbour not in before:
                before[neighbour] = node
                reached.append(neighbour)
    return None


def _sentence(circle: list[str]) -> str:
    """Return the message about a circle of services in order, with the first one repeated at the end."""
    parts = [circle[0]]
    for before, node in pairwise(circle):
        if node.startswith(_ROLES):
            continue
        if before.startswith(_ROLES):
            parts.append(f"which runs under the controller of role {before.removeprefix(_ROLES)} with {node}")
        else:
            parts.append(f"{'which ' if len(parts) > 1 else ''}waits for {node}")
    sentence = f"{parts[0]} {', '.join(parts[1:])}"
    return f"deploy_after makes a circle, so none of these is ever deployed: {sentence}; remove one of the waits"


@dataclass(frozen=True, slots=True)
class Renewal:
    """The targets that an incremental compilation may have changed.

    Only the targets with these ``names`` may differ from the targets ``before``.
    """

    before: Targets
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Compilation:
    """The targets of a tree.

    ``whole`` are the targets of the tree alone. ``withheld`` are the services whose governance forbids their
    deployment. ``targets`` are the targets without these services: hosts deploy them. ``problems`` are the
    problems of the tree and the conflicts among ``targets``. ``ordered`` are the services that wait for other
    services or have ``undeploy = 'last'``.
    """

    whole: Targets
    targets: Targets
    problems: tuple[Problem, ...] = ()
    withheld: frozenset[ServiceTarget] = frozenset()
    ordered: frozenset[str] = frozenset()
    renewal: Renewal | None = field(default=None, compare=False, repr=False)

    def changed_since(self, before: Targets, *, whole: bool = False) -> frozenset[str]:
        """Return the names of the targets (of the ``whole`` tree) that differ from those ``before``."""
        after = self.whole if whole else self.targets
        renewal = self.renewal
        is_known = renewal is not None and renewal.before is before and after is self.whole
        names = renewal.names if renewal is not None and is_known else {*before, *after}
        return frozenset(name for name in names if before.get(name) != after.get(name))

    def under(self, governance: Governance) -> Compilation:
        """Return the compilation of the same tree, which must have no problems, under another governance."""
        withheld = governance.withheld(self.whole)
        return replace(self, withheld=withheld, targets=_deployed(self.whole, withheld, governance))


@dataclass(frozen=True, slots=True)
class Recompilation:
    """The basis of the next compilation: the ``last`` one, its tree, and the nodes that ``changed`` since."""

    before: Tree
    last: Compilation
    changed: Collection[str] = field(default_factory=frozenset)


def compile_tree(
    tree: Tree,
    governance: Governance = NO_GOVERNANCE,
    *,
    since: Recompilation | None = None,
    with_properties: bool = False,
) -> Compilation:
    """Return the compilation of a tree; withheld services never conflict with other services.

    ``with_properties`` adds the digest of their properties to all assignments; ``since`` must be compiled with the
    same value.
    """
    renewal = None
    if since is not None and not since.last.problems:
        last = since.last
        checks_conflicts = not governance and not last.withheld
        whole, problems, names = recompile_targets(
            tree,
            since.before,
            since.changed,
            last.whole,
            checks_conflicts=checks_conflicts,
            with_properties=with_properties,
        )
        renewal = Renewal(last.whole, names)
        ordered = last.ordered - set(_services(last.whole, names)) | _ordered(whole, names)
    else:
        checks_conflicts = not governance
        whole, problems = compile_targets(tree, checks_conflicts=checks_conflicts, with_properties=with_properties)
        ordered = _ordered(whole, whole)
    if ordered:
        problems = (*problems, *order_problems(whole, services(tree)))
    withheld = governance.withheld(whole)
    targets = _deployed(whole, withheld, governance)
    if not checks_conflicts:
        problems = (*problems, *target_conflicts(targets, targets))
    return Compilation(whole, targets, problems, withheld, ordered, renewal)


def _deployed(whole: Targets, withheld: frozenset[ServiceTarget], governance: Governance) -> Targets:
    """Return the targets that hosts deploy, with the groups that failures of their services stop."""
    return governance.with_groups(without_withheld(whole, withheld))


def _services(targets: Targets, names: Iterable[str]) -> dict[str, Assignment]:
    """Return an assignment of each service that the targets with these names have, by the path of the service."""
    return {assignment.path: assignment for name in names for assignment in targets.get(name, ())}


def _ordered(targets: Targets, names: Iterable[str]) -> frozenset[str]:
    assigned = _services(targets, names)
    return frozenset(path for path, one in assigned.items() if one.after or one.undeploys_last)


def withheld_after(tree: Tree, change: TreeChange, published: Governance) -> frozenset[ServiceTarget] | None:
    """Return the services that are withheld in a tree after a change; ``None`` without any governance."""
    return compile_tree(apply_change(tree, change), published).withheld if published else None
