"""Single lines of a tree text: parsing and validation without their context, which belongs to ``parse``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.model.names import NameKind as Name
from zkdeployment.model.names import is_name, name_problem
from zkdeployment.model.tree import PROPERTY_LINK, SYMBOLIC_LINK
from zkdeployment.tree.literal import LiteralError, evaluate

if TYPE_CHECKING:
    from zkdeployment.model.tree import Value

_BLANKS = " \t"
_NODE = re.compile(r"/(\S+)(?:\s*:\s*(\S.*))?", re.ASCII)
# The first operator after the name decides: an arrow inside a value is text.
_PROPERTY = re.compile(r"([^\s=]+?)\s*(=>|->|=)\s*(.*)", re.ASCII)
# One expression parses most lines, fast. All other lines are parsed piece by piece. Both ways give the same result
# for lines that both can parse.
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


class Line(NamedTuple):
    """A parsed line; ``value`` is a property's value, a link's target or a node's type (or ``None``).

    ``name`` is ``None`` for blank lines and for invalid names. The name of a link has the suffix that it has among
    the node's properties. ``indent`` is ``UNKNOWN`` if the line mixes its blanks with other blanks than the
    file's.
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
    limited, because keeping them costs more than it saves in a file whose lines all differ.
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
        # Without the class's own constructor, which takes as long as everything else here.
        if node is not None:
            return _make(Line, (indent, _NODE_KIND, node, type_, ()))
        if text is not None:
            return _make(Line, (indent, _PROPERTY_KIND, name, text, ()))
        if number is not None:
            return _make(Line, (indent, _PROPERTY_KIND, name, int(number), ()))
        return _make(Line, (indent, _LINK_KIND, name + SYMBOLIC_LINK, target, ()))

    def _read_pieces(self, line: str) -> Line:
        line = line.removesuffix("\r")
        text = line.strip(_BLANKS)
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
        message = "tabs and spaces are mixed in the file's indentation: use spaces"
        return (LineProblem(len(blanks) - len(wrong), message),)

    def _node(self, text: str, indent: int) -> Line:
        match = _NODE.fullmatch(text)
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
        match = _PROPERTY.fullmatch(text)
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
        return Line(indent, LineKind.PROPERTY, name, problems=(LineProblem(start + error.offset, str(error)),))


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
