"""The grammar for editors colours the trees of the manual, and the patterns fit the language."""

from __future__ import annotations

import json
import re

import pytest

from support.manual import HERE, MANUAL
from zkdeployment.tree.parse import LIMITS, LineKind, LineReader

GRAMMAR = json.loads(
    (HERE / "etc/editors/vscode/syntaxes/zkdeployment.tmLanguage.json").read_text(encoding="utf-8")
)

#: The scope of each kind of line.
SCOPES = {
    LineKind.BLANK: {"comment"},
    LineKind.NODE: {"node", "target"},
    LineKind.PROPERTY: {"property"},
    LineKind.LINK: {"link"},
}


def scope_of(line: str) -> str | None:
    """Return the name of the first pattern that a line begins with."""
    for pattern in GRAMMAR["patterns"]:
        name = pattern["include"].removeprefix("#")
        rule = GRAMMAR["repository"][name]
        if re.search(rule.get("match") or rule["begin"], line):
            return str(name)
    return None


@pytest.mark.parametrize("file", sorted((MANUAL / "examples").rglob("*.zk*")), ids=lambda file: file.name)
def test_each_line_of_an_example_has_the_scope_of_its_kind(file):
    reader = LineReader(LIMITS)
    for text in file.read_text(encoding="utf-8").splitlines():
        if text.strip():
            assert scope_of(text) in SCOPES[reader[text].kind], text


@pytest.mark.parametrize(
    ("line", "scope"),
    [
        ("  /web : web-1.0 main", "node"),
        ("    /deploy", "target"),
        ("  a -> /b/c", "link"),
        ("  a => ../b c", "link"),
        ("  a = '-> not a link'", "property"),
        ("  # a = 1", "comment"),
    ],
)
def test_lines_have_the_scope_of_their_kind(line, scope):
    assert scope_of(line) == scope


def test_the_extension_names_files_that_exist():
    folder = HERE / "etc/editors/vscode"
    contributes = json.loads((folder / "package.json").read_text(encoding="utf-8"))["contributes"]
    named = [grammar["path"] for grammar in contributes["grammars"]]
    named += [language["configuration"] for language in contributes["languages"]]
    assert [name for name in [*named, "extension.js"] if not (folder / name).is_file()] == []
