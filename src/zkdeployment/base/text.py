"""Text for people: safe to display; numbers and lists of names in messages.

Names, values and errors come from git, from scripts, and from nodes that everyone with access to ZooKeeper can
write. Values stay exact in memory and in JSON; this module is the only mechanism for displayed text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

#: Separators at which a terminal or an editor may break the line.
_LINE_BREAKS = frozenset({"Zl", "Zp"})


def is_printable(character: str) -> bool:
    """Whether a character is not a control, format (bidirectional, invisible) or unassigned character.

    Line breaks are not printable; blanks of any width are.
    """
    category = unicodedata.category(character)
    return category[0] != "C" and category not in _LINE_BREAKS


def printable(text: str, *, keep: str = "") -> str:
    r"""Return a text as one line in which each character that is not printable is escaped, as in ``\x1b``.

    The characters in ``keep`` are not escaped.
    """
    if text.isprintable():
        return text
    return "".join(
        character if is_printable(character) or character in keep else _escaped(character) for character in text
    )


def printable_lines(text: str) -> str:
    """Return a text like ``printable``, but keep its line feeds and tabs."""
    return printable(text, keep="\n\t")


def printable_value(value: Any) -> Any:
    """Return a value of JSON in which each text, also in lists and mappings and as a key, is ``printable``."""
    match value:
        case str():
            return printable(value)
        case Mapping():
            return {printable_value(key): printable_value(item) for key, item in value.items()}
        case list() | tuple():
            return [printable_value(item) for item in value]
    return value


def _escaped(character: str) -> str:
    return ascii(character)[1:-1]


def counted(number: int, noun: str, style: str = "") -> str:
    """Return a number with its noun: ``1 host``, ``2000 hosts``; in the style ``,`` of pages: ``2,000 hosts``."""
    return f"{number:{style}} {noun if number == 1 else noun + 's'}"


def listing(names: Sequence[str], most: int | None = None) -> str:
    """Return the first ``most`` names (``None``: all), joined by commas, and the number of the others."""
    more = f" and {len(names) - most} more" if most is not None and len(names) > most else ""
    return ", ".join(names[:most]) + more
