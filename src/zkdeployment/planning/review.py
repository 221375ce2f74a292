"""Everything wrong with a set of files: what the language says, the plans, and the strategies of rollouts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.model.problem import Problem, Severity
from zkdeployment.model.tree import PROPERTY_LINK, SYMBOLIC_LINK, parent_path
from zkdeployment.planning.services import has_property
from zkdeployment.planning.targets import compile_targets, recompile_targets
from zkdeployment.rollout.documents import Documents, document_files, read_strategies
from zkdeployment.tree.diff import diff
from zkdeployment.tree.lint import LintResult, lint, sort_problems, tree_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zkdeployment.model.publication import Targets
    from zkdeployment.model.source_files import SourceFile
    from zkdeployment.model.tree import Tree

#: To be counted up whenever the same text comes to mean another tree or other targets: what an older program
#: published is not taken for granted then.
RULES = 2


@dataclass(frozen=True, slots=True)
class Review:
    """Files, read, checked and compiled; ``problems`` are all there are, sorted by their places.

    ``targets`` and ``conflicts`` are what compiling the text alone gives, ``documents`` what it says of rollouts.
    Equal fingerprints are equal texts.
    """

    fingerprint: str
    linted: LintResult
    targets: Targets
    conflicts: tuple[Problem, ...]
    problems: tuple[Problem, ...]
    documents: Documents = Documents()  # noqa: RUF009  it cannot be changed

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that forbid publication."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)

    @property
    def spare_strategies(self) -> tuple[Problem, ...]:
        """The strategies that are not in force while another is: errors of lint that forbid no publication."""
        return self.documents.unused if self.documents.in_force else ()


def fingerprint(files: Sequence[SourceFile]) -> str:
    """Return a text that tells these files, by the rules of this program, from all others."""
    digest = hashlib.sha256(f"{RULES}\n".encode())
    for file in (*tree_files(files), *document_files(files)):
        digest.update(f"{file.name}\n{len(file.content)}\n".encode())
        digest.update(file.content)
    return digest.hexdigest()


def review(files: Iterable[SourceFile], last: Review | None = None) -> Review:
    """Check files as lint, plan and the syncer do before anything is published.

    What did not change since the ``last`` review is not read again.
    """
    files = tuple(files)
    found = fingerprint(files)
    if last is not None and last.fingerprint == found:
        return last
    linted = lint(files, None if last is None else last.linted)
    documents = read_strategies(document_files(files), None if last is None else last.documents)
    targets, conflicts = _compile(linted, last)
    damaged = _paths(linted, Severity.ERROR)
    near = damaged.union(*(_above(path) for path in damaged))
    dubious = _paths(linted, Severity.WARNING)
    # Whoever has a strategy alone checked does not miss a tree.
    placed = [*(linted.problems if linted.parsed or not documents.files else ()), *documents.errors]
    for problem in conflicts:
        # What may only be there because a line of its node, or below it, could not be understood, is not said.
        if problem.path in near:
            continue
        # What hangs on a link to nodes that only the live tree knows is judged when it is published.
        severity = Severity.WARNING if problem.path in dubious else problem.severity
        placed.append(place(replace(problem, severity=severity), linted))
    placed += _linked_targets(linted)
    placed += (place(problem, linted) for problem in _misplaced(linted.tree))
    return Review(found, linted, targets, conflicts, tuple(sort_problems(placed)), documents)


def _compile(linted: LintResult, last: Review | None) -> tuple[Targets, tuple[Problem, ...]]:
    if last is None or last.conflicts:
        return compile_targets(linted.tree)
    linked = {path for path, name in linted.merged.links if name.endswith(PROPERTY_LINK)}
    changed = linked | diff(last.linted.tree, linted.tree).paths
    return recompile_targets(linted.tree, changed, last.targets)


def _linked_targets(linted: LintResult) -> Iterator[Problem]:
    """Refuse symbolic links where a service says who runs it: only nodes count there, so nobody would."""
    for (path, name), where in linted.merged.links.items():
        if name == f"deploy{SYMBOLIC_LINK}":
            service, what = path, "deploy"
        elif name.endswith(SYMBOLIC_LINK) and path.endswith("/deploy"):
            service, what = parent_path(path), f"deploy/{name.removesuffix(SYMBOLIC_LINK)}"
        else:
            continue
        if has_property(linted.tree, service, "type"):
            yield Problem(f"{what} of a service must be a node, not a link", *where, path)


def _misplaced(tree: Tree) -> Iterator[Problem]:
    """Warn of what stands where it says nothing of a service: ``n`` beside its targets, a node like ``Deploy``."""
    for path, properties in tree.nodes.items():
        name = path[-7:]
        if name.lower() != "/deploy" or (name == "/deploy" and not properties):
            continue
        if not has_property(tree, parent_path(path), "type") or has_property(tree, path, "type"):
            continue
        if name != "/deploy":
            words = f"{name} is not read; a service is deployed by its child /deploy, in small letters"
            yield Problem(words, path=path, severity=Severity.WARNING)
        elif has_property(tree, path, "n"):
            words = "n of a deploy node is not read; set n on each target below the node"
            yield Problem(words, path=path, severity=Severity.WARNING)


def place(problem: Problem, linted: LintResult) -> Problem:
    """Fill in the place of a problem that knows its node's path only: the node's, or that of the nearest above."""
    path = problem.path
    while problem.file is None and path:
        if path in linted.positions:
            file, line, column = linted.positions[path]
            return replace(problem, file=file, line=line, column=column)
        path = parent_path(path)
    return problem


def _paths(linted: LintResult, severity: Severity) -> set[str]:
    return {found.path for found in linted.problems if found.path is not None and found.severity is severity}


def _above(path: str) -> Iterator[str]:
    while path := parent_path(path):
        yield path
