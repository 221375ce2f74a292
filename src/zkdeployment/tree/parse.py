"""Parsing tree files: from lines to nodes with properties, and to problems with their places."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from zkdeployment.base.names import NameKind as Name
from zkdeployment.base.names import is_name, name_problem
from zkdeployment.base.source_files import Correction, Problem
from zkdeployment.base.values import dataclass
from zkdeployment.tree.literal import LiteralError, evaluate, probable_literal
from zkdeployment.tree.values import PROPERTY_LINK, SYMBOLIC_LINK, Nodes, Tree, top_path

if TYPE_CHECKING:
    from zkdeployment.base.json_values import Value


#: The blanks that may indent a line, or stand at its end.
BLANKS = " \t"
#: The line of a node, without its indentation: name and type.
NODE_LINE = re.compile(r"/(\S+)(?:\s*:\s*(\S.*))?", re.ASCII)
#: The line of a property or a link: name, operator and value. The first operator after the name decides: an arrow
#: inside a value is text.
PROPERTY_LINE = re.compile(r"([^\s=]+?)\s*(=>|->|=)\s*(.*)", re.ASCII)
# One expression parses most lines, fast. All other lines are parsed piece by piece. Both ways give the same result
# for each line that both can parse.
_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}"
_PATH = rf"/?(?:\.\.|{_NAME})(?:/(?:\.\.|{_NAME}))*"
_PLAIN = re.compile(
    rf"( *)(?:/({_NAME})(?: : ([!-~](?:[ -~]*[!-~])?))?"  # indentation, node, type
    r"|([A-Za-z_][A-Za-z0-9_-]{0,99}) (?:"  # property or link
    rf"= (?:'([ -&(-\[\]-~]*)'|(-?(?:0|[1-9][0-9]{{0,14}})))|-> ({_PATH})))"  # text, number, target
)
# Control characters except the tab, characters that change the direction of text or break lines, and surrogates.
_FORBIDDEN = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_KEPT_LINES = 8_000
_SPACED_NODE = re.compile(r"/[\w.-]+(?:\s+[\w.-]+)+")
_EXPECTED = "expected /NODE, /NODE : TYPE, NAME = VALUE, NAME -> PATH or NAME => PATH [PROPERTY]"


@dataclass(frozen=True, slots=True)
class TextLimits:
    """The limits of a file: levels of indentation, nodes, and characters of one value."""

    depth: int = 64
    nodes: int = 250_000
    value: int = 262_144


LIMITS = TextLimits()

#: The indentation of blank lines and of lines whose indentation cannot be compared.
UNKNOWN = -1


class LineKind(Enum):
    """The kinds of lines."""

    BLANK = "blank line or comment"
    NODE = "node"
    PROPERTY = "property"
    LINK = "symbolic link or property link"


class LineProblem(NamedTuple):
    """A problem of a line; ``offset`` is its place in the line, in characters from 0."""

    offset: int
    message: str
    correction: Correction | None = None


class Line(NamedTuple):
    """A parsed line; ``value`` is a property's value, a link's target or a node's type (or ``None``).

    ``name`` is ``None`` for blank lines and for invalid names. The name of a link includes its suffix, as in the
    node's properties. ``indent`` is ``UNKNOWN`` if the line is not indented by the file's blank character alone.
    """

    indent: int
    kind: LineKind
    name: str | None = None
    value: Value = None
    problems: tuple[LineProblem, ...] = ()


_make = tuple.__new__
_NODE_KIND, _PROPERTY_KIND, _LINK_KIND = LineKind.NODE, LineKind.PROPERTY, LineKind.LINK


class LineReader(dict[str, Line]):
    """The parsed lines of one file by their text: each distinct line is parsed once.

    The first indented line decides between spaces and tabs, unless ``blank`` does. The number of kept lines is
    limited, because in a file whose lines all differ, keeping them costs more time than it saves.
    """

    def __init__(self, limits: TextLimits, blank: str = "") -> None:
        super().__init__()
        self._limits = limits
        self.blank = blank

    def __missing__(self, text: str) -> Line:
        line = self.read(text)
        if len(self) < _KEPT_LINES:
            self[text] = line
        return line

    def read(self, line: str) -> Line:
        """Return the parsed line with its problems. Never raises."""
        plain = _PLAIN.fullmatch(line)
        if plain is None or self.blank == "\t" or len(line) > self._limits.value:
            return self._read_pieces(line)
        blanks, node, type_, name, text, number, target = plain.groups()
        if blanks:
            self.blank = " "
        indent = len(blanks)
        # This bypasses the constructor of the class, which would take as long as all other code here.
        if node is not None:
            return _make(Line, (indent, _NODE_KIND, node, type_, ()))
        if text is not None:
            return _make(Line, (indent, _PROPERTY_KIND, name, text, ()))
        if number is not None:
            return _make(Line, (indent, _PROPERTY_KIND, name, int(number), ()))
        return _make(Line, (indent, _LINK_KIND, name + SYMBOLIC_LINK, target, ()))

    def _read_pieces(self, line: str) -> Line:
        line = line.removesuffix("\r")
        text = line.strip(BLANKS)
        forbidden = () if line.isprintable() else _forbidden(line)
        if not text or text[0] == "#":
            return Line(UNKNOWN, LineKind.BLANK, problems=forbidden)
        indent = line.index(text)
        if forbidden:
            return Line(indent, _kind(text), problems=forbidden)
        parsed = self._node(text, indent) if text[0] == "/" else self._property(text, indent)
        if indent and (problems := self._indentation(line[:indent])):
            return parsed._replace(indent=UNKNOWN, problems=problems + parsed.problems)
        return parsed

    def _indentation(self, blanks: str) -> tuple[LineProblem, ...]:
        self.blank = self.blank or blanks[0]
        wrong = blanks.lstrip(self.blank)
        if not wrong:
            return ()
        return (LineProblem(len(blanks) - len(wrong), MIXED),)

    def _node(self, text: str, indent: int) -> Line:
        match = NODE_LINE.fullmatch(text)
        if match is None:
            return Line(indent, LineKind.NODE, problems=(LineProblem(indent, _node_problem(text)),))
        name, type_ = match.groups()
        if not is_name(Name.NODE, name):
            message = f"{name_problem(Name.NODE, name)}"
            if "/" in name:
                message = (
                    f"{name[:60]!a} is a path: expected one name, what is below a node indented below its line"
                )
            return Line(indent, LineKind.NODE, problems=(LineProblem(indent + 1, message),))
        if type_ is not None and (problem := self._too_long("type", type_, indent + match.start(2))):
            return Line(indent, LineKind.NODE, name, problems=(problem,))
        return Line(indent, LineKind.NODE, name, type_)

    def _property(self, text: str, indent: int) -> Line:
        match = PROPERTY_LINE.fullmatch(text)
        if text[0].isspace():
            message = f"the line begins with the blank U+{ord(text[0]):04X}: indent with spaces"
            return Line(UNKNOWN, LineKind.PROPERTY, problems=(LineProblem(indent, message),))
        if match is None:
            return Line(indent, LineKind.PROPERTY, problems=(LineProblem(indent, _EXPECTED),))
        name, operator, value = match.groups()
        if not is_name(Name.PROPERTY, name):
            problem = LineProblem(indent, f"{name_problem(Name.PROPERTY, name)}")
            return Line(indent, LineKind.PROPERTY, problems=(problem,))
        start = indent + match.start(3)
        if too_long := self._too_long(f"value of {name}", value, start):
            return Line(indent, LineKind.PROPERTY, name, problems=(too_long,))
        if operator == "=":
            return _literal(indent, name, value, start)
        return _link(indent, name, operator, value, start)

    def _too_long(self, noun: str, text: str, offset: int) -> LineProblem | None:
        if len(text) <= self._limits.value:
            return None
        return LineProblem(
            offset, f"the {noun} has {len(text)} characters; at most {self._limits.value} are allowed"
        )


def _node_problem(text: str) -> str:
    expected = "expected /NODE or /NODE : TYPE"
    if _SPACED_NODE.fullmatch(text) is None:
        return expected
    return f"{expected}; a node's name has no blanks, so a role with blanks cannot be a target"


def _literal(indent: int, name: str, text: str, start: int) -> Line:
    if not text:
        return Line(indent, LineKind.PROPERTY, name, problems=(LineProblem(start, "expected a value after ="),))
    try:
        return Line(indent, LineKind.PROPERTY, name, evaluate(text))
    except LiteralError as error:
        meant = probable_literal(text)
        correction = None if meant is None else Correction(text, meant)
        problem = LineProblem(start + error.offset, str(error), correction)
        return Line(indent, LineKind.PROPERTY, name, problems=(problem,))


def _link(indent: int, name: str, operator: str, text: str, start: int) -> Line:
    symbolic = operator == "->"
    parts = text.split()
    expected = "the path of a node" if symbolic else "the path of a node and, if it is another, a property"
    message = f"expected {expected} after {operator}"
    if 1 <= len(parts) <= (1 if symbolic else 2):
        message = _target_problem(parts[0])
        if len(parts) == 2:
            message = message or name_problem(Name.PROPERTY, parts[1]) or ""
    name += SYMBOLIC_LINK if symbolic else PROPERTY_LINK
    if message:
        return Line(indent, LineKind.LINK, name, problems=(LineProblem(start, message),))
    return Line(indent, LineKind.LINK, name, text)


def _target_problem(target: str) -> str:
    for name in target.removeprefix("/").removesuffix("/").split("/"):
        if name not in {".", ".."} and not is_name(Name.NODE, name):
            return f"{target[:60]!a} is not a path: {name_problem(Name.NODE, name)}"
    return ""


def _forbidden(line: str) -> tuple[LineProblem, ...]:
    match = _FORBIDDEN.search(line)
    if match is None:
        return ()
    code = ord(match[0])
    message = f"the character U+{code:04X} is not allowed in a tree file"
    if 0xDC80 <= code <= 0xDCFF:  # the surrogate that decoding leaves for a byte that is not UTF-8
        message = f"the byte 0x{code - 0xDC00:02x} is not UTF-8 text"
    return (LineProblem(match.start(), message),)


def _kind(text: str) -> LineKind:
    return LineKind.NODE if text[0] == "/" else LineKind.PROPERTY


#: Line and column, from 1.
Place: TypeAlias = tuple[int, int]

Key = TypeVar("Key")

#: The part of a message that names a line, which counts from the beginning of the parsed text.
_EARLIER_LINE = "; first in line "

#: The message about blanks that differ from the first ones of the file.
MIXED = "tabs and spaces are mixed in the file's indentation: use spaces"

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
    indents lines. ``lines`` is the number of lines.
    """

    name: str
    tree: Tree
    positions: Mapping[str, Place] = field(default_factory=dict)
    links: Mapping[tuple[str, str], Place] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    sections: Mapping[str, ParsedFile] = field(default_factory=dict, repr=False)
    blank: str = ""
    lines: int = 0

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
    texts = _split(text, known.sections)
    if len(texts) > _MOST_SECTIONS:
        return None
    sections: dict[str, ParsedFile] = {}
    parts: dict[str, Nodes] = {}
    placed: dict[str, tuple[int, ParsedFile]] = {}
    problems: list[Problem] = []
    offset = 0
    for section in texts:
        read = known.sections.get(section) or _Parser(name, limits, reader).parse(section)
        if read.problems:
            if any(_EARLIER_LINE in problem.message or problem.message == MIXED for problem in read.problems):
                return None  # these problems depend on the text before the section
            problems += (replace(problem, line=(problem.line or 0) + offset) for problem in read.problems)
        if section[:1] != "/" and (read.problems or read.tree.tops):
            return None
        sections[section] = read
        for top, part in read.tree.parts.items():
            if top in parts:
                return None
            parts[top], placed[top] = part, (offset, read)
        offset += read.lines
    tree = Tree.of_parts(parts)
    if len(tree) > limits.nodes:
        return None
    positions = _SectionPlaces({top: (start, read.positions) for top, (start, read) in placed.items()}, str)
    links = _SectionPlaces({top: (start, read.links) for top, (start, read) in placed.items()}, _node_of_link)
    return ParsedFile(name, tree, positions, links, tuple(problems), sections, reader.blank, offset)


def _split(text: str, known: Collection[str]) -> list[str]:
    """Return the texts of the top-level nodes, and first the text before them if there is one.

    ``known`` are the texts of an earlier version of the whole text, in order. The texts before the first change
    and after the last one are recognised without a search for their ends, which would take most of the time.
    """
    start, end = 0, len(text)
    before: list[str] = []
    for section in known:
        if not (text.startswith(section, start) and text.startswith("\n/", start + len(section))):
            break
        before.append(section)
        start += len(section) + 1
    after: list[str] = []
    for section in reversed([*known]):
        begin = end - len(section)
        if begin <= start or not (section[:1] == "/" and text.startswith(f"\n{section}", begin - 1)):
            break
        after.append(section)
        end = begin - 1
    first, *others = text[start:end].split("\n/")
    return [*before, first, *(f"/{other}" for other in others), *reversed(after)]


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
    """The places of nodes or links of a file, section by section.

    ``sections`` maps each top-level node to the line in which its section begins, from 0, and to the places in the
    section, counted from that line. ``node`` returns the path of the node of a key.
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
        count = len(self._lines)
        return ParsedFile(self._file, tree, positions, self._links, tuple(problems), lines=count)

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
            self._report(number, line.indent, f"{message}{_EARLIER_LINE}{first}", path)

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
            message = f"the node is defined twice{_EARLIER_LINE}{self._numbers[path]}"
            self._report(number, indent, message, path)
        self._lost = True
        return f"{_LOST}{number}"

    def _report_line_problems(self, number: int, problems: tuple[LineProblem, ...], path: str) -> None:
        for problem in problems:
            self._report(number, problem.offset, problem.message, path, problem.correction)

    def _report(
        self, number: int, offset: int, message: str, path: str = "", correction: Correction | None = None
    ) -> None:
        known = path if path and path[0] != _LOST else None
        column = max(offset, 0) + 1
        self._problems.append(Problem(message, self._file, number, column, known, correction=correction))
