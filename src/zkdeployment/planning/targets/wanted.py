"""The wanted state of a host according to the targets, after a check for conflicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import TreeError
from zkdeployment.model.deployment import Assignment, DesiredState
from zkdeployment.planning.targets.compiler import compile_targets
from zkdeployment.planning.targets.conflicts import host_conflicts, target_conflicts
from zkdeployment.planning.targets.selection import role_controller, unchecked_assignments
from zkdeployment.planning.targets.withheld import without_withheld

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from zkdeployment.model.host import Identity
    from zkdeployment.model.problem import Problem
    from zkdeployment.model.publication import Targets
    from zkdeployment.model.tree import Tree
    from zkdeployment.planning.targets.withheld import ServiceTarget


def wanted_from_tree(
    identity: Identity, tree: Tree, withheld: Collection[ServiceTarget] = frozenset()
) -> DesiredState:
    """Return the wanted state of a host according to the whole tree; raises ``TreeError`` with all problems.

    ``withheld`` are the services that are not deployed because of the state of their intents.
    """
    whole, problems = compile_targets(tree, only=identity.published_names, checks_conflicts=False)
    targets = without_withheld(whole, withheld)
    problems = (*problems, *target_conflicts(targets, targets))
    if problems:
        raise _tree_error(problems)
    return wanted_for(identity, targets)


def wanted_for(identity: Identity, targets: Targets) -> DesiredState:
    """Return the assignments of a host and its role's controller; raises ``TreeError`` with all problems.

    ``targets`` need to hold only ``identity.published_names``.
    """
    return DesiredState(
        assignments_for(identity, targets), next(iter(role_controller(identity.role, targets)), None)
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
    """Return the problems that ``assignments_for`` would raise for these hosts, each problem once."""
    return tuple(
        dict.fromkeys(problem for identity in identities for problem in host_conflicts(identity, targets))
    )


def _tree_error(problems: Iterable[Problem]) -> TreeError:
    return TreeError("; ".join(str(problem) for problem in problems))
