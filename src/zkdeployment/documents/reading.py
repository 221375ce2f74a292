"""Reads the documents of YAML files, with all problems of all files, and the facts of hosts in such a file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.features import installed
from zkdeployment.base.host import Facts, idle_role
from zkdeployment.base.source_files import DOCUMENT_SUFFIXES, Problem, Severity, SourceFile
from zkdeployment.documents.collection import DocumentEntry, Documents, document_problem
from zkdeployment.documents.forms import Fault, form_faults
from zkdeployment.documents.kinds import DocumentKind, Subject, known_kinds, mentions_documents, schema_faults
from zkdeployment.documents.places import DocumentPlaces
from zkdeployment.documents.yaml_values import Document, YamlTextError, parse_yaml, typed_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def read_documents(files: Iterable[SourceFile], known: Documents | None = None) -> Documents:
    """Return the documents of YAML files, checked; ``known`` itself if the files did not change.

    Documents of other programs and other files are ignored.
    """
    sources = tuple(sorted(files, key=lambda file: file.name))
    if known is not None and known.files == sources:
        return known
    reader = _DocumentReader()
    for file in sources:
        if file.name.endswith(DOCUMENT_SUFFIXES):
            reader.read(file)
    return reader.documents(sources)


def read_document(source: str, content: bytes, form: dict[str, Any]) -> Document:
    """Return the first document of a YAML or JSON text, which has to be of a form.

    Raises ``ConfigurationError`` with the place in ``source``.
    """
    try:
        document = next(parse_yaml(content.decode("utf-8-sig")), Document({}, {(): (1, 1)}))
    except YamlTextError as error:
        raise ConfigurationError(f"{source}:{error.line}:{error.column}: {error}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{source}: expected UTF-8; convert the file") from error
    value = typed_values(document.value, form)
    for way, message in form_faults(value, form):
        line, column = document.place(way)
        raise ConfigurationError(f"{source}:{line}:{column}: {message}")
    return Document(value, document.places)


def document_files(files: Iterable[SourceFile]) -> list[SourceFile]:
    """Return the YAML files that may contain documents, sorted by name."""
    matches = [
        file
        for file in files
        if file.name.endswith(DOCUMENT_SUFFIXES) and not file.is_nested and mentions_documents(file.content)
    ]
    return sorted(matches, key=lambda file: file.name)


def nested_files(files: Iterable[SourceFile]) -> list[SourceFile]:
    """Return the files in subdirectories, whose documents are not in force, sorted by name."""
    return sorted((file for file in files if file.is_nested), key=lambda file: file.name)


def nested_problems(files: Iterable[SourceFile]) -> Iterator[Problem]:
    """Yield a warning for each document in a subdirectory, and for each file there with a faulty document."""
    for file in nested_files(files):
        found = read_documents([replace(file, is_nested=False)])
        for entry in found.entries.values():
            title = f"the {entry.kind.title} {'/'.join(entry.subject)}".rstrip()
            yield replace(entry.problem(("schema",), f"{title} is {_NOT_IN_FORCE}"), severity=Severity.WARNING)
        for problem in found.problems:
            message = f"a document with errors is {_NOT_IN_FORCE}; {problem.message}"
            yield replace(problem, message=message, severity=Severity.WARNING)


_NOT_IN_FORCE = "not in force: documents are read from the top directory of the repository only; move it there"


class _DocumentReader:
    """The documents read so far, and their problems."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self._advice: list[Problem] = []
        self._entries: dict[tuple[str, Subject], DocumentEntry] = {}

    def read(self, file: SourceFile) -> None:
        """Read all documents of a file."""
        try:
            for position, document in enumerate(parse_yaml(file.content.decode("utf-8-sig"))):
                self._add(file.name, position, document)
        except YamlTextError as error:
            self._problems.append(Problem(str(error), file.name, error.line, error.column))
        except UnicodeDecodeError as error:
            message = f"expected UTF-8, found the byte {error.object[error.start]:#04x}"
            line = error.object.count(b"\n", 0, error.start) + 1
            self._problems.append(Problem(message, file.name, line, 1))

    def _add(self, file: str, position: int, document: Document) -> None:
        """Add a document and its problems, if it is of a known kind."""
        value: Any = document.value
        if not isinstance(value, dict):
            return
        schema = value.get("schema")
        kind = known_kinds().by_schema.get(schema) if isinstance(schema, str) else None
        faults = schema_faults(value) if kind is None else self._add_entry(kind, file, position, document)
        self._problems += [document_problem(file, document, way, message) for way, message in faults]

    def _add_entry(self, kind: DocumentKind[Any], file: str, position: int, document: Document) -> Iterator[Fault]:
        value: Any = typed_values(document.value, kind.form) if kind.typed else document.value
        if faults := list(form_faults(value, kind.form)):
            yield from faults
            return
        faults = list(kind.faults(value))
        yield from faults
        if faults:
            return
        entry = DocumentEntry(kind, kind.subject(value), kind.parse(value), value, file, position, document)
        key = kind.name, entry.subject
        if key in self._entries:
            yield kind.place, _duplicate(self._entries[key])
            return
        self._entries[key] = entry
        self._advice += [
            replace(entry.problem(way, message), severity=Severity.WARNING) for way, message in kind.advice(value)
        ]

    def documents(self, files: tuple[SourceFile, ...]) -> Documents:
        """Return all documents that were read."""
        documents = Documents(
            self._entries, problems=tuple(self._problems), advice=tuple(self._advice), files=files
        )
        # A document with problems may choose any other one.
        for places in installed(DocumentPlaces) if not self._problems else ():
            for rule in places.rules():
                documents = rule(documents)
        return documents


def _duplicate(entry: DocumentEntry) -> str:
    """Return the message that a document of the same kind and subject exists."""
    name = " ".join((entry.kind.name, *entry.subject))
    line, _ = entry.source.place(())
    return f"there is another {name} in {entry.file}, line {line}; keep one of them"


_TEXT = {"type": "string", "description": "text"}
_OPTIONAL_TEXT = {"type": ["string", "null"], "description": "text"}

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "a mapping of host ids to {name, role, tags, labels, rack}",
    "additionalProperties": {
        "type": ["object", "null"],
        "description": "a mapping with name, role, tags, labels, rack",
        "additionalProperties": False,
        "properties": {
            "name": _OPTIONAL_TEXT,
            "role": _OPTIONAL_TEXT,
            "tags": {"type": ["array", "null"], "items": _TEXT, "description": "a list of tags"},
            "labels": {
                "type": ["object", "null"],
                "additionalProperties": _TEXT,
                "description": "a mapping of labels",
            },
            "rack": _OPTIONAL_TEXT,
        },
    },
}


def read_host_document(source: str, content: bytes) -> Document:
    """Return the document of a hosts file: a mapping of host ids to their values, or to ``None``.

    Raises ``ConfigurationError`` with the place in ``source``.
    """
    return read_document(source, content, _SCHEMA)


def read_facts(source: str, content: bytes) -> Mapping[str, Facts]:
    """Return the facts of hosts by their ids; raises ``ConfigurationError`` with the place in ``source``."""
    hosts: Any = read_host_document(source, content).value
    return {host_id: _facts(values or {}) for host_id, values in hosts.items()}


def _facts(values: Mapping[str, Any]) -> Facts:
    return Facts(
        rack=values.get("rack"),
        tags=frozenset(values.get("tags") or ()),
        labels=values.get("labels") or {},
        name=values.get("name"),
        is_leasable=idle_role(values.get("role") or "") is not None,
    )
