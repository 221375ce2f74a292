"""Renaming a node with everything that names it: links, ``deploy_after``, and paths in documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zkdeployment.base.errors import TreeError
from zkdeployment.base.names import RESERVED, NameKind, name_problem
from zkdeployment.base.source_files import TREE_SUFFIXES
from zkdeployment.editors.rules.tree_text import DEPLOY_AFTER, names_in_path, references, service_above
from zkdeployment.tree.values import SYMBOLIC_LINK, node_name, parent_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zkdeployment.editors.rules.context import TreeContext

#: The children of services with these names have a meaning.
_MEANINGFUL = frozenset({"deploy", "providers"})


class TextEdit(NamedTuple):
    """The replacement of a name: the file, the line and the columns, from 0, in characters."""

    file: str
    line: int
    start: int
    end: int


def check_renaming(context: TreeContext, path: str, name: str | None = None) -> None:
    """Raise ``TreeError`` if a node cannot be renamed, or cannot have the new ``name``, if one is given."""
    errors = [problem for problem in context.reviewed.errors if (problem.file or "").endswith(TREE_SUFFIXES)]
    # A document with a problem is not read, nor are its paths.
    for error in (*errors, *context.reviewed.documents.problems):
        raise TreeError(f"the tree has errors, so links may be overlooked; correct {error}")
    if path not in context.tree:
        raise TreeError(f"there is no node {path} in the files; expected the name of a node")
    if path[1:] in RESERVED or path.startswith(("/role-locks/", "/roles/")) or path == "/roles":
        raise TreeError(f"{path} has a meaning for zkdeployment; its name cannot be changed")
    if node_name(path) in _MEANINGFUL and "type" in (context.tree.properties(parent_path(path)) or ()):
        raise TreeError(f"{path} has a meaning for zkdeployment; its name cannot be changed")
    if name is None:
        return
    is_service_path = service_above(path) == path
    problem = name_problem(NameKind.NODE if is_service_path else NameKind.SERVICE, name)
    if problem is not None:
        raise TreeError(problem)
    renamed = f"{parent_path(path)}/{name}"
    if renamed in context.tree or name + SYMBOLIC_LINK in (context.tree.properties(parent_path(path)) or ()):
        raise TreeError(f"there is a node or a link {renamed}; expected a name that is free")


def renaming_edits(context: TreeContext, path: str, texts: Mapping[str, Sequence[str]]) -> Iterator[TextEdit]:
    """Yield the places that name a node; ``texts`` has the lines of each file by its name.

    Raises ``TreeError`` for a document that names the node in another spelling than its path.
    """
    name = node_name(path)
    lookup = context.tree.properties
    for file, parsed in ((source.name, parsed) for source, parsed in context.reviewed.linted.parsed.items()):
        lines = texts[file]
        places = {line - 1 for line, _ in [parsed.positions[path]]} if path in parsed.tree else set()
        places |= {line - 1 for (_, _), (line, _) in parsed.links.items() if name in lines[line - 1]}
        places |= {number for number, text in enumerate(lines) if DEPLOY_AFTER in text and name in text}
        for number in sorted(places):
            for reference in references(lookup, lines, number):
                if reference.path == path:
                    yield TextEdit(file, number, reference.start, reference.end)
    for document_file in context.reviewed.documents.files:
        yield from _in_documents(context, path, document_file.name, texts[document_file.name])


def _in_documents(context: TreeContext, path: str, file: str, lines: Sequence[str]) -> Iterator[TextEdit]:
    """Yield the places of a node in the paths of a file's documents."""
    for entry in context.reviewed.documents.entries.values():
        if entry.file != file:
            continue
        # Values that an alias repeats have one place.
        for (line, column), way in {place: way for way, place in entry.source.places.items()}.items():
            value: Any = entry.source.value
            for part in way:
                value = value[part]
            if not isinstance(value, str) or not value.startswith("/"):
                continue
            text = lines[line - 1]
            start = column - 1 + (text[column - 1 : column] in {"'", '"'})
            for reference in names_in_path(context.tree.properties, "", value, start):
                if reference.path != path:
                    continue
                if text[start : start + len(value)] != value:
                    raise TreeError(
                        f"{file}:{line}:{column}: expected {value} on one line, without escapes and anchors"
                    )
                yield TextEdit(file, line - 1, reference.start, reference.end)
