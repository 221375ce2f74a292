"""Measures parsing a tree text against its lower bound: splitting the text into lines and the lines into words.

Also measures the additional cost of linting and of compiling the targets, against parsing alone. Each round runs
all measurements on the same file.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.fleets import fleet_text, unlike_text
from benchmarks.results import Result, Scale, best, seconds
from zkdeployment.base.source_files import SourceFile
from zkdeployment.publishing.targets.compiler import compile_targets
from zkdeployment.tree.lint import lint
from zkdeployment.tree.parse import ParsedFile, parse_bytes


def measure(scale: Scale) -> Iterator[Result]:
    """Measure a tree of each size, and a text in which all lines differ."""
    for hosts in scale.hosts:
        yield from _measure("tree of a fleet", fleet_text(hosts), scale.rounds * 2)
    yield from _measure("all lines different", unlike_text(scale.hosts[-1] * 5), scale.rounds * 2)


def _measure(name: str, text: str, rounds: int) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "tree.zk"
        path.write_text(text, encoding="utf-8")
        source = SourceFile(path.name, path.read_bytes())
        linted = lint([source])
        floors, parses, lints, compiles = [], [], [], []
        for _ in range(rounds):
            floors.append(seconds(lambda: _floor(path)))
            parses.append(seconds(lambda: _parse(path)))
            lints.append(seconds(lambda: lint([source])))
            compiles.append(seconds(lambda: compile_targets(linted.tree)))
    size = f"{len(linted.tree):,} nodes, {text.count(chr(10)):,} lines"
    parsed = best(parses)
    yield Result(
        work=f"parse: {name}", size=size, value=parsed, against="split into words", reference=best(floors)
    )
    yield Result(work=f"parse and lint: {name}", size=size, value=best(lints), against="parse", reference=parsed)
    yield Result(
        work=f"compile targets: {name}", size=size, value=best(compiles), against="parse", reference=parsed
    )


def _floor(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").split("\n"):
        line.split()


def _parse(path: Path) -> ParsedFile:
    return parse_bytes(path.name, path.read_bytes())
