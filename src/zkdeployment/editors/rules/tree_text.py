"""Places in the text of a tree file: the node of a line, and the nodes that a line names.

Lines and columns count from 0, in characters. The text may have errors, because people are typing it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.base.errors import LinkError
from zkdeployment.tree.links import resolve
from zkdeployment.tree.parse import LIMITS, Line, LineKind, LineReader
from zkdeployment.tree.values import PROPERTY_LINK, SYMBOLIC_LINK, parent_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zkdeployment.base.json_values import Lookup

#: The property whose value is a list of paths of services.
DEPLOY_AFTER = "deploy_after"

_QUOTED_PATH = re.compile(r"'(/[^']*)'|\"(/[^\"]*)\"")


class Reference(NamedTuple):
    """A name in a line that stands for the node ``path``; ``start`` and ``end`` are its columns."""

    path: str
    start: int
    end: int


def read_line(text: str) -> Line:
    """Return a parsed line; indentation with tabs counts like one with spaces."""
    return LineReader(LIMITS, "\t" if text.startswith("\t") else "").read(text)


def indentation(text: str) -> int:
    """Return the number of blanks at the beginning of a line."""
    return len(text) - len(text.lstrip(" \t"))


def owner_of(lines: Sequence[str], number: int, indent: int) -> str:
    """Return the path of the node above line ``number`` that lines with this indentation belong to.

    The root is the empty path.
    """
    names: list[str] = []
    for position in range(number - 1, -1, -1):
        text = lines[position]
        here = indentation(text)
        if here >= indent or not text.strip() or text.lstrip()[0] != "/":
            continue
        line = read_line(text)
        if line.name is not None:
            names.append(line.name)
            indent = here
        if not here:
            break
    return "".join(f"/{name}" for name in reversed(names))


def node_of(lines: Sequence[str], number: int) -> str:
    """Return the path of the node that a line defines, or that has the property of the line."""
    text = lines[number]
    owner = owner_of(lines, number, indentation(text))
    line = read_line(text)
    return f"{owner}/{line.name}" if line.kind is LineKind.NODE and line.name is not None else owner


def references(lookup: Lookup, lines: Sequence[str], number: int) -> Iterator[Reference]:
    """Yield the nodes that a line names: its own, those in the target of a link, those in ``deploy_after``."""
    text = lines[number]
    line = read_line(text)
    indent = indentation(text)
    if line.kind is LineKind.NODE and line.name is not None:
        yield Reference(node_of(lines, number), indent + 1, indent + 1 + len(line.name))
    elif line.kind is LineKind.LINK and isinstance(line.value, str):
        start = len(text.rstrip(" \t\r")) - len(line.value)
        target = line.value.split()[0]
        yield from names_in_path(lookup, owner_of(lines, number, indent), target, start)
    elif line.kind is LineKind.PROPERTY and line.name == DEPLOY_AFTER:
        for match in _QUOTED_PATH.finditer(text):
            yield from names_in_path(lookup, "", match[1] or match[2], match.start() + 1)


def names_in_path(lookup: Lookup, holder: str, target: str, start: int) -> Iterator[Reference]:
    """Yield each name in a path that begins at column ``start``, with the node that the name stands for.

    A relative path begins at ``holder``. Links above a name are followed; a link in its own place is not.
    """
    steps: list[tuple[str, int]] = [] if target.startswith("/") else [(name, -1) for name in holder.split("/")[1:]]
    for match in re.finditer(r"[^/]+", target):
        if match[0] == "..":
            del steps[-1:]
        elif match[0] != ".":
            steps.append((match[0], start + match.start()))
    above = ""
    for name, column in steps:
        path = f"{above}/{name}"
        if column >= 0:
            yield Reference(path, column, column + len(name))
        try:
            above = resolve(lookup, path)
        except LinkError:
            above = path


def link_target(lookup: Lookup, lines: Sequence[str], number: int) -> tuple[str, str | None] | None:
    """Return the node, and the property (``None`` for a symbolic link), that the link of a line leads to.

    The result is ``None`` if the line has no link, or if the link leads nowhere.
    """
    line = read_line(lines[number])
    if line.kind is not LineKind.LINK or not isinstance(line.value, str) or line.name is None:
        return None
    owner = owner_of(lines, number, indentation(lines[number]))
    target, *named = line.value.split()
    try:
        node = resolve(lookup, target if target.startswith("/") else f"{owner}/{target}")
    except LinkError:
        return None
    if line.name.endswith(SYMBOLIC_LINK):
        return node, None
    return node, named[0] if named else line.name.removesuffix(PROPERTY_LINK)


def property_line(lines: Sequence[str], node_line: int, name: str) -> int:
    """Return the number of the line that sets a property of the node at ``node_line``; that line by default."""
    outer, inner = indentation(lines[node_line]), None
    for number in range(node_line + 1, len(lines)):
        text = lines[number]
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        here = indentation(text)
        if here <= outer:
            break
        inner = here if inner is None else inner
        line = read_line(text)
        if here == inner and line.name in {name, name + PROPERTY_LINK, name + SYMBOLIC_LINK}:
            return number
    return node_line


def service_above(path: str) -> str:
    """Return the service of a ``deploy`` node or of a target below it; other paths are returned unchanged."""
    if path.endswith("/deploy"):
        return parent_path(path)
    return parent_path(parent_path(path)) if parent_path(path).endswith("/deploy") else path
