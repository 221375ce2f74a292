"""Checks the structure of the program: sizes of folders, modules, classes and functions; unique class names."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FOLDER = 24  # modules
MODULE = 400  # lines
CLASS = 320
FUNCTION = 60

SOURCE = Path(__file__).parent.parent / "src"


def oversized_parts(file: Path) -> Iterator[str]:
    """Yield a problem for the module and for each class and function in it that is too long."""
    text = file.read_text(encoding="utf-8")
    if (lines := len(text.splitlines())) > MODULE:
        yield f"{file}:1: {lines} lines; split it ({MODULE} are allowed)"
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ClassDef():
                limit = CLASS
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                limit = FUNCTION
            case _:
                continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > limit:
            yield f"{file}:{node.lineno}: {node.name} has {length} lines ({limit} are allowed)"


def crowded_folders(files: Sequence[Path]) -> Iterator[str]:
    """Yield a problem for each folder that holds too many modules at one level."""
    modules: dict[Path, int] = defaultdict(int)
    for file in files:
        modules[file.parent] += file.name != "__init__.py"
    for folder, number in modules.items():
        if number > FOLDER:
            yield f"{folder}: {number} modules; group them ({FOLDER} are allowed)"


def shared_class_names(files: Sequence[Path]) -> Iterator[str]:
    """Yield a problem for each public class name that two modules define."""
    places: dict[str, list[Path]] = defaultdict(list)
    for file in files:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(file)
    for name, defined in places.items():
        if len(defined) > 1:
            yield f"{defined[1]}: the class name {name} is taken by {defined[0]}; find another one"


def main() -> None:
    """Print all problems; exit with 1 if there are any."""
    files = sorted(SOURCE.rglob("*.py"))
    problems = [problem for file in files for problem in oversized_parts(file)]
    problems += [*crowded_folders(files), *shared_class_names(files)]
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
