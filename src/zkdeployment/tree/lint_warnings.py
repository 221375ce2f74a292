"""Suspicious content of a tree file: secrets, versions that lose a zero, and names that look the same."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from zkdeployment.errors import is_secret, without_passwords
from zkdeployment.model.problem import Problem, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zkdeployment.model.tree import Properties, Value
    from zkdeployment.tree.parse import ParsedFile

#: A file without any of these in its lowercase text contains no secrets. This fast test settles most files.
_HINTS = (
    *(b"pass", b"token", b"secret", b"credential", b"apikey", b"api_key", b"api-key", b"authorization"),
    *(b"-----begin", b"akia"),
)
_URL_USER = re.compile(rb"://[^\s/]*@")

#: A version that is written as a number.
_NUMBER = re.compile(rb"version[ \t]*=[ \t]*([0-9][0-9._eE+-]*)[ \t\r]*(?:#|\n|\Z)")

#: Secrets under any name: private keys, and the access keys of a well-known cloud.
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b")

#: References are no secrets: the path of a file, or a place where another program finds the secret.
_REFERENCE = re.compile(r"(/|\.{1,2}/|~|file:|vault:|\$\{?[A-Za-z_]).*", re.DOTALL)


def lint_warnings(content: bytes, file: ParsedFile) -> Iterator[Problem]:
    """Yield the problems of suspicious content in a file; ``content`` is its text."""
    if _may_have_secrets(content):
        for path, properties in file.tree.nodes.items():
            for name in _secrets(properties):
                message = (
                    f"{name} looks like a secret, which everyone with access to the tree could read;"
                    " put it into a file on the host, and the path of that file here"
                )
                yield _problem(file, path, message, Severity.WARNING)
    yield from _shortened_versions(content, file)
    if not content.isascii():
        for path in _lookalikes(file.tree.nodes):
            message = f"the node {path!a} is defined twice, in two Unicode spellings that look the same"
            yield _problem(file, path, message, Severity.ERROR)
        for path, properties in file.tree.nodes.items():
            for name in _lookalikes(properties):
                message = f"the property {name!a} is defined twice, in two Unicode spellings that look the same"
                yield _problem(file, path, message, Severity.ERROR)


def _shortened_versions(content: bytes, file: ParsedFile) -> Iterator[Problem]:
    """Yield a warning for each version whose number has another text: 1.10 becomes 1.1."""
    line, counted = 1, 0
    for match in _NUMBER.finditer(content):
        written, start = match[1].decode("ascii"), content.rfind(b"\n", 0, match.start()) + 1
        if content[start : match.start()].strip():
            continue  # the end of a longer name
        try:
            number = str(float(written) if set(".eE").intersection(written) else int(written))
        except ValueError:
            continue  # the parser reports it
        if number != written:
            message = f"version = {written} is the number {number}; write version = '{written}'"
            line += content.count(b"\n", counted, start)
            counted = start
            yield Problem(message, file.name, line, match.start() - start + 1, severity=Severity.WARNING)


def _may_have_secrets(content: bytes) -> bool:
    small = content.lower()
    return any(hint in small for hint in _HINTS) or _URL_USER.search(content) is not None


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
