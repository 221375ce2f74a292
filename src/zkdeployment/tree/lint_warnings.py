"""Suspicious content of a tree file: secrets, versions that lose a zero, and names that look the same."""

from __future__ import annotations

import re
import string
import unicodedata
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from zkdeployment.errors import is_secret, without_passwords
from zkdeployment.model.problem import Problem, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.model.tree import Properties, Value
    from zkdeployment.tree.parse import ParsedFile

#: A text without any of these in lowercase contains no secrets. This fast test settles most texts.
_HINTS = (
    *("pass", "token", "secret", "credential", "apikey", "api_key", "api-key", "authorization"),
    *("-----begin", "akia"),
)
_URL_USER = re.compile(r"://[^\s/]*@")

#: A version that is written as a number.
_NUMBER = re.compile(r"version[ \t]*=[ \t]*([0-9][0-9._eE+-]*)[ \t\r]*(?:#|\n|\Z)")

#: Secrets under any name: private keys, and the access keys of a well-known cloud.
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b")

#: References are no secrets: the path of a file, or a place where another program finds the secret.
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
    """Yield the problems of a section of a file with lines counted in the file."""
    section = file.sections[text]
    top = section.tree.tops[0]
    offset = file.positions[top][0] - section.positions[top][0]
    return (replace(problem, line=offset + (problem.line or 0)) for problem in problems)


def _section_warnings(text: str, section: ParsedFile) -> Iterator[Problem]:
    if _may_have_secrets(text):
        for path, properties in section.tree.nodes.items():
            for name in _secrets(properties):
                message = (
                    f"{name} looks like a secret, which everyone with access to the tree could read;"
                    " put it into a file on the host, and the path of that file here"
                )
                yield _problem(section, path, message, Severity.WARNING)
    yield from _shortened_versions(text, section)


def _lookalike_problems(file: ParsedFile) -> Iterator[Problem]:
    for path in _lookalikes(file.tree.nodes):
        message = f"the node {path!a} is defined twice, in two Unicode spellings that look the same"
        yield _problem(file, path, message, Severity.ERROR)
    for path, properties in file.tree.nodes.items():
        for name in _lookalikes(properties):
            message = f"the property {name!a} is defined twice, in two Unicode spellings that look the same"
            yield _problem(file, path, message, Severity.ERROR)


def _shortened_versions(text: str, file: ParsedFile) -> Iterator[Problem]:
    """Yield a warning for each version whose number has another text: 1.10 becomes 1.1."""
    line, counted = 1, 0
    for match in _NUMBER.finditer(text):
        written, start = match[1], text.rfind("\n", 0, match.start()) + 1
        if text[start : match.start()].strip(string.whitespace):
            continue  # the end of a longer name
        try:
            number = str(float(written) if set(".eE").intersection(written) else int(written))
        except ValueError:
            continue  # the parser reports it
        if number != written:
            message = f"version = {written} is the number {number}; write version = '{written}'"
            line += text.count("\n", counted, start)
            counted = start
            yield Problem(message, file.name, line, match.start() - start + 1, severity=Severity.WARNING)


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


def _problem(file: ParsedFile, path: str, message: str, severity: Severity) -> Problem:
    line, column = file.positions[path]
    return Problem(message, file.name, line, column, path, severity)
