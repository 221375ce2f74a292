"""Text that is safe to show: nothing in it that a terminal, a log viewer or a mail program could act on.

Names, values and errors come from nodes that anybody with access to ZooKeeper can write, from git and from
scripts. Values stay exact in memory and in JSON; this is the one mechanism for text that people read.
"""

from __future__ import annotations

import unicodedata

#: Separators that are no plain blanks: a terminal or an editor may break the line there.
_LINE_BREAKS = frozenset({"Zl", "Zp"})


def is_printable(character: str) -> bool:
    """Whether a character is neither a control, format (bidirectional, invisible) or unassigned character.

    Line breaks are not printable, blanks of any width are.
    """
    category = unicodedata.category(character)
    return category[0] != "C" and category not in _LINE_BREAKS


def printable(text: str, *, keep: str = "") -> str:
    r"""Return a text as one line in which every character that is not printable is spelled out, as ``\x1b``.

    The characters in ``keep`` stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(one if is_printable(one) or one in keep else _spelled(one) for one in text)


def printable_lines(text: str) -> str:
    """Return a text like ``printable``, with its ends of lines and tabs."""
    return printable(text, keep="\n\t")


def _spelled(character: str) -> str:
    return ascii(character)[1:-1]
