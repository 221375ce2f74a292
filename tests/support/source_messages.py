"""The messages in the source of the program, each as the pieces of text between its values."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING

from support.manual import HERE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOURCE = HERE / "src" / "zkdeployment"

#: The length of the shortest piece that counts, in characters.
_LEAST = 9

Pieces = tuple[str, ...]


@functools.cache
def parsed_modules() -> dict[Path, ast.Module]:
    """Return the syntax tree of every module, by file."""
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(SOURCE.rglob("*.py"))}


def error_classes_below(name: str) -> set[str]:
    """Return the names of an error class and of all its subclasses."""
    classes = [
        node for module in parsed_modules().values() for node in ast.walk(module) if isinstance(node, ast.ClassDef)
    ]
    names: set[str] = set()
    more = {name}
    while more - names:
        names |= more
        more = {
            definition.name
            for definition in classes
            if {base.id for base in definition.bases if isinstance(base, ast.Name)} & names
        }
    return names


def messages(node: ast.AST) -> Iterator[Pieces]:
    """Yield each message in a piece of source, without docstrings."""
    match node:
        case ast.Expr(value=ast.Constant()):  # a docstring
            return
        case ast.JoinedStr(values=values):
            pieces = [
                text.value for text in values if isinstance(text, ast.Constant) and isinstance(text.value, str)
            ]
            if message := tuple(piece.strip() for piece in pieces if is_phrase(piece)):
                yield message
        case ast.Constant(value=str(text)):
            if is_phrase(text):
                yield (text.strip(),)
        case _:
            for below in ast.iter_child_nodes(node):
                yield from messages(below)


def is_phrase(piece: str) -> bool:
    """Whether a piece of text has several words."""
    return len(piece.strip()) >= _LEAST and " " in piece.strip()


def refusals() -> Iterator[tuple[str, Pieces]]:
    """Yield the module and the pieces of each message of a refusal."""
    errors = error_classes_below("RefusedError")
    for file, module in parsed_modules().items():
        for node in ast.walk(module):
            name = getattr(getattr(node, "func", None), "id", None)
            if name in errors or (isinstance(node, ast.FunctionDef) and node.name.endswith("refusal")):
                for pieces in messages(node):
                    yield str(file.relative_to(SOURCE)), pieces
