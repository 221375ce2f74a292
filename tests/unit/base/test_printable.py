"""Text that is safe to show, and that verbs print nothing past it."""

import ast
from pathlib import Path

import pytest

import zkdeployment
from zkdeployment.base.text import is_printable, printable, printable_lines

SOURCE = Path(zkdeployment.__file__).parent
VERBS = [
    *SOURCE.glob("cli/**/*.py"),
    *SOURCE.glob("*/verbs.py"),
    *SOURCE.glob("*/verbs/*.py"),
    *SOURCE.glob("programs/*.py"),
]

#: Functions that print directly; only the modules for printing may call them.
PRINTING = {"click.echo", "print", "Text", "Console", "click.secho"}
DOORS = {"cli/terminal.py", "cli/tables.py"}
#: Code for a shell, which is ours to the last character; progress of a sandbox, in our words.
APART = {"cli/verbs/completion.py": {"click.echo"}, "sandbox/verbs.py": {"Console"}, "programs/main.py": {"print"}}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text: é 日本 🙂 e\u0301", "plain text: é 日本 🙂 e\u0301"),
        ("wide\u3000and\u00a0fixed blanks", "wide\u3000and\u00a0fixed blanks"),
        ("\x1b[2J\x07\r", "\\x1b[2J\\x07\\r"),
        ("\x9b31m\x85", "\\x9b31m\\x85"),
        ("\u202eabc\u2066\u200e", "\\u202eabc\\u2066\\u200e"),
        ("a\u200bb\ufeff\u00ad", "a\\u200bb\\ufeff\\xad"),
        ("\u0378\ue000\U000e0001\ud800", "\\u0378\\ue000\\U000e0001\\ud800"),
        ("a\u2028b\u2029c\nd\te", "a\\u2028b\\u2029c\\nd\\te"),
    ],
)
def test_characters_that_control_a_terminal_are_escaped(text, shown):
    assert printable(text) == shown
    assert all(map(is_printable, printable(text)))


def test_text_of_several_lines_keeps_them():
    assert printable_lines("a\n\tb\x1b\r\n") == "a\n\tb\\x1b\\r\n"


def calls(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


@pytest.mark.parametrize("file", sorted({*VERBS}), ids=lambda file: str(file.relative_to(SOURCE)))
def test_verbs_print_through_the_door_alone(file):
    name = str(file.relative_to(SOURCE))
    allowed = PRINTING if name in DOORS else APART.get(name, set())
    assert PRINTING.intersection(calls(file)) <= allowed
