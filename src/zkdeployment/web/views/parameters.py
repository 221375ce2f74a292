"""Parameters of addresses: a malformed value counts as absent, so that an old link still shows a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Parameters = Mapping[str, Sequence[str]]

#: The longest text to search for.
_LONGEST_TEXT = 200

#: The most digits of a page's number.
_DIGITS = 7


def last_value(values: Parameters, name: str) -> str:
    """Return the last value of a parameter, or an empty text."""
    return (values.get(name) or [""])[-1]


def search_text(values: Parameters) -> str:
    """Return the text to search for, with single spaces."""
    return " ".join(last_value(values, "text").split())[:_LONGEST_TEXT]


def page_number(values: Parameters, name: str = "page") -> int:
    """Return the number of a page, at least 1."""
    page = last_value(values, name)
    return max(1, int(page)) if page.isascii() and page.isdigit() and len(page) <= _DIGITS else 1
