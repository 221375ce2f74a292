"""Checks tree files: errors against the language, and warnings about suspicious content.

Problems that depend on hosts or deployments belong to ``publishing.rules.review``.
"""

from __future__ import annotations

import re
import string
import unicodedata
from dataclasses import field, replace
from typing import TYPE_CHECKING

from zkdeployment.base.errors import is_secret, without_passwords
from zkdeployment.base.names import RESERVED, NameKind, name_problem
from zkdeployment.base.source_files import TREE_SUFFIXES, Correction, Problem, Severity, SourceFile
from zkdeployment.base.values import dataclass
from zkdeployment.tree.layers import FilePlace, MergedTree, merge
from zkdeployment.tree.links import PartLinks, follow_links
from zkdeployment.tree.literal import LiteralError, evaluate
from zkdeployment.tree.parse import ParsedFile, parse_bytes
from zkdeployment.tree.values import Tree, parent_path, top_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.json_values import Properties, Value


#: A text without any of these in lowercase contains no secrets. This fast test settles most texts.
_HINTS = (
    *("pass", "token", "secret", "credential", "apikey", "api_key", "api-key", "authorization"),
    *("-----begin", "akia"),
)
_URL_USER = re.compile(r"://[^\s/]*@")

#: A version that is written as a number, or as a difference of numbers.
_NUMBER = re.compile(r"version[ \t]*=[ \t]*([0-9][0-9._eE+-]*)[ \t\r]*(?:#|\n|\Z)")

#: Secrets under any name: private keys, and the access keys of a well-known cloud.
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b")

#: References to secrets are harmless: the path of a file, or a place where another program finds the secret.
_REFERENCE = re.compile(r"(/|\.{1,2}/|~|file:|vault:|\$\{?[A-Za-z_]).*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FileWarnings:
    """The ``problems`` of suspicious content in a file.

    ``sections`` maps the text of each section of the file to its own problems, with lines counted in the section.
    """

    problems: tuple[Problem, ...] = ()
    sections: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)


def lint_warnings(content: bytes, file: ParsedFile, known: FileWarnings | None = None) -> FileWarnings:
    """Return the problems of suspicious content in a file; ``content`` is its text.

    Sections that are unchanged since the ``known`` result are not read again.
    """
    before = {} if known is None else known.sections
    sections = {
        text: before[text] if text in before else tuple(_section_warnings(text, section))
        for text, section in file.sections.items()
    }
    problems = [problem for text in sections if sections[text] for problem in _placed(sections[text], file, text)]
    if not file.sections:  # the parser read the whole text at once
        problems += _section_warnings(content.decode("utf-8", "surrogateescape"), file)
    if not content.isascii():
        problems += _lookalike_problems(file)
    return FileWarnings(tuple(problems), sections)


def _placed(problems: Iterable[Problem], file: ParsedFile, text: str) -> Iterator[Problem]:
    """Yield the problems of a section of a file with lines counted in the file.

    A section without a node has only errors of the syntax.
    """
    section = file.sections[text]
    for top in section.tree.tops[:1]:
        offset = file.positions[top][0] - section.positions[top][0]
        yield from (replace(problem, line=offset + (problem.line or 0)) for problem in problems)


def _section_warnings(text: str, section: ParsedFile) -> Iterator[Problem]:
    if _may_have_secrets(text):
        for path, properties in section.tree.nodes.items():
            for name in _secrets(properties):
                message = (
                    f"{name} looks like a secret, which everyone with access to the tree could read;"
                    " put it into a file on the host, and the path of that file here"
                )
                yield _warning(section, path, message, Severity.WARNING)
    yield from _shortened_versions(text, section)


def _lookalike_problems(file: ParsedFile) -> Iterator[Problem]:
    for path in _lookalikes(file.tree.nodes):
        message = f"the node {path!a} is defined twice, in two Unicode spellings that look the same"
        yield _warning(file, path, message, Severity.ERROR)
    for path, properties in file.tree.nodes.items():
        for name in _lookalikes(properties):
            message = f"the property {name!a} is defined twice, in two Unicode spellings that look the same"
            yield _warning(file, path, message, Severity.ERROR)


def _shortened_versions(text: str, file: ParsedFile) -> Iterator[Problem]:
    """Yield a warning for each version whose number has another text: 1.10 becomes 1.1, and 2.4-1 becomes 1.4."""
    line, counted = 1, 0
    for match in _NUMBER.finditer(text):
        written, start = match[1], text.rfind("\n", 0, match.start()) + 1
        if text[start : match.start()].strip(string.whitespace):
            continue  # the end of a longer name
        try:
            number = str(evaluate(written))
        except LiteralError:
            continue  # the parser reports this one
        if number != written:
            message = f"version = {written} is the number {number}; write version = '{written}'"
            line += text.count("\n", counted, start)
            counted = start
            column, correction = match.start() - start + 1, Correction(written, f"'{written}'")
            yield Problem(message, file.name, line, column, severity=Severity.WARNING, correction=correction)


def _may_have_secrets(text: str) -> bool:
    small = text.lower()
    return any(hint in small for hint in _HINTS) or _URL_USER.search(text) is not None


def _secrets(properties: Properties) -> Iterator[str]:
    """Return the names of properties whose value looks like a secret."""
    return (name for name, value in properties.items() if _looks_secret(name, value))


def _looks_secret(name: str, value: Value) -> bool:
    match value:
        case str():
            if _KEY.search(value) or without_passwords(value) != value:
                return True
            return bool(value) and is_secret(name) and _REFERENCE.fullmatch(value) is None
        case dict():
            return any(_looks_secret(key, item) for key, item in value.items())
        case list():
            return any(_looks_secret(name, item) for item in value)
        case _:
            return False


def _lookalikes(names: Iterable[str]) -> Iterator[str]:
    """Yield each name that looks like an earlier name."""
    seen: set[str] = set()
    for name in names:
        composed = unicodedata.normalize("NFC", name)
        if composed in seen:
            yield name
        seen.add(composed)


def _warning(file: ParsedFile, path: str, message: str, severity: Severity) -> Problem:
    line, column = file.positions[path]
    return Problem(message, file.name, line, column, path, severity)


@dataclass(frozen=True, slots=True)
class LintResult:
    """The parsed and checked tree files.

    ``tree`` is the layer of the ``.zkx`` files over the ``.zk`` files; if there are errors among ``problems``, it
    contains only the parts without errors. ``positions`` maps the path of each node to file, line and column.
    ``problems`` are sorted by file, line and column. ``parsed`` maps each file to its own parsed content,
    ``links`` each part of the tree to its links, ``warnings`` each file to its suspicious content.
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
    links = follow_links(merged.tree, known.tree, known.links)
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
    warning, because the node may be live. Links to nodes that have problems themselves are not reported.
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
