"""Parsing tree files: from lines to nodes with properties, and to problems with their places."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from zkdeployment.model.problem import Problem
from zkdeployment.model.tree import Tree, top_path
from zkdeployment.tree.lines import LIMITS, UNKNOWN, Line, LineKind, LineProblem, LineReader, TextLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zkdeployment.model.tree import Nodes, Value

#: Line and column, from 1.
Place: TypeAlias = tuple[int, int]

Key = TypeVar("Key")

#: Files with more top-level nodes are parsed as a whole, because each section that is kept takes some memory.
_MOST_SECTIONS = 5_000

# Nodes without a valid path (an invalid name, a duplicate) are parsed, for their own errors, under a path that no
# node can have. At the end they are omitted.
_LOST = "\0"


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """The parsed content of a file. If there are errors, ``tree`` contains only the parts without errors.

    ``positions`` maps the path of each node, ``links`` each link (path of the node, property name) to its place.
    ``sections`` maps the text of each top-level node to its own parsed content. ``blank`` is the character that
    indents lines.
    """

    name: str
    tree: Tree
    positions: Mapping[str, Place] = field(default_factory=dict)
    links: Mapping[tuple[str, str], Place] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    sections: Mapping[str, ParsedFile] = field(default_factory=dict, repr=False)
    blank: str = ""

    @property
    def is_layer(self) -> bool:
        """Whether the file is layered over the others (``*.zkx``)."""
        return self.name.endswith(".zkx")


def parse(name: str, text: str, *, limits: TextLimits = LIMITS, last: ParsedFile | None = None) -> ParsedFile:
    """Return the parsed content of a tree text. Never raises; each problem has ``name``, line and column.

    Top-level nodes that are unchanged since the ``last`` parsed content of this file are not parsed again.
    """
    text = text.removeprefix("\ufeff")
    return _parse_sections(name, text, limits, last) or _Parser(name, limits, LineReader(limits)).parse(text)


def parse_bytes(
    name: str, content: bytes, *, limits: TextLimits = LIMITS, last: ParsedFile | None = None
) -> ParsedFile:
    """Return the parsed content of a UTF-8 file, with or without a byte order mark, with LF or CR LF."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        problem = Problem("the file is UTF-16; save it as UTF-8", file=name, line=1, column=1)
        return ParsedFile(name, Tree({}), problems=(problem,))
    # Bytes that are not UTF-8 become surrogates, which are reported with their places.
    return parse(name, content.decode("utf-8-sig", errors="surrogateescape"), limits=limits, last=last)


def _parse_sections(name: str, text: str, limits: TextLimits, last: ParsedFile | None) -> ParsedFile | None:
    """Parse the top-level nodes one by one; ``None`` if a problem requires parsing the whole text."""
    known = last or ParsedFile(name, Tree({}))
    reader = LineReader(limits, known.blank)
    first, *others = text.split("\n/")
    if len(others) > _MOST_SECTIONS:
        return None
    sections: dict[str, ParsedFile] = {}
    parts: dict[str, Nodes] = {}
    placed: dict[str, tuple[int, ParsedFile]] = {}
    offset = 0
    for section in (first, *(f"/{rest}" for rest in others)):
        read = known.sections.get(section) or _Parser(name, limits, reader).parse(section)
        if read.problems or (not section.startswith("/") and read.tree.tops):
            return None
        sections[section] = read
        for top, part in read.tree.parts.items():
            if top in parts:
                return None
            parts[top], placed[top] = part, (offset, read)
        offset += section.count("\n") + 1
    tree = Tree.of_parts(parts)
    if len(tree) > limits.nodes:
        return None
    positions = _SectionPlaces({top: (start, read.positions) for top, (start, read) in placed.items()}, str)
    links = _SectionPlaces({top: (start, read.links) for top, (start, read) in placed.items()}, _node_of_link)
    return ParsedFile(name, tree, positions, links, (), sections, reader.blank)


class _Positions(Mapping[str, Place]):
    """The places of the nodes of a file; columns are computed on access."""

    def __init__(self, tree: Tree, numbers: Mapping[str, int], lines: Sequence[str]) -> None:
        self._tree = tree
        self._numbers = numbers
        self._lines = lines

    def __getitem__(self, path: str) -> Place:
        if path not in self._tree:
            raise KeyError(path)
        number = self._numbers[path]
        return number, self._lines[number - 1].index("/") + 1

    def __iter__(self) -> Iterator[str]:
        return iter(self._tree)

    def __len__(self) -> int:
        return len(self._tree)


class _SectionPlaces(Mapping[Key, Place]):
    """The places of nodes or links of a file: in each section, from the line in which the section begins.

    ``sections`` maps each top-level node to that line, from 0, and to the places in its section. ``node`` returns
    the path of the node of a key.
    """

    def __init__(
        self, sections: Mapping[str, tuple[int, Mapping[Key, Place]]], node: Callable[[Key], str]
    ) -> None:
        self._sections = sections
        self._node = node

    def __getitem__(self, key: Key) -> Place:
        offset, places = self._sections[top_path(self._node(key))]
        line, column = places[key]
        return offset + line, column

    def __iter__(self) -> Iterator[Key]:
        return (key for _, places in self._sections.values() for key in places)

    def __len__(self) -> int:
        return sum(len(places) for _, places in self._sections.values())


def _node_of_link(link: tuple[str, str]) -> str:
    return link[0]


# The indentation of lines, the path of the node that they belong to, and its properties (``None`` for the root).
_Level: TypeAlias = "tuple[int, str, dict[str, Value] | None]"


class _Parser:
    def __init__(self, name: str, limits: TextLimits, reader: LineReader) -> None:
        self._file = name
        self._limits = limits
        self._nodes: dict[str, dict[str, Value]] = {}
        self._numbers: dict[str, int] = {}  # the lines of the nodes
        self._firsts: dict[str, tuple[int, dict[str | None, int]]] = {}  # see _first_line
        self._lost = False
        self._links: dict[tuple[str, str], Place] = {}
        self._problems: list[Problem] = []
        self._outer: list[_Level] = []  # the levels around the current one
        self._lines: Sequence[str] = ()
        self._known = reader

    def parse(self, text: str) -> ParsedFile:
        """Return the parsed content of a text."""
        self._lines = text.split("\n")
        self._read_lines()
        if self._lost:
            self._nodes = {path: properties for path, properties in self._nodes.items() if path[0] != _LOST}
            self._links = {link: place for link, place in self._links.items() if link[0][0] != _LOST}
        tree = Tree(self._nodes)
        positions = _Positions(tree, self._numbers, self._lines)
        if len(tree) > self._limits.nodes:
            line, column = positions[next(islice(tree, self._limits.nodes, None))]
            self._report(line, column - 1, f"more than {self._limits.nodes} nodes in one file")
        problems = sorted(self._problems, key=lambda problem: (problem.line, problem.column))
        return ParsedFile(self._file, tree, positions, self._links, tuple(problems))

    def _read_lines(self) -> None:
        # The usual cases are inline and use local variables: a call for each line would double the time.
        known, nodes, numbers = self._known, self._nodes, self._numbers
        blank, node, link = LineKind.BLANK, LineKind.NODE, LineKind.LINK
        indent, owner, properties = self._first_level()
        outer, deepest = self._outer, self._limits.depth
        last: str | None = None  # the node in the line before; None after a property
        for number, text in enumerate(self._lines, 1):
            line = known[text]
            here, kind, name, value, problems = line
            if here != indent:
                if kind is blank:
                    self._report_line_problems(number, problems, "")
                    continue
                if here > indent and last is not None and len(outer) < deepest - 1:
                    outer.append((indent, owner, properties))
                    indent, owner, properties = here, last, nodes[last]
                else:
                    level = indent, owner, properties
                    indent, owner, properties = self._change_level(number, here, level, last)
            if problems:
                self._report_line_problems(number, problems, owner)
            if kind is node:
                last = f"{owner}/{name}"
                fresh: dict[str, Value] = {} if value is None else {"type": value}
                if name is None or nodes.setdefault(last, fresh) is not fresh:
                    last = self._lose_node(number, here, last if name else None)
                    nodes[last] = fresh
                numbers[last] = number
                continue
            last = None
            if properties is None or name is None or name in properties or problems:
                self._refuse_property(number, line, owner, properties)
                continue
            properties[name] = value
            if kind is link:
                self._links[owner, name] = (number, here + 1)

    def _first_level(self) -> _Level:
        lines = (self._known[text] for text in self._lines)
        return next((line.indent for line in lines if line.indent != UNKNOWN), 0), "", None

    def _change_level(self, number: int, indent: int, level: _Level, last: str | None) -> _Level:
        outer = self._outer
        if indent == UNKNOWN:
            return level
        if indent > level[0]:
            outer.append(level)
            return indent, self._lose_owner(number, indent, level[1], last), {}
        inner = level
        while level[0] > indent and outer:
            inner, level = level, outer.pop()
        if level[0] == indent:
            return level
        self._report(number, indent, "the indentation fits no line above")
        if level[0] < indent:
            # Treat the line like the deeper lines before it, so that the lines after it are not reported, too.
            outer.append(level)
            level = inner
        return indent, *level[1:]

    def _lose_owner(self, number: int, indent: int, path: str, last: str | None) -> str:
        """Return a placeholder path for lines with an invalid indentation."""
        if last is None:
            self._report(number, indent, "only nodes can have indented lines below them", path)
        elif last[0] != _LOST:
            self._report(number, indent, f"lines are nested deeper than {self._limits.depth} levels", path)
        self._lost = True
        path = f"{_LOST}{number}"
        self._numbers[path] = number - 1
        return path

    def _refuse_property(self, number: int, line: Line, path: str, properties: Mapping[str, Value] | None) -> None:
        if line.problems:
            return
        if properties is None:
            self._report(number, line.indent, "a property must stand below the node it belongs to")
        else:
            message = f"the property {str(line.name).split(' ')[0]} is set twice in this node"
            first = self._first_line(number, line, path)
            self._report(number, line.indent, f"{message}; first in line {first}", path)

    def _first_line(self, number: int, line: Line, path: str) -> int:
        """Return the number of the line before ``number`` that first set the property."""
        start = self._numbers[path]
        scanned, firsts = self._firsts.get(path, (start, {}))
        for earlier in range(scanned + 1, number):
            line_before = self._known[self._lines[earlier - 1]]
            if (
                line_before.indent == line.indent
                and line_before.kind is not LineKind.NODE
                and not line_before.problems
            ):
                firsts.setdefault(line_before.name, earlier)
        self._firsts[path] = number - 1, firsts
        return firsts.get(line.name, start)  # the default is the type, which is set in the line of the node

    def _lose_node(self, number: int, indent: int, path: str | None) -> str:
        if path is not None:
            message = f"the node is defined twice; first in line {self._numbers[path]}"
            self._report(number, indent, message, path)
        self._lost = True
        return f"{_LOST}{number}"

    def _report_line_problems(self, number: int, problems: tuple[LineProblem, ...], path: str) -> None:
        for problem in problems:
            self._report(number, problem.offset, problem.message, path)

    def _report(self, number: int, offset: int, message: str, path: str = "") -> None:
        known = path if path and path[0] != _LOST else None
        self._problems.append(Problem(message, self._file, number, max(offset, 0) + 1, known))
