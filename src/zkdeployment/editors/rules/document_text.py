"""Places in the text of YAML documents, and completion of their keys and values.

The text may have errors, because people are typing it: the place of a line follows from the indentation alone.
Lines and columns count from 0, in characters.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from zkdeployment.base.values import dataclass
from zkdeployment.documents.kinds import DocumentKind, known_kinds
from zkdeployment.editors.rules.completion import Proposal, ProposalKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from zkdeployment.editors.rules.tree_text import TreeContext


_LINE = re.compile(
    r"(?P<dashes> *(?:-(?: +|$))*)(?:(?P<quote>['\"]?)(?P<key>[^\s'\"#:][^'\"#:]*)(?P=quote)\s*:(?=\s|$))?"
)
_SEPARATOR = re.compile(r"---(\s|$)")
_SCHEMA = re.compile(r"schema\s*:\s*['\"]?([^\s'\"#]+)")

#: Stands for any position of a list.
ITEM = "[]"

#: The beginning of the description of a form whose values are paths of the tree.
_PATH = "the path of a node"


class _Entry(NamedTuple):
    """A key, or the dash of a list's item, with its column."""

    column: int
    name: str


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """A place in a document: the keys above it, its own key if it is a value, and the kind of the document.

    ``form`` is that of the mapping, list or value at the place. ``column`` is where the word before the cursor
    begins. ``siblings`` are the keys that the same mapping already has.
    """

    kind: DocumentKind[Any] | None
    way: tuple[str, ...]
    is_value: bool
    column: int
    siblings: frozenset[str] = frozenset()

    @property
    def form(self) -> Mapping[str, Any]:
        """The form of the values at the place; empty if it is not known."""
        return {} if self.kind is None else form_at(self.kind.form, self.way)


def place_at(lines: Sequence[str], number: int, column: int) -> DocumentPlace:
    """Return the place of the cursor in a document."""
    before = lines[number][:column]
    entries = _entries(before)
    word = re.search(r"[^\s'\",\[\]{}]*$", before)
    start = column - len(word[0]) if word is not None else column
    is_value = bool(entries) and entries[-1].name != ITEM
    own = column if not before.strip() else start
    way = _way_above(lines, number, entries, entries[-1].column + 1 if is_value else own)
    if is_value and before.partition(":")[2].lstrip().startswith("["):
        way = (*way, ITEM)
    kind = known_kinds().by_schema.get(_schema(lines, number))
    siblings = frozenset() if is_value else frozenset(_siblings(lines, number, own))
    return DocumentPlace(kind, way, is_value, start, siblings)


def form_at(form: Mapping[str, Any], way: Sequence[str]) -> Mapping[str, Any]:
    """Return the form of the values at a way of keys and ``ITEM``; empty if the form has no such values."""
    for part in way:
        form = next((found for one in _alternatives(form) if (found := _step(one, part))), {})
    return form


def is_path_form(form: Mapping[str, Any]) -> bool:
    """Return whether the values of a form are paths of nodes."""
    return any(str(one.get("description", "")).startswith(_PATH) for one in _alternatives(form))


def _alternatives(form: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [form, *form.get("anyOf", ())]


def _step(form: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    if part == ITEM:
        found = form.get("items", {})
    else:
        found = form.get("properties", {}).get(part, form.get("additionalProperties"))
    return found if isinstance(found, dict) else {}


def _entries(text: str) -> list[_Entry]:
    match = _LINE.match(text)
    if match is None or text.lstrip().startswith("#"):
        return []
    found = [_Entry(at.start(), ITEM) for at in re.finditer("-", match["dashes"])]
    if match["key"] is not None:
        found.append(_Entry(match.start("key") - len(match["quote"]), match["key"].strip()))
    return found


def _way_above(lines: Sequence[str], number: int, own: Sequence[_Entry], column: int) -> tuple[str, ...]:
    """Return the keys and items above a place in ``column``, after the entries of its own line."""
    way: list[str] = []
    limit, last = column, ""
    for position in range(number, -1, -1):
        if position != number and _SEPARATOR.match(lines[position]):
            break
        for entry in reversed(own if position == number else _entries(lines[position])):
            # A list may begin in the column of its key.
            if entry.column < limit or (entry.column == limit and last == ITEM != entry.name):
                way.append(entry.name)
                limit, last = entry.column, entry.name
    return tuple(reversed(way))


def _siblings(lines: Sequence[str], number: int, column: int) -> Iterator[str]:
    """Yield the keys in the same column around a line, of the same mapping."""
    is_first = any(entry.name == ITEM and entry.column < column for entry in _entries(lines[number]))
    for step in (1,) if is_first else (-1, 1):
        position = number + step
        while 0 <= position < len(lines) and not _SEPARATOR.match(lines[position]):
            entries = _entries(lines[position])
            text = lines[position]
            if step > 0 and entries and entries[0].column < column:
                break
            yield from (entry.name for entry in entries if entry.column == column and entry.name != ITEM)
            if text.strip() and not text.lstrip().startswith("#") and entries and entries[0].column < column:
                break
            position += step
    yield from (entry.name for entry in _entries(lines[number]) if entry.column == column and entry.name != ITEM)


def _schema(lines: Sequence[str], number: int) -> str:
    """Return the schema of the document around a line; empty without one."""
    first = number
    while first > 0 and not _SEPARATOR.match(lines[first]):
        first -= 1
    last = number + 1
    while last < len(lines) and not _SEPARATOR.match(lines[last]):
        last += 1
    return next((match[1] for text in lines[first:last] if (match := _SCHEMA.match(text))), "")


def document_proposals(context: TreeContext, lines: Sequence[str], number: int, column: int) -> list[Proposal]:
    """Return the proposals for a place of a YAML file, the most likely first."""
    if lines[number][:column].lstrip().startswith("#"):
        return []
    place = place_at(lines, number, column)
    if place.kind is None:
        return list(_new_documents(lines, number, column, place))
    found = [*_values(context, place)]
    if not place.is_value:
        found += _keys(place)
    return sorted(found, key=lambda proposal: (proposal.order, proposal.label))


def _new_documents(lines: Sequence[str], number: int, column: int, place: DocumentPlace) -> Iterator[Proposal]:
    """Yield the kinds of documents, for a document without a schema."""
    if place.is_value and place.way == ("schema",):
        for schema in known_kinds().by_schema:
            yield Proposal(schema, schema, place.column)
    elif not place.way and place.column == 0 and column == len(lines[number]) and not place.siblings:
        for schema, kind in known_kinds().by_schema.items():
            text = f"schema: {schema}\n{skeleton(kind.form)}"
            yield Proposal(kind.title, text, 0, ProposalKind.SNIPPET, f"a document {schema}", is_snippet=True)


def _keys(place: DocumentPlace) -> Iterator[Proposal]:
    for form in _alternatives(place.form):
        for key, below in form.get("properties", {}).items():
            if key in place.siblings:
                continue
            is_required = key in form.get("required", ())
            detail = str(below.get("description", "")) or _expected(below)
            text = "".join(_Skeleton().entry(key, below, "")).rstrip("\n")
            yield Proposal(
                key,
                text,
                place.column,
                ProposalKind.PROPERTY,
                f"required: {detail}" if is_required else detail,
                2 if is_required else 4,
                is_snippet=True,
            )


def _values(context: TreeContext, place: DocumentPlace) -> Iterator[Proposal]:
    """Yield the values that the form of a place names, and those that the tree and the fleet have for it."""
    forms = _alternatives(place.form)
    if place.way == ("schema",):
        yield from (Proposal(schema, schema, place.column) for schema in known_kinds().by_schema)
    for form in forms:
        yield from (Proposal(str(value), str(value), place.column, order=1) for value in form.get("enum", ()))
        if "boolean" in _types(form):
            yield from (Proposal(value, value, place.column, order=1) for value in ("true", "false"))
    if is_path_form(place.form):
        services = frozenset(context.services())
        for path in context.tree:
            if path in services:
                yield Proposal(path, path, place.column, ProposalKind.NODE, "service", 1)
            elif not {"deploy", "providers"} & set(path.split("/")):
                yield Proposal(path, path, place.column, ProposalKind.NODE, "node", 2)
    named = [part for part in place.way if part != ITEM]
    read = _OF_THE_FLEET.get(named[-1]) if named else None
    if read is not None and (place.way[-1] == ITEM or place.is_value):
        yield from (Proposal(value, value, place.column, order=1) for value in read(context))


def _labels(context: TreeContext) -> Sequence[str]:
    return sorted({f"'{key}: {value}'" for host in context.live.hosts for key, value in host.labels.items()})


def _strategies(context: TreeContext) -> Sequence[str]:
    entries = context.reviewed.documents.entries.values()
    return sorted(entry.subject[0] for entry in entries if entry.kind.title == "DeploymentStrategy")


#: The values of keys that name hosts and documents.
_OF_THE_FLEET: Mapping[str, Callable[[TreeContext], Sequence[str]]] = {
    "node_names": lambda context: context.host_names(),
    "node_tags": lambda context: sorted({tag for host in context.live.hosts for tag in host.tags}),
    "node_labels": _labels,
    "rack_names": lambda context: sorted({host.rack for host in context.live.hosts if host.rack is not None}),
    "deployment_strategy": _strategies,
}


def skeleton(form: Mapping[str, Any]) -> str:
    """Return a snippet with the required keys of a form, with a place to fill in for each value."""
    return "".join(_Skeleton().mapping(form, ""))


class _Skeleton:
    """Writes one snippet; the places to fill in are numbered in their order."""

    def __init__(self) -> None:
        self._number = 0

    def mapping(self, form: Mapping[str, Any], indent: str) -> Iterator[str]:
        """Yield the lines of the required keys of a mapping, or of its first key if none is required."""
        properties = form.get("properties", {})
        for key in form.get("required") or list(properties)[:1]:
            yield from self.entry(key, properties[key], indent)
        if not properties and isinstance(form.get("additionalProperties"), dict):
            yield from self.entry(self._place("name"), form["additionalProperties"], indent)

    def entry(self, key: str, form: Mapping[str, Any], indent: str) -> Iterator[str]:
        """Yield the lines of a key with its value."""
        items = form.get("items", {})
        if form.get("type") == "object":
            yield f"{indent}{key}:\n"
            yield from self.mapping(form, f"{indent}  ")
        elif form.get("type") == "array" and items.get("type") == "object":
            yield f"{indent}{key}:\n"
            first, *others = self.mapping(items, f"{indent}    ")
            yield f"{indent}  - {first.lstrip()}"
            yield from others
        elif form.get("type") == "array":
            item = _example("item", items) if form.get("minItems") else ""
            yield f"{indent}{key}: [{self._place(item)}]\n"
        else:
            yield f"{indent}{key}: {self._place(_example(key, form))}\n"

    def _place(self, example: str) -> str:
        self._number += 1
        return f"${{{self._number}:{example}}}"


def _example(key: str, form: Mapping[str, Any]) -> str:
    """Return a value that shows what a form expects."""
    for one in _alternatives(form):
        if "enum" in one:
            return str(one["enum"][0])
        kinds = _types(one)
        if "boolean" in kinds:
            return "false"
        if kinds & {"integer", "number"}:
            return str(one.get("minimum", 1))
    return "/path" if is_path_form(form) else key


def _types(form: Mapping[str, Any]) -> frozenset[str]:
    kinds = form.get("type", ())
    return frozenset([kinds] if isinstance(kinds, str) else kinds)


def _expected(form: Mapping[str, Any]) -> str:
    """Return a description of the values of a form that has none."""
    if "enum" in form:
        return f"one of: {', '.join(map(str, form['enum']))}"
    names = {"object": "a mapping", "array": "a list", "string": "text", "boolean": "true or false"}
    return " or ".join(names.get(kind, kind) for kind in sorted(_types(form))) or "a value"


def describe_place(place: DocumentPlace) -> str:
    """Return a description of the expected values at a place, as Markdown; empty where nothing is known."""
    form = place.form
    if place.kind is None or not form or not place.way:
        return ""
    required = [key for key in form.get("required", ()) if key != "schema"]
    lines = [f"**{'.'.join(part for part in place.way if part != ITEM)}** of a {place.kind.title}", ""]
    lines.append(f"Expected: {form.get('description') or _expected(form)}.")
    if required:
        lines.append(f"Required keys: {', '.join(required)}.")
    optional = [
        key for key in form.get("properties", {}) if key not in form.get("required", ()) and key != "schema"
    ]
    if optional:
        lines.append(f"Further keys: {', '.join(optional)}.")
    return "\n".join(lines)
