"""Text that is safe to show, and that verbs print nothing past it."""

import ast
from pathlib import Path

import pytest

import zkdeployment.cli
from zkdeployment.printable import is_printable, printable, printable_lines

CLI = Path(zkdeployment.cli.__file__).parent

#: Functions that print directly; only the modules for printing may call them.
PRINTING = {"click.echo", "print", "Text", "Console", "click.secho"}
DOORS = {"terminal.py", "console.py"}
#: Code for a shell, which is ours to the last character; progress of a sandbox, in our words.
APART = {"completion.py": {"click.echo"}, "sandbox.py": {"Console"}}


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


@pytest.mark.parametrize("file", sorted(CLI.glob("*.py")), ids=lambda file: file.name)
def test_verbs_print_through_the_door_alone(file):
    allowed = PRINTING if file.name in DOORS else APART.get(file.name, set())
    assert PRINTING.intersection(calls(file)) <= allowed
