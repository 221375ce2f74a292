"""Says which modules, classes and functions have grown too large to be read at once."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

MODULE = 400
CLASS = 320
FUNCTION = 60


def problems(file: Path) -> list[str]:
    """Return one line for each part of a file that is over its limit."""
    text = file.read_text(encoding="utf-8")
    found = []
    if (lines := len(text.splitlines())) > MODULE:
        found.append(f"{file}:1: {lines} lines; split it ({MODULE} are allowed)")
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
            found.append(f"{file}:{node.lineno}: {node.name} has {length} lines ({limit} are allowed)")
    return found


def main() -> None:
    """Check the program's modules; exit with 1 if one of them is too large."""
    source = Path(__file__).parent.parent / "src"
    found = [problem for file in sorted(source.rglob("*.py")) for problem in problems(file)]
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
