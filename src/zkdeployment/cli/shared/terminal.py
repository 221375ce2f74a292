"""The door to the terminal: all lines that verbs print go through here, tables and pictures through ``console``.

Text from live nodes, git and scripts may hold characters that a terminal acts on; they are spelled out here.
"""

from __future__ import annotations

import click

from zkdeployment.printable import printable, printable_lines


def echo(line: object, *, err: bool = False) -> None:
    """Print one line; line breaks in it are spelled out, too, so that no value can pass for a line of ours."""
    click.echo(printable(str(line)), err=err)


def echo_lines(text: object, *, err: bool = False) -> None:
    """Print a text that has several lines on purpose."""
    click.echo(printable_lines(str(text)), err=err)
