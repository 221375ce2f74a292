"""Checks the structure of the program: the sizes of its parts, unique class names, and imports without circles."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FOLDER = 24  # modules
MODULE = 700  # lines
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


def import_circle(files: Sequence[Path], source: Path = SOURCE) -> Iterator[str]:
    """Yield a problem if modules import each other, also if they do so in functions or for types only."""
    modules = {
        ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): file for file in files
    }
    graph = {name: set(_imported(file, modules)) - {name} for name, file in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1][::-1]
        yield f"{modules[circle[0]]}: modules import each other: {' -> '.join(circle)}; move what both need"


def _imported(file: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name in modules)
            case ast.ImportFrom(module=str(package), names=names):
                for alias in names:
                    whole = f"{package}.{alias.name}"
                    if whole in modules:
                        yield whole
                    elif package in modules:
                        yield package


def main() -> None:
    """Print all problems; exit with 1 if there are any."""
    files = sorted(SOURCE.rglob("*.py"))
    problems = [problem for file in files for problem in oversized_parts(file)]
    problems += [*crowded_folders(files), *shared_class_names(files), *import_circle(files)]
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
