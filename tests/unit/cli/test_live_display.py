"""The live display, on terminals that can redraw it and on other terminals."""

import io

import pytest
from rich.console import Console
from rich.text import Text

from zkdeployment.cli.tables import live_display


def changes(before, after):
    yield f"{before} to {after}"


@pytest.mark.parametrize(("terminal", "drawn"), [("xterm", True), ("dumb", False)])
def test_without_a_terminal_changes_are_printed_line_by_line(capsys, terminal, drawn):
    printed = io.StringIO()
    console = Console(file=printed, force_terminal=True, _environ={"TERM": terminal})
    with live_display(console, changes, lambda value, _: Text(f"picture of {value}")) as show:
        show("r1", "")
        show("r2", "")
    assert ("picture of r1" in printed.getvalue()) == drawn
    assert capsys.readouterr().out == ("" if drawn else "None to r1\nr1 to r2\n")


def test_a_display_on_standard_error_leaves_standard_output_alone(capsys):
    with live_display(Console(stderr=True), changes, lambda value, _: Text(value)) as show:
        show("r1", "")
    assert capsys.readouterr() == ("", "None to r1\n")
