"""Prints lines; tables and live displays belong to ``tables``.

Text from live nodes, git and scripts may contain control characters of terminals, which are escaped.
"""

from __future__ import annotations

import sys

from zkdeployment.base.text import printable, printable_lines


def echo(line: object, *, err: bool = False) -> None:
    """Print one line; line breaks in it are escaped, so that no value can forge a line of output."""
    print(printable(str(line)), file=sys.stderr if err else sys.stdout, flush=True)


def echo_lines(text: object, *, err: bool = False) -> None:
    """Print a text of several lines."""
    print(printable_lines(str(text)), file=sys.stderr if err else sys.stdout, flush=True)
