"""All problems of a set of tree files that follow from the language alone.

Problems that depend on hosts or deployments belong to ``planning``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.model.names import RESERVED, NameKind, name_problem
from zkdeployment.model.problem import Problem, Severity
from zkdeployment.model.source_files import TREE_SUFFIXES
from zkdeployment.model.tree import Tree, parent_path, top_path
from zkdeployment.tree.layers import FilePlace, MergedTree, merge
from zkdeployment.tree.lint_warnings import FileWarnings, lint_warnings
from zkdeployment.tree.parse import parse_bytes
from zkdeployment.tree.part_links import PartLinks, follow_links

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zkdeployment.model.source_files import SourceFile
    from zkdeployment.tree.parse import ParsedFile


@dataclass(frozen=True, slots=True)
class LintResult:
    """The parsed and checked tree files.

    ``tree`` is the layer of the ``.zkx`` files over the ``.zk`` files; if there are errors among ``problems``, it
    contains only the parts without errors. ``positions`` maps the path of each node to file, line and column.
    ``problems`` are sorted by file, line and column. ``parsed`` maps each file to its own parsed content,
    ``links`` each part of the tree to its links, ``warnings`` each file to what is suspicious in its text.
    """

    merged: MergedTree
    problems: tuple[Problem, ...]
    parsed: Mapping[SourceFile, ParsedFile] = field(default_factory=dict)
    links: Mapping[str, PartLinks] = field(default_factory=dict)
    warnings: Mapping[str, FileWarnings] = field(default_factory=dict)

    @property
    def tree(self) -> Tree:
        """The merged tree."""
        return self.merged.tree

    @property
    def positions(self) -> Mapping[str, FilePlace]:
        """The place of the first line of each node."""
        return self.merged.positions


def lint(files: Iterable[SourceFile], known: LintResult | None = None) -> LintResult:
    """Parse and check tree files; files that are neither ``.zk`` nor ``.zkx`` are ignored.

    Content that is unchanged since the ``known`` result is not parsed or checked again.
    """
    known = known or LintResult(MergedTree(Tree({}), Tree({}), Tree({})), ())
    last = {source.name: file for source, file in known.parsed.items()}
    read = {
        file: known.parsed.get(file) or parse_bytes(file.name, file.content, last=last.get(file.name))
        for file in tree_files(files)
    }
    parsed = list(read.values())
    merged = merge(parsed)
    problems = [problem for file in parsed for problem in file.problems]
    problems += merged.problems
    if not parsed:
        problems.append(Problem("no tree file found: expected at least one *.zk or *.zkx"))
    warnings = {}
    for source, file in read.items():
        problems += _reserved_problems(file)
        warnings[file.name] = lint_warnings(source.content, file, known.warnings.get(file.name))
        problems += warnings[file.name].problems
    damaged = frozenset(
        problem.path for problem in problems if problem.path is not None and problem.severity is Severity.ERROR
    )
    links = follow_links(merged.tree, known.links)
    problems += _link_problems(merged, links, damaged)
    return LintResult(merged, tuple(sort_problems(problems)), read, links, warnings)


def tree_files(files: Iterable[SourceFile]) -> list[SourceFile]:
    """Return the files that are tree files, sorted by name."""
    return sorted((file for file in files if file.name.endswith(TREE_SUFFIXES)), key=lambda file: file.name)


def sort_problems(problems: Sequence[Problem]) -> list[Problem]:
    """Return problems sorted by file, line and column; those without a place come first."""
    return sorted(
        problems,
        key=lambda problem: (
            problem.file or "",
            problem.line or 0,
            problem.column or 0,
            problem.path or "",
            problem.message,
        ),
    )


def _reserved_problems(file: ParsedFile) -> Iterator[Problem]:
    for top in file.tree.tops:
        if top == "/role-locks":
            yield from _role_lock_problems(file)
        elif top[1:] in RESERVED:
            message = f"{top} is written by zkdeployment itself; a tree file must not have it"
            yield _problem(file, top, message)


def _role_lock_problems(file: ParsedFile) -> Iterator[Problem]:
    """Check that ``/role-locks`` contains only bare nodes ``/role-locks/ROLE``."""
    top = "/role-locks"
    if file.tree.nodes[top]:
        yield _problem(file, top, f"{top} must have no properties")
    for role in file.tree.children(top):
        path = f"{top}/{role}"
        if problem := name_problem(NameKind.ROLE, role):
            yield _problem(file, path, problem)
        if file.tree.nodes[path] or file.tree.children(path):
            yield _problem(file, path, f"{path} must be a bare node: no properties, nothing below it")


def _problem(file: ParsedFile, path: str, message: str) -> Problem:
    line, column = file.positions[path]
    return Problem(message, file.name, line, column, path)


def _link_problems(
    merged: MergedTree, links: Mapping[str, PartLinks], damaged: frozenset[str]
) -> Iterator[Problem]:
    """Yield the problems of broken links.

    A link to a missing node is an error if ``.zk`` files define the whole top-level node. Elsewhere it is a
    warning, because the node may be live. Links to nodes that have problems of their own are not reported.
    """
    managed = frozenset(merged.base.tops)
    for path, name, message, severity, missing in (fault for part in links.values() for fault in part.faults):
        if missing is not None and not damaged.isdisjoint((missing, parent_path(missing))):
            continue
        is_live = missing and top_path(missing) not in managed
        yield Problem(
            f"{message} in the files checked" if is_live else message,
            *merged.links[path, name],
            path,
            Severity.WARNING if is_live else severity,
        )
