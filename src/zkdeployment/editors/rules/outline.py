"""The outline of a tree file: its nodes, with their properties, links and nodes below them.

Lines and columns count from 0, in characters. The text may have errors, because people are typing it.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from zkdeployment.base.values import dataclass
from zkdeployment.editors.rules.tree_text import indentation, read_line
from zkdeployment.tree.parse import LIMITS, LineKind
from zkdeployment.tree.values import PROPERTY_LINK, SYMBOLIC_LINK

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The longest value that an outline shows.
_SHOWN = 60


@dataclass(slots=True)
class OutlineEntry:
    """A node, a property or a link of a file; ``detail`` is its type, value or target.

    ``name`` begins in column ``start`` of the first line. The entry ends at the end of the last line.
    """

    kind: LineKind
    name: str
    detail: str
    first: int
    last: int
    start: int
    children: list[OutlineEntry] = field(default_factory=list)


def outline(lines: Sequence[str]) -> list[OutlineEntry]:
    """Return the entries at the top of a file, each with those below it."""
    top: list[OutlineEntry] = []
    outer: list[OutlineEntry] = []  # the nodes around the line
    for number, text in enumerate(lines):
        entry = _entry(text, number)
        if entry is None:
            continue
        while outer and outer[-1].start >= entry.start:
            outer.pop()
        for node in outer:
            node.last = number
        (outer[-1].children if outer else top).append(entry)
        if entry.kind is LineKind.NODE and len(outer) < LIMITS.depth:
            outer.append(entry)
    return top


def _entry(text: str, number: int) -> OutlineEntry | None:
    """Return the entry of a line; ``None`` for blank lines, comments, and lines without a valid name."""
    line, start = read_line(text), indentation(text)
    if line.name is None:
        return None
    if line.kind is LineKind.NODE:
        return OutlineEntry(line.kind, f"/{line.name}", f"{line.value or ''}", number, number, start)
    name = line.name.removesuffix(SYMBOLIC_LINK).removesuffix(PROPERTY_LINK)
    detail = text[start + len(name) :].strip()
    if line.kind is LineKind.PROPERTY:
        detail = detail.removeprefix("=").lstrip()
    detail = detail if len(detail) <= _SHOWN else f"{detail[:_SHOWN]}…"
    return OutlineEntry(line.kind, name, detail, number, number, start)
