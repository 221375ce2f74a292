"""The places that name a node or a property: definitions, references, and the edits of a renaming.

Lines and columns count from 0, in characters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from zkdeployment.base.errors import LinkError, TreeError
from zkdeployment.base.names import RESERVED, NameKind, name_problem
from zkdeployment.base.source_files import TREE_SUFFIXES
from zkdeployment.documents.kinds import known_kinds
from zkdeployment.documents.yaml_values import YamlTextError, parse_yaml
from zkdeployment.editors.rules.document_text import ITEM, form_at, is_path_form
from zkdeployment.editors.rules.tree_text import (
    DEPLOY_AFTER,
    TreeContext,
    indentation,
    link_target,
    names_in_path,
    owner_of,
    property_line,
    read_line,
    references,
    service_above,
)
from zkdeployment.publishing.targets.compiler import target_problem
from zkdeployment.tree.links import joined, resolve
from zkdeployment.tree.parse import LineKind
from zkdeployment.tree.values import PROPERTY_LINK, SYMBOLIC_LINK, node_name, parent_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from zkdeployment.base.json_values import Lookup
    from zkdeployment.documents.kinds import DocumentKind
    from zkdeployment.documents.yaml_values import Document, Way
    from zkdeployment.tree.parse import ParsedFile

#: The children of services with these names have a meaning.
_MEANINGFUL = frozenset({"deploy", "providers"})

#: A node, or with a name the node's property.
Subject: TypeAlias = "tuple[str, str | None]"


class TextPlace(NamedTuple):
    """A name in the text of a file: the line and the columns."""

    file: str
    line: int
    start: int
    end: int


def resolved(context: TreeContext, path: str) -> str:
    """Return the node that a path leads to through links; the path itself if it leads nowhere."""
    try:
        return resolve(context.tree.properties, path)
    except LinkError:
        return path


def definition_at(context: TreeContext, lines: Sequence[str], number: int, node: str | None) -> Subject | None:
    """Return the node or property to which a word leads: the word for ``node``, or (``None``) the line's link."""
    target = link_target(context.tree.properties, lines, number)
    if target is not None and (node is None or resolved(context, node) == target[0]):
        return target
    return None if node is None else (resolved(context, node), None)


def subject_at(
    context: TreeContext, lines: Sequence[str], number: int, column: int, node: str | None
) -> Subject | None:
    """Return the subject of the word at a place of a tree file: its definition, or the line's own property."""
    line, indent = read_line(lines[number]), indentation(lines[number])
    if line.kind in {LineKind.PROPERTY, LineKind.LINK} and line.name is not None:
        name = line.name.removesuffix(PROPERTY_LINK)
        if not name.endswith(SYMBOLIC_LINK) and indent <= column <= indent + len(name):
            return owner_of(lines, number, indent), name
    return definition_at(context, lines, number, node)


def reference_places(
    context: TreeContext, subject: Subject, texts: Mapping[str, Sequence[str]], *, with_definitions: bool
) -> Iterator[TextPlace]:
    """Yield the places whose definition is ``subject``, by file and line; ``texts`` has the lines of each file."""
    definitions = [*_definitions(context, subject, texts)]
    search = _names_of_node if subject[1] is None else _property_links
    lines = {(place.file, place.line) for place in definitions}
    others = [place for place in search(context, subject, texts) if (place.file, place.line) not in lines]
    yield from sorted([*others, *(definitions if with_definitions else ())])


def _files(context: TreeContext) -> Iterator[tuple[str, ParsedFile]]:
    return ((source.name, parsed) for source, parsed in context.reviewed.linted.parsed.items())


def _definitions(
    context: TreeContext, subject: Subject, texts: Mapping[str, Sequence[str]]
) -> Iterator[TextPlace]:
    """Yield the lines that define a node or a property, in files and in the layers over them."""
    path, name = subject
    for file, parsed in _files(context):
        if path not in parsed.tree:
            continue
        node_line = parsed.positions[path][0] - 1
        number = node_line if name is None else property_line(texts[file], node_line, name)
        text = texts[file][number]
        indent = indentation(text)
        if name is None:
            yield TextPlace(file, number, indent + 1, indent + 1 + len(node_name(path)))
        elif number != node_line:
            yield TextPlace(file, number, indent, indent + len(name))
        elif name in (parsed.tree.properties(path) or ()):  # the type in the line of the node
            end = len(text.rstrip())
            yield TextPlace(file, number, end - len(str(read_line(text).value)), end)


def _property_links(
    context: TreeContext, subject: Subject, texts: Mapping[str, Sequence[str]]
) -> Iterator[TextPlace]:
    """Yield the names in property links that lead to a property; without a name there, the path."""
    for file, parsed in _files(context):
        lines = texts[file]
        for (_, link), (line, _) in parsed.links.items():
            is_named = link.endswith(PROPERTY_LINK) and f"{subject[1]}" in lines[line - 1]  # a fast test
            if is_named and link_target(context.tree.properties, lines, line - 1) == subject:
                yield _target_place(file, lines, line - 1)


def _names_of_node(
    context: TreeContext, subject: Subject, texts: Mapping[str, Sequence[str]]
) -> Iterator[TextPlace]:
    """Yield the places that name a node, also through symbolic links."""
    path, _ = subject
    links = [*_links_to(context, path)]
    names = {node_name(path), *(name.removesuffix(SYMBOLIC_LINK) for _, name in links)}
    found = [*_node_places(context, path, texts, names, lambda named: resolved(context, named) == path)]
    yield from found
    named = {(place.file, place.line) for place in found}
    for file, parsed in _files(context):
        for line in {parsed.links[link][0] - 1 for link in links if link in parsed.links}:
            if (file, line) not in named:  # a target such as .. has no name
                yield _target_place(file, texts[file], line)


def _links_to(context: TreeContext, path: str) -> Iterator[tuple[str, str]]:
    """Yield the node and the name of each symbolic link that leads to a node."""
    for part in context.reviewed.linted.links.values():
        for holder, name in part.links:
            target = f"{(context.tree.properties(holder) or {}).get(name)}"
            if name.endswith(SYMBOLIC_LINK) and resolved(context, joined(holder, target)) == path:
                yield holder, name


def _target_place(file: str, lines: Sequence[str], number: int) -> TextPlace:
    """Return the place of the last word of a link: the property, if the link names it, else the path."""
    text = lines[number].rstrip()
    return TextPlace(file, number, len(text) - len(text.split()[-1]), len(text))


def _node_places(
    context: TreeContext,
    path: str,
    texts: Mapping[str, Sequence[str]],
    names: set[str],
    is_meant: Callable[[str], bool],
) -> Iterator[TextPlace]:
    """Yield the definitions of a node, and the places in links, lists and documents whose node ``is_meant``.

    ``names`` are the last names of all paths that may be meant.
    """
    lookup = context.tree.properties
    for file, parsed in _files(context):
        lines = texts[file]
        places = {line - 1 for line, _ in [parsed.positions[path]]} if path in parsed.tree else set()
        linked = {line - 1 for line, _ in parsed.links.values()}
        linked |= {number for number, text in enumerate(lines) if DEPLOY_AFTER in text}
        places |= {number for number in linked if any(name in lines[number] for name in names)}
        for number in sorted(places):
            for reference in references(lookup, lines, number):
                if is_meant(reference.path):
                    yield TextPlace(file, number, reference.start, reference.end)
    for entry in context.reviewed.documents.entries.values():
        for named, place in _in_document(lookup, entry.kind, entry.source, entry.file, texts[entry.file]):
            if is_meant(named):
                yield place


def _in_document(
    lookup: Lookup, kind: DocumentKind[Any], document: Document, file: str, lines: Sequence[str]
) -> Iterator[tuple[str, TextPlace]]:
    """Yield each node that a path in a document names, with the place of its name.

    A path in another spelling, such as one with escapes, has one place, from which its line ends.
    """
    # Values that an alias repeats have one place.
    ways = {place: way for way, place in document.places.items() if _is_path(kind, way)}
    for (line, column), way in ways.items():
        value: Any = document.value
        for part in way:
            value = value[part]
        if not isinstance(value, str) or not value.startswith("/"):
            continue
        text = lines[line - 1]
        start = column - 1 + (text[column - 1 : column] in {"'", '"'})
        is_plain = text[start : start + len(value)] == value
        for path, first, last in names_in_path(lookup, "", value, start):
            columns = (first, last) if is_plain else (column - 1, len(text.rstrip()))
            yield path, TextPlace(file, line - 1, *columns)


def _is_path(kind: DocumentKind[Any], way: Way) -> bool:
    """Return whether the form of a document has the path of a node at a place."""
    return is_path_form(form_at(kind.form, [ITEM if isinstance(part, int) else part for part in way]))


def node_in_documents(context: TreeContext, lines: Sequence[str], number: int, column: int) -> str | None:
    """Return the node of the tree that the word at a place of a YAML file stands for."""
    try:
        documents = [*parse_yaml("\n".join(lines))]
    except YamlTextError:
        return None
    found = None
    for document in documents:
        schema = document.value.get("schema") if isinstance(document.value, dict) else None
        kind = known_kinds().by_schema.get(f"{schema}")
        if kind is None:
            continue
        for path, place in _in_document(context.tree.properties, kind, document, "", lines):
            if place.line == number and place.start <= column <= place.end and path in context.tree:
                found = path
    return found


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
    problem = _name_problem(context, path, name)
    if problem is not None:
        raise TreeError(problem)
    renamed = f"{parent_path(path)}/{name}"
    if renamed in context.tree or name + SYMBOLIC_LINK in (context.tree.properties(parent_path(path)) or ()):
        raise TreeError(f"there is a node or a link {renamed}; expected a name that is free")


def _name_problem(context: TreeContext, path: str, name: str) -> str | None:
    """Return why a node cannot have a name, by the rule for targets, for paths of services, or for other nodes."""
    above = service_above(path)
    if parent_path(path) == f"{above}/deploy" and "type" in (context.tree.properties(above) or ()):
        return target_problem(name)
    below = (node for node in context.tree if node == path or node.startswith(f"{path}/"))
    has_service = any("type" in (context.tree.properties(node) or ()) for node in below)
    return name_problem(NameKind.SERVICE if has_service else NameKind.NODE, name)


def renaming_places(context: TreeContext, path: str, texts: Mapping[str, Sequence[str]]) -> Iterator[TextPlace]:
    """Yield the places that name a node; ``texts`` has the lines of each file by its name.

    Raises ``TreeError`` for a document that names the node in another spelling than its path.
    """
    name = node_name(path)
    for place in _node_places(context, path, texts, {name}, path.__eq__):
        if texts[place.file][place.line][place.start : place.end] != name:
            at = f"{place.file}:{place.line + 1}:{place.start + 1}"
            raise TreeError(f"{at}: expected {path} on one line, without escapes and anchors")
        yield place
