"""The compilation of a tree with intents: all targets, and those that are deployed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.planning.precedence.circles import order_problems
from zkdeployment.planning.services import services
from zkdeployment.planning.targets.compiler import compile_targets, recompile_targets
from zkdeployment.planning.targets.conflicts import target_conflicts
from zkdeployment.planning.targets.governance import (
    governed_services,
    published_intents,
    withheld_services,
)
from zkdeployment.planning.targets.withheld import without_withheld
from zkdeployment.tree.diff import apply_change

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.documents.intents.values import Intent
    from zkdeployment.documents.published import PublishedDocuments
    from zkdeployment.model.problem import Problem
    from zkdeployment.model.publication import Targets, TreeChange
    from zkdeployment.model.tree import Tree
    from zkdeployment.planning.targets.withheld import ServiceTarget


@dataclass(frozen=True, slots=True)
class Compilation:
    """The targets of a tree.

    ``whole`` are those of the tree alone, ``withheld`` the services that their intents do not let be deployed, and
    ``targets`` the rest, which hosts deploy. ``problems`` are those of the tree, and conflicts among ``targets``.
    """

    whole: Targets
    targets: Targets
    problems: tuple[Problem, ...] = ()
    withheld: frozenset[ServiceTarget] = frozenset()


@dataclass(frozen=True, slots=True)
class Recompilation:
    """What the next compilation may build on: the ``last`` one, and the nodes that ``changed`` since."""

    last: Compilation
    changed: Collection[str] = field(default_factory=frozenset)


def compile_tree(
    tree: Tree,
    intents: Collection[Intent] = (),
    *,
    since: Recompilation | None = None,
    with_properties: bool = False,
) -> Compilation:
    """Return the compilation of a tree; services that are withheld are in conflict with no other service.

    ``with_properties`` adds the digest of their properties to all assignments; ``since`` was compiled alike.
    """
    has_last = since is not None and not since.last.problems
    if since is not None and has_last:
        checks_conflicts = not intents and not since.last.withheld
        whole, problems = recompile_targets(
            tree,
            since.changed,
            since.last.whole,
            checks_conflicts=checks_conflicts,
            with_properties=with_properties,
        )
    else:
        checks_conflicts = not intents
        whole, problems = compile_targets(tree, checks_conflicts=checks_conflicts, with_properties=with_properties)
    if any(assignment.after for assignments in whole.values() for assignment in assignments):
        problems = (*problems, *order_problems(whole, services(tree)))
    withheld = withheld_services(intents, governed_services(intents, whole)) if intents else frozenset()
    targets = without_withheld(whole, withheld)
    if not checks_conflicts:
        problems = (*problems, *target_conflicts(targets, targets))
    return Compilation(whole, targets, problems, withheld)


def withheld_after(
    tree: Tree, change: TreeChange, documents: PublishedDocuments
) -> frozenset[ServiceTarget] | None:
    """Return the services that published intents withhold in a tree after a change; ``None`` without intents."""
    intents = published_intents(documents)
    return compile_tree(apply_change(tree, change), intents).withheld if intents else None
