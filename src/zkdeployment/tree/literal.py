"""Values in tree texts: literals, which are parsed as data and never executed.

Allowed are numbers, quoted text, ``True``, ``False``, ``None``, lists, tuples, dicts and sets of these, the
operators ``+ - * /`` and signs on numbers, and adjacent texts, which are joined. The result is a JSON value:
tuples become lists, sets become sorted lists, and the keys of dicts become text.
"""

from __future__ import annotations

import ast
import json
import math
import operator
import re
import warnings
from typing import TYPE_CHECKING, Any, cast

from zkdeployment.base.errors import TreeError
from zkdeployment.base.names import NameKind, name_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.base.json_values import Value

#: The limits of the nesting of brackets and operators, and of the digits of a whole number.
MAX_DEPTH = 100
MAX_DIGITS = 1000

_ALLOWED = "a number, text in quotes, True, False, None, or a list, tuple, dict or set of these"
_CONSTANTS: dict[str, Value] = {"True": True, "False": False, "None": None}
_MISSPELT = {"true": "True", "false": "False", "none": "None", "null": "None", "nil": "None"}
_QUOTES = frozenset("'\"")

#: A word, a version or a path, as people write it without quotes.
_BARE = re.compile(r"[A-Za-z0-9_./~][A-Za-z0-9_./~:+-]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?")
_TOO_LARGE = 10**MAX_DIGITS
_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_DESCRIPTIONS = {
    ast.Attribute: "an attribute",
    ast.BinOp: "an operator that is not + - * /",
    ast.BoolOp: "a condition",
    ast.Call: "a call",
    ast.Compare: "a comparison",
    ast.Constant: "a constant of another kind",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.IfExp: "a condition",
    ast.JoinedStr: "formatted text",
    ast.ListComp: "a comprehension",
    ast.Name: "a name",
    ast.SetComp: "a comprehension",
    ast.Subscript: "an index",
    ast.UnaryOp: "an operator that is not + or -",
}


class LiteralError(TreeError):
    """A text is not a literal; ``offset`` is the place of the error, in characters from 0."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.offset = offset


def evaluate(text: str) -> Value:
    """Return the value of a literal. Raises ``LiteralError`` and no other error, for any text."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    quote = text[:1]
    # Most values are short texts and numbers, which need no syntax tree.
    if quote in _QUOTES and text.find(quote, 1) == len(text) - 1 and "\\" not in text and text.isprintable():
        return text[1:-1]
    if number := _NUMBER.fullmatch(text):
        return float(text) if number[1] else int(text)
    return _Reader(text).read(_parse(text), 1)


def read_assignment(text: str) -> tuple[str, Value]:
    """Return the name and the value of ``KEY=VALUE``, with which verbs and forms give properties.

    The value is a literal, ``true`` or ``false``. Everything else is text, and so is a number that would be
    written differently, such as ``1.10`` or ``3-1``. Raises ``ValueError`` with the problem of the name; without
    ``=``, the text is empty.
    """
    name, equals, given = text.partition("=")
    problem = name_problem(NameKind.PROPERTY, name) if equals else ""
    if problem is not None:
        raise ValueError(problem)
    try:
        value = evaluate(given.capitalize() if given in {"true", "false"} else given)
    except LiteralError:
        return name, given
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return name, given if is_number and str(value) != given else value


def probable_literal(text: str) -> str | None:
    """Return the literal that was probably meant by a text that is no literal; ``None`` if that is unclear."""
    if text in _MISSPELT:
        return _MISSPELT[text]
    return f"'{text}'" if _BARE.fullmatch(text) else None


def _parse(text: str) -> ast.expr:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes such as "\d", which keep their meaning
            return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        if "integer string conversion" in error.msg:
            raise LiteralError(f"a number has more than {MAX_DIGITS} digits") from None
        if error.msg == "too many nested parentheses":
            raise LiteralError(_too_deep()) from None
        offset = min(max((error.offset or 1) - 1, 0), len(text))
        raise LiteralError(f"cannot read {_shown(text)} ({error.msg}); expected {_ALLOWED}", offset) from None
    except (RecursionError, MemoryError):
        raise LiteralError(_too_deep()) from None
    except ValueError:  # NUL, or a surrogate
        raise LiteralError("the value contains a character that is not allowed in text") from None


class _Reader:
    """Evaluates the syntax tree of one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def read(self, node: ast.expr, depth: int) -> Value:
        """Return the value of an expression that is ``depth`` levels deep; raises ``LiteralError``."""
        if depth > MAX_DEPTH:
            raise self.error(node, _too_deep())
        match node:
            case ast.Constant(value=None | bool() | str() | int() | float()):
                return self.constant(node)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self.read(item, depth + 1) for item in items]
            case ast.Dict():
                return self.mapping(node, depth)
            case ast.Set(elts=items):
                return self.set(items, depth)
            case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=operand):
                number = self.number(operand, depth)
                return -number if isinstance(sign, ast.USub) else number
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
                return self.operation(node, depth)
            case _:
                raise self.unexpected(node)

    def constant(self, node: ast.Constant) -> Value:
        """Return the value of a constant."""
        value = node.value
        if isinstance(value, str):
            self.check_text(node, value)
        elif isinstance(value, int | float):
            self.check_number(node, value)
        return cast("Value", value)

    def mapping(self, node: ast.Dict, depth: int) -> Value:
        """Return a dict whose keys have the spelling of JSON."""
        mapping: dict[str, Value] = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            if key_node is None:
                raise self.error(value_node, f"expected KEY: VALUE, found ** ; expected {_ALLOWED}")
            key = self.read(key_node, depth + 1)
            if isinstance(key, list | dict):
                raise self.error(key_node, "a key of a dict must be text, a number, True, False or None")
            # JSON defines the spelling of keys that are not text.
            text = key if isinstance(key, str) else json.dumps(key)
            if text in mapping:
                raise self.error(key_node, f"duplicate key {text!a}")
            mapping[text] = self.read(value_node, depth + 1)
        return mapping

    def set(self, items: list[ast.expr], depth: int) -> Value:
        """Return the distinct members in a stable order."""
        members: dict[str, Value] = {}
        for item in items:
            if isinstance(item, ast.List | ast.Dict | ast.Set):
                raise self.error(item, "a set cannot hold lists, dicts or sets; write a list")
            value = self.read(item, depth + 1)
            members[json.dumps(value)] = value
        return [members[text] for text in sorted(members, key=lambda text: _set_order(text, members[text]))]

    def number(self, node: ast.expr, depth: int) -> int | float:
        """Return the value of an operand."""
        value = self.read(node, depth + 1)
        if isinstance(value, bool) or not isinstance(value, int | float):
            hint = "; texts side by side are joined without an operator" if isinstance(value, str) else ""
            raise self.error(node, f"operators need numbers, found {_shown(self.source(node))}{hint}")
        return value

    def operation(self, node: ast.BinOp, depth: int) -> Value:
        """Return the result of ``+ - * /`` on two numbers."""
        left, right = self.number(node.left, depth), self.number(node.right, depth)
        try:
            if isinstance(node.op, ast.Div):
                result = _divide(left, right)
            else:
                result = _OPERATIONS[type(node.op)](left, right)
        except ZeroDivisionError:
            raise self.error(node.right, "division by zero") from None
        except OverflowError:
            raise self.error(node, "a number is too large") from None
        self.check_number(node, result)
        return result

    def check_number(self, node: ast.expr, value: float) -> None:
        """Raise ``LiteralError`` for a number that some JSON readers cannot represent."""
        if isinstance(value, int):
            if not -_TOO_LARGE < value < _TOO_LARGE:
                raise self.error(node, f"a number has more than {MAX_DIGITS} digits")
        elif not math.isfinite(value):
            raise self.error(node, "a number is too large")

    def check_text(self, node: ast.expr, value: str) -> None:
        """Raise ``LiteralError`` for text that is not Unicode."""
        try:
            value.encode()
        except UnicodeEncodeError as error:
            code = ord(value[error.start])
            raise self.error(node, f"the text contains half a character (surrogate U+{code:04X})") from None

    def unexpected(self, node: ast.expr) -> LiteralError:
        """Return the error for an expression that is not a literal."""
        source = self.source(node)
        description = f"{_shown(source)} ({_DESCRIPTIONS.get(type(node), 'an expression')})"
        if source in _MISSPELT:
            return self.error(node, f"found {description}; did you mean {_MISSPELT[source]}?")
        hint = "; text needs quotes" if isinstance(node, ast.Name) else ""
        return self.error(node, f"expected {_ALLOWED}, found {description}{hint}")

    def error(self, node: ast.expr, message: str) -> LiteralError:
        """Return an error at the place of an expression."""
        # The syntax tree counts bytes; messages count characters.
        start = self.offset(node.lineno, node.col_offset)
        return LiteralError(message, len(self.text.encode()[:start].decode()))

    def source(self, node: ast.expr) -> str:
        """Return the source text of an expression."""
        start = self.offset(node.lineno, node.col_offset)
        end = self.offset(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
        return self.text.encode()[start:end].decode()

    def offset(self, line: int, column: int) -> int:
        """Return the place of a line and column of the syntax tree, in bytes from the beginning."""
        before = self.text.encode().splitlines(keepends=True)[: line - 1]
        return sum(map(len, before)) + column


def _divide(left: float, right: float) -> int | float:
    """Return a quotient; if whole numbers divide evenly, the result is whole: ``6 / 2`` is 3, not 3.0."""
    if isinstance(left, int) and isinstance(right, int) and left % right == 0:
        return left // right
    return left / right


def _set_order(text: str, value: Value) -> tuple[int, float, str]:
    match value:
        case bool() | None:
            return 0, 0, text
        case int() | float():
            return 1, value, text
        case str():
            return 2, 0, value
        case _:
            return 3, 0, text


def _too_deep() -> str:
    return f"the value is nested deeper than {MAX_DEPTH} levels"


def _shown(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
