"""What the program can say, read from its source: each message as the pieces between the values that it holds."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING

from support.manual import HERE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOURCE = HERE / "src" / "zkdeployment"

#: What is shorter says nothing.
_LEAST = 9

Pieces = tuple[str, ...]


@functools.cache
def parsed() -> dict[Path, ast.Module]:
    """Return all modules."""
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(SOURCE.rglob("*.py"))}


def errors_below(name: str) -> set[str]:
    """Return the names of a class of errors and of all classes below it."""
    classes = [node for module in parsed().values() for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    found: set[str] = set()
    more = {name}
    while more - found:
        found |= more
        more = {
            one.name for one in classes if {base.id for base in one.bases if isinstance(base, ast.Name)} & found
        }
    return found


def messages(node: ast.AST) -> Iterator[Pieces]:
    """Yield the texts of more than one word in a piece of source."""
    match node:
        case ast.Expr(value=ast.Constant()):  # a docstring
            return
        case ast.JoinedStr(values=values):
            pieces = [one.value for one in values if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            if said := tuple(piece.strip() for piece in pieces if is_telling(piece)):
                yield said
        case ast.Constant(value=str(text)):
            if is_telling(text):
                yield (text.strip(),)
        case _:
            for below in ast.iter_child_nodes(node):
                yield from messages(below)


def is_telling(piece: str) -> bool:
    """Whether a text is more than a word between two values."""
    return len(piece.strip()) >= _LEAST and " " in piece.strip()


def refusals() -> Iterator[tuple[str, Pieces]]:
    """Yield what is said where something is refused, each with its place."""
    errors = errors_below("RefusedError")
    for file, module in parsed().items():
        for node in ast.walk(module):
            name = getattr(getattr(node, "func", None), "id", None)
            if name in errors or (isinstance(node, ast.FunctionDef) and node.name.endswith("refusal")):
                for pieces in messages(node):
                    yield str(file.relative_to(SOURCE)), pieces
