"""Checks the structure of the program: sizes, heads of files, unique names, imports, lone parts."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from configparser import ConfigParser
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

FOLDER = 20  # modules
MODULE = 700  # lines
CLASS = 320
FUNCTION = 60
CIRCLE = 4  # modules
FILE = 100_000  # bytes of a file that is no module
LINE = 1000  # characters
LONE_MODULE = 60  # a smaller one is a part of its only importer
HEADS = 0.12  # of all lines; HEADS shrinks to HEADS_GOAL
HEADS_GOAL = 0.10
HEADS_STEP = 0.01

SOURCE = Path(__file__).parent.parent / "src"
TESTS = SOURCE.parent / "tests"

_parse = cache(ast.parse)


def oversized_parts(file: Path) -> Iterator[str]:
    """Yield a problem for the module and for each class and function in it that is too long."""
    text = file.read_text(encoding="utf-8")
    if (lines := len(text.splitlines())) > MODULE:
        yield f"{file}:1: {lines} lines; split it ({MODULE} are allowed)"
    for node in _statements(_parse(text)):
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


def foreign_files(files: Sequence[Path]) -> Iterator[str]:
    """Yield a problem for each packaged file of other authors: minified, licensed, or very large."""
    for file in files:
        content = file.read_bytes()
        if len(content) > FILE:
            yield f"{file}: {len(content)} bytes; depend on a package instead ({FILE} are allowed)"
        if ".min." in file.name or any(len(line) > LINE for line in content.splitlines()):
            yield f"{file}: minified; depend on a package, or write the source"
        if file.name.upper().startswith(("LICENSE", "NOTICE")) or b"copyright" in content.lower():
            yield f"{file}: a work of others; depend on a package instead"


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
        for node in _parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(file)
    for name, defined in places.items():
        if len(defined) > 1:
            yield f"{defined[1]}: the class name {name} is taken by {defined[0]}; find another one"


def import_circle(files: Sequence[Path], source: Path = SOURCE) -> Iterator[str]:
    """Yield a problem if modules import each other at run time, also if they do so in functions."""
    modules = _named_modules(files, source)
    graph = {name: set(_imported(file, modules)) - {name} for name, file in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1][::-1]
        yield f"{modules[circle[0]]}: modules import each other: {' -> '.join(circle)}; move what both need"


def large_circles(files: Sequence[Path], source: Path = SOURCE) -> Iterator[str]:
    """Yield a problem for each set of too many modules that all reach each other, by imports for types also."""
    modules = _named_modules(files, source)
    graph = {name: _all_imported(file, modules) - {name} for name, file in modules.items()}
    reached = {name: _reached(name, graph) for name in graph}
    circles = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph}
    for circle in sorted(map(sorted, circles)):
        if len(circle) > CIRCLE:
            listed = ", ".join(circle)
            yield f"{modules[circle[0]]}: {len(circle)} modules need each other ({CIRCLE} are allowed): {listed}"


def _reached(name: str, graph: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def upward_imports(
    files: Sequence[Path], source: Path = SOURCE, layers: Sequence[Collection[str]] = ()
) -> Iterator[str]:
    """Yield a problem for each import, for types also, of a capability above the module's own, or beside it.

    ``layers`` are the capabilities, the highest first; by default those of the contract in ``setup.cfg``.
    """
    modules = _named_modules(files, source)
    floors = {name: number for number, names in enumerate(layers or _layers()) for name in names}
    for name, file in modules.items():
        own = _capability(name)
        for other in sorted(_all_imported(file, modules)):
            above = _capability(other)
            if own in floors and above in floors and above != own and floors[above] <= floors[own]:
                yield f"{file}: {name} imports {other}, but does not stand above {above}; move it"


def _layers() -> list[list[str]]:
    """Return the capabilities by layer, the highest first."""
    settings = ConfigParser()
    settings.read(SOURCE.parent / "setup.cfg", encoding="utf-8")
    lines = settings["importlinter:contract:capabilities"]["layers"].split("\n")
    return [line.split(" | ") for line in lines if line]


def _capability(module: str) -> str:
    return ".".join(module.split(".")[:2])


def lone_modules(files: Sequence[Path], source: Path = SOURCE) -> Iterator[str]:
    """Yield a problem for each small module whose only importer stands in the same package, or below.

    An import in a function is a reason for a module: the program that calls the function starts light.
    """
    modules = _named_modules(files, source)
    importers: dict[str, dict[str, bool]] = defaultdict(dict)
    for importer, file in modules.items():
        tree = _parse(file.read_text(encoding="utf-8"))
        always = set(_imports(_executed(tree, ast.FunctionDef), modules))
        for name in _imports(_statements(tree), modules):
            importers[name][importer] = name in always
    for name, file in modules.items():
        lines = len(file.read_text(encoding="utf-8").splitlines())
        importers[name].pop(name, None)
        match [*importers[name].items()]:
            case [(importer, True)] if lines < LONE_MODULE and file.name != "__init__.py":
                if f"{importer}.".startswith(f"{name.rpartition('.')[0]}."):
                    yield f"{file}:1: {lines} lines that only {importer} imports; move them there"


def heads(files: Sequence[Path], bound: float = HEADS) -> Iterator[str]:
    """Yield a problem if docstrings, imports and their like at the beginning of modules are too many lines."""
    modules = [file.read_text(encoding="utf-8") for file in files if file.name != "__init__.py"]
    share = sum(map(_head, modules)) / sum(len(text.splitlines()) for text in modules)
    if share > bound:
        yield f"heads of files are {share:.1%} of all lines; merge modules ({bound:.0%} are allowed)"
    elif share < bound - HEADS_STEP and bound > HEADS_GOAL:
        lower = max(HEADS_GOAL, bound - HEADS_STEP)
        yield f"heads of files are {share:.1%} of all lines; set HEADS to {lower:.2f} in {Path(__file__).name}"


def _head(text: str) -> int:
    """Return the last line of the docstring, the imports and the block for type checkers."""
    last = 0
    for node in _parse(text).body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not (is_docstring or isinstance(node, ast.Import | ast.ImportFrom) or _is_for_type_checkers(node)):
            break
        last = node.end_lineno or last
    return last


def _named_modules(files: Sequence[Path], root: Path) -> dict[str, Path]:
    return {
        ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): file for file in files
    }


def _imported(file: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    yield from _imports(_executed(_parse(file.read_text(encoding="utf-8"))), modules)


def _all_imported(file: Path, modules: Mapping[str, Path]) -> set[str]:
    """Return the modules that a file imports anywhere, for types also."""
    return set(_imports(_statements(_parse(file.read_text(encoding="utf-8"))), modules))


def _imports(nodes: Iterable[ast.AST], modules: Mapping[str, Path]) -> Iterator[str]:
    for node in nodes:
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


@cache
def _statements(tree: ast.Module) -> Sequence[ast.AST]:
    """Return the nodes of a module without expressions, which neither import nor define anything."""
    return [*_below(tree, lambda _: False)]


def _executed(node: ast.AST, *but: type[ast.AST]) -> Iterator[ast.AST]:
    """Yield these nodes without blocks that only type checkers read, and without these kinds."""
    return _below(node, lambda child: isinstance(child, but) or _is_for_type_checkers(child))


def _below(node: ast.AST, is_left_out: Callable[[ast.AST], bool]) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr) and not is_left_out(child):
            yield child
            yield from _below(child, is_left_out)


def _is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def lone_protocols(files: Sequence[Path], tests: Path = TESTS) -> Iterator[str]:
    """Yield a problem for each Protocol in ``files`` with at most one implementation and no fake.

    A class implements a Protocol if it has its members, whose functions take the same arguments. A subclass of an
    implementation is none of its own. A fake stands in a module that a suite in ``tests/contract`` imports.
    """
    sources = _classes(files)
    by_name = {found.name: found for found in [*_classes(_contract_modules(tests)), *sources]}
    for protocol in sources:
        if "Protocol" not in protocol.bases:
            continue
        implementing = [found for found in by_name.values() if _implements(found, protocol, by_name)]
        names = {found.name for found in implementing}
        own = [found for found in implementing if names.isdisjoint(_ancestors(found, by_name))]
        if len(own) < 2:
            listed = ", ".join(found.name for found in own) or "no class"
            yield (
                f"{protocol.file}:{protocol.line}: {listed} implements the Protocol {protocol.name}, and no suite"
                " in tests/contract has a fake of it; name the class in annotations"
            )


@dataclass(frozen=True)
class _Class:
    """A class; ``members`` are its attributes and functions with the names of their arguments."""

    name: str
    file: Path
    line: int
    bases: tuple[str, ...]
    members: Mapping[str, frozenset[str]]


def _classes(files: Sequence[Path]) -> list[_Class]:
    return [
        _Class(
            node.name,
            file,
            node.lineno,
            tuple(ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases),
            dict(_members(node)),
        )
        for file in files
        for node in _parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    ]


def _members(node: ast.ClassDef) -> Iterator[tuple[str, frozenset[str]]]:
    for part in node.body:
        match part:
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, frozenset()
            case ast.FunctionDef(name=name, args=every):
                names = (each.arg.lstrip("_") for each in (*every.posonlyargs, *every.args, *every.kwonlyargs))
                yield name, frozenset(names)
                if name == "__init__":
                    yield from ((each, frozenset()) for each in _assigned(part))


def _assigned(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def _ancestors(found: _Class, by_name: Mapping[str, _Class]) -> Iterator[str]:
    for base in found.bases:
        yield base
        if base in by_name and base != found.name:
            yield from _ancestors(by_name[base], by_name)


def _implements(found: _Class, protocol: _Class, by_name: Mapping[str, _Class]) -> bool:
    family = [found, *(by_name[name] for name in _ancestors(found, by_name) if name in by_name)]
    if any("Protocol" in member.bases for member in family):
        return False
    return all(
        any(name in one.members and arguments - one.members[name] <= {"self"} for one in family)
        for name, arguments in protocol.members.items()
    )


def _contract_modules(tests: Path) -> list[Path]:
    """Return the suites in ``tests/contract`` with the modules of ``tests`` that they import, directly or not."""
    modules = _named_modules(sorted(tests.rglob("*.py")), tests)
    reached = [file for file in modules.values() if file.is_relative_to(tests / "contract")]
    for file in reached:
        reached += sorted({modules[name] for name in _imported(file, modules)}.difference(reached))
    return reached


def main() -> None:
    """Print all problems; exit with 1 if there are any."""
    files = sorted(SOURCE.rglob("*.py"))
    problems = [problem for file in files for problem in oversized_parts(file)]
    problems += [*crowded_folders(files), *shared_class_names(files), *import_circle(files)]
    problems += foreign_files(
        [file for file in SOURCE.rglob("*.*") if file.suffix not in {".py", ".pyc"} and file.is_file()]
    )
    problems += [*large_circles(files), *upward_imports(files)]
    problems += [*lone_protocols(files), *lone_modules(files), *heads(files)]
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
