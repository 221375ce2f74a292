"""Tables on terminals of several widths."""

import io

import pytest
from rich.console import Console

from zkdeployment.cli.tables import ResponsiveTable

HEADINGS = ("LOCK", "HOLDER", "FOR")
ROWS = [("/shop/frontend/web", "application0.example.com", "0 s"), ("/a", "b", "7 min")]


def shown(width, **options):
    printed = io.StringIO()
    Console(file=printed, width=width).print(ResponsiveTable(HEADINGS, ROWS, **options), soft_wrap=True)
    return printed.getvalue()


@pytest.mark.parametrize("width", [40, 80])
def test_nothing_is_lost_and_no_line_is_longer_than_the_terminal(width):
    text = shown(width, whole=("LOCK",))
    assert "/shop/frontend/web" in text
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert max(map(len, text.splitlines())) <= width


def test_columns_that_distinguish_hosts_stay():
    assert "FOR" in shown(40, dispensable=("FOR",))


def test_numbers_are_aligned_right():
    assert "  7 min" in shown(80, numbers=("FOR",))
    assert "    0 s" in shown(80, numbers=("FOR",))
