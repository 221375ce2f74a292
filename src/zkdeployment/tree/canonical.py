"""The canonical form of tree texts: indentation, blanks, quotes and line ends, without a change of the meaning.

The order of the lines, the comments, and the spelling of numbers and types belong to the author and stay.
"""

from __future__ import annotations

import io
import token
import tokenize
from typing import TYPE_CHECKING

from zkdeployment.tree.parse import BLANKS, NODE_LINE, PROPERTY_LINE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: The blanks of one level of indentation.
_LEVEL = "  "

_ENDS = frozenset({token.NEWLINE, token.NL, token.ENDMARKER})
_OPERANDS = frozenset({token.NUMBER, token.STRING, token.NAME})


def canonical_text(text: str) -> str:
    """Return the canonical form of a tree text that parses without problems; it parses as the same tree.

    Each level is indented by two blanks. One blank stands around operators and after commas, and none at the ends
    of lines. A text without quotes and escapes is in single quotes. A comment stands at the level of the lines
    around it. Several blank lines become one; those at the beginning and at the end of the text are removed.
    """
    lines: list[str] = []
    for line in _lines(text.removeprefix("\ufeff").split("\n")):
        if line or (lines and lines[-1]):
            lines.append(line)
    if lines and not lines[-1]:
        lines.pop()
    return "".join(f"{line}\n" for line in lines)


def _lines(lines: Iterable[str]) -> Iterator[str]:
    levels: list[int] = []  # the indentations of the last line and of the levels around it
    comments: list[tuple[int, str]] = []  # the comments and blank lines since then
    below_node = False
    for line in lines:
        content = line.removesuffix("\r").strip(BLANKS)
        indent = line.index(content)
        if not content or content[0] == "#":
            comments.append((indent, content))
            continue
        around = [level for level in levels if level < indent]
        yield from _comments(comments, levels, len(around), below_node=below_node)
        yield _LEVEL * len(around) + _canonical_line(content)
        levels, comments, below_node = [*around, indent], [], content[0] == "/"
    yield from _comments(comments, levels, 0, below_node=below_node)


def _comments(
    comments: Iterable[tuple[int, str]], levels: Sequence[int], least: int, *, below_node: bool
) -> Iterator[str]:
    """Yield comments and blank lines between a line with these ``levels`` and a line at the level ``least``.

    A comment belongs to the deepest level that does not begin to the right of it. With ``below_node``, the line
    before is a node, below which comments may stand.
    """
    for indent, comment in comments:
        depth = sum(level <= indent for level in levels) - 1
        if below_node and indent > levels[-1]:
            depth += 1
        yield _LEVEL * max(depth, least) + comment if comment else ""


def _canonical_line(content: str) -> str:
    if match := NODE_LINE.fullmatch(content):
        name, type_ = match.groups()
        return f"/{name}" if type_ is None else f"/{name} : {type_}"
    match = PROPERTY_LINE.fullmatch(content)
    if match is None:
        raise ValueError(f"{content!a} is no line of a tree text")
    name, operator, value = match.groups()
    return f"{name} {operator} {_canonical_literal(value) if operator == '=' else value}"


def _canonical_literal(text: str) -> str:
    """Return a valid literal with canonical blanks and quotes, and with the comment behind it."""
    written = ""
    before, is_sign = "", False  # the token before, and whether it is the sign of a number
    is_operand = False
    for found in tokenize.generate_tokens(io.StringIO(text).readline):
        word = found.string
        if found.type in _ENDS:
            continue
        if found.type == token.COMMENT:
            return f"{written}  {word}"
        if word in {"]", "}"} and before == ",":
            written = written[:-1]
        glued = not before or before in {"(", "[", "{"} or is_sign or word in {")", "]", "}", ",", ":"}
        written += ("" if glued else " ") + (_canonical_quotes(word) if found.type == token.STRING else word)
        is_sign = word in {"+", "-"} and not is_operand
        is_operand = found.type in _OPERANDS or word in {")", "]", "}"}
        before = word
    return written


def _canonical_quotes(text: str) -> str:
    """Return the source of a text in single quotes, if neither quotes nor escapes are in it."""
    is_plain = text.startswith('"') and len(text) >= 2 and not {"'", "\\", '"'}.intersection(text[1:-1])
    return f"'{text[1:-1]}'" if is_plain else text
