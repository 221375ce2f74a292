"""The compilation of a tree with intents: all targets, and the targets that are deployed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from zkdeployment.planning.precedence.circles import order_problems
from zkdeployment.planning.services import services
from zkdeployment.planning.targets.compiler import compile_targets, recompile_targets
from zkdeployment.planning.targets.conflicts import target_conflicts
from zkdeployment.planning.targets.governance import NO_GOVERNANCE, Governance
from zkdeployment.planning.targets.withheld import without_withheld
from zkdeployment.tree.diff import apply_change

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from zkdeployment.model.deployment import Assignment
    from zkdeployment.model.problem import Problem
    from zkdeployment.model.publication import Targets
    from zkdeployment.model.publishing.tree_change import TreeChange
    from zkdeployment.model.tree import Tree
    from zkdeployment.planning.targets.withheld import ServiceTarget


@dataclass(frozen=True, slots=True)
class Renewal:
    """The targets that an incremental compilation may have changed.

    Only the targets with these ``names`` may differ from those ``before``.
    """

    before: Targets
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Compilation:
    """The targets of a tree.

    ``whole`` are the targets of the tree alone. ``withheld`` are the services whose intents forbid their
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
        """Return the compilation of the same tree, which has no problems, under another governance."""
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
    """Return the compilation of a tree; services that are withheld are in conflict with no other service.

    ``with_properties`` adds the digest of their properties to all assignments; ``since`` was compiled alike.
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
