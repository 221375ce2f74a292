"""The preview of check configurations: the instances that new documents would make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.checks.basis import tree_basis
from zkdeployment.checks.spawning import wanted_instances
from zkdeployment.documents.checks.kinds import CHECK
from zkdeployment.documents.checks.on_call import ON_CALL
from zkdeployment.documents.checks.references import check_problems
from zkdeployment.errors import TreeError
from zkdeployment.model.problem import Severity
from zkdeployment.model.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.checks.basis import CheckedHost
    from zkdeployment.checks.spawning import WantedInstance
    from zkdeployment.documents.checks.on_call import OnCall
    from zkdeployment.documents.collection import Documents
    from zkdeployment.model.publication import Targets


@dataclass(frozen=True, slots=True)
class PreviewBasis:
    """The basis of a preview: a tree, its targets without those that are withheld, and hosts.

    ``systems`` are the names of the monitoring systems that exist, ``checks`` those of the configurations, and
    ``duties`` the on-call duties.
    """

    tree: Tree = field(default_factory=lambda: Tree({}))
    targets: Targets = field(default_factory=dict)
    systems: frozenset[str] = frozenset()
    hosts: Mapping[str, CheckedHost] = field(default_factory=dict)
    duties: tuple[OnCall, ...] = ()
    checks: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CheckPreview:
    """The instances that new configurations would make, and the warnings about their documents."""

    instances: tuple[WantedInstance, ...] = ()
    warnings: tuple[str, ...] = ()


def preview_checks(documents: Documents, basis: PreviewBasis) -> CheckPreview:
    """Return the instances of new configurations; raises ``TreeError`` with all errors of their references."""
    problems = list(check_problems(documents, basis.tree, basis.systems, basis.checks))
    errors = [str(problem) for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        raise TreeError("\n".join(errors))
    duties = (*basis.duties, *documents.of(ON_CALL).values())
    configurations = {found.name: found for found in documents.of(CHECK).values()}
    found = tree_basis(basis.tree.properties, basis.targets, configurations, basis.hosts, duties)
    return CheckPreview(tuple(wanted_instances(found)), tuple(map(str, problems)))
