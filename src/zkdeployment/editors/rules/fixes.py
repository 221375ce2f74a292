"""Quick fixes: the edits of a text that resolve a problem of ``lint``.

Lines and columns count from 0, in characters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.editors.rules.tree_text import indentation, property_line
from zkdeployment.tree.parse import MIXED, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zkdeployment.base.source_files import Correction, Problem

#: The widths of tabs that people see most often.
_TAB_WIDTHS = (8, 4, 2)


class Edit(NamedTuple):
    """The text that replaces the columns from ``start`` to ``end`` of a line."""

    line: int
    start: int
    end: int
    text: str


class Fix(NamedTuple):
    """Edits of the file of a problem, in the order of lines, after which the problem is gone."""

    title: str
    edits: tuple[Edit, ...]


def fixes(problem: Problem, lines: Sequence[str]) -> tuple[Fix, ...]:
    """Return the fixes of a problem, the best first; ``lines`` are those of the problem's file."""
    if problem.line is None or problem.line > len(lines):
        return ()
    if problem.message == MIXED:
        return tuple(_fixes_of_tabs(lines))
    correction = problem.correction
    if correction is None:
        return ()
    if not correction.found:
        return (_fix_of_missing_line(correction.meant, lines, problem.line - 1),)
    edit = _edit(correction, problem, lines)
    title = f"Replace {correction.found} by {correction.meant}"
    return () if edit is None else (Fix(title, (edit,)),)


def _edit(correction: Correction, problem: Problem, lines: Sequence[str]) -> Edit | None:
    """Return the edit of a correction at the place of the problem, or in the line of the property it names."""
    found, number = correction.found, (problem.line or 1) - 1
    text, column = lines[number], (problem.column or 1) - 1
    start = text.rfind(found, 0, column + len(found))  # the problem may be within the text
    if start < 0 or start + len(found) <= column:
        start = text.find(found, column)
    if start < 0:
        place = property_line(lines, number, found)
        if place == number:
            return None
        number, start = place, indentation(lines[place])
    return Edit(number, start, start + len(found), correction.meant)


def _fix_of_missing_line(line: str, lines: Sequence[str], number: int) -> Fix:
    """Return the fix that adds a line at the end of the node in line ``number``."""
    outer = indentation(lines[number])
    last, inner = number, ""
    for below in range(number + 1, len(lines)):
        text = lines[below]
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        if indentation(text) <= outer or indentation(text) < len(inner):
            break  # the end of the node, or an indentation that fits no line of it
        last, inner = below, inner or text[: indentation(text)]
    if not inner:
        is_with_tabs = any(text.startswith("\t") for text in lines)
        inner = lines[number][:outer] + ("\t" if is_with_tabs else "  ")
    end = len(lines[last])
    return Fix(f"Add {line}", (Edit(last, end, end, f"\n{inner}{line}"),))


def _fixes_of_tabs(lines: Sequence[str]) -> Iterator[Fix]:
    """Yield the fixes that indent a file with spaces; the width of a tab that leaves fewest problems is first."""
    found: dict[tuple[str, ...], int] = {}
    for width in _TAB_WIDTHS:
        found.setdefault(tuple(_with_spaces(text, width) for text in lines), width)
    for texts in sorted(found, key=lambda texts: len(parse("", "\n".join(texts)).problems)):
        edits = (
            Edit(number, 0, indentation(old), new[: indentation(new)])
            for number, (old, new) in enumerate(zip(lines, texts, strict=True))
            if old != new
        )
        yield Fix(f"Indent with spaces; a tab is {found[texts]} columns wide", tuple(edits))


def _with_spaces(text: str, width: int) -> str:
    indent = indentation(text)
    return text[:indent].expandtabs(width) + text[indent:]
