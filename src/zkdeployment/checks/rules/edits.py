"""Changes of check configurations and monitoring systems in the files of a revision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.base.errors import NotFoundError, RefusedError, TreeError
from zkdeployment.checks.documents.groups import CHECK_GROUP
from zkdeployment.checks.documents.kinds import CHECK, CHECK_SCHEMA, SYSTEM
from zkdeployment.checks.documents.on_call import ON_CALL
from zkdeployment.documents.edits import REMOVED, change_document, text_of, with_new_document, without_document
from zkdeployment.documents.forms import form_faults, one_of
from zkdeployment.documents.reading import document_files, read_documents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.documents.collection import DocumentEntry, Documents
    from zkdeployment.documents.yaml_values import Way

#: The kinds of documents that are created together.
_KINDS = {kind.name: kind for kind in (SYSTEM, CHECK, CHECK_GROUP, ON_CALL)}


def new_check_documents(file: SourceFile) -> Documents:
    """Return the configurations and monitoring systems in a file; raises ``TreeError`` with all faults."""
    documents = read_documents([file])
    others = [entry for entry in documents.entries.values() if entry.kind.name not in _KINDS]
    expected = one_of(kind.schema for kind in _KINDS.values())
    problems = [
        *documents.problems,
        *(entry.problem(("schema",), f"expected {expected}, found {entry.kind.schema}") for entry in others),
    ]
    if problems:
        raise TreeError("\n".join(map(str, problems)))
    if not documents.entries:
        raise TreeError(f"{file.name} holds no check configuration: expected a document with schema: {expected}")
    return documents


def check_content(name: str, data: object) -> dict[str, Any]:
    """Return the document of a configuration; raises ``TreeError`` with all faults of ``data``."""
    content: dict[str, Any] = {"schema": CHECK_SCHEMA, "metadata": {"name": name}, "data": data}
    faults = list(form_faults(content, CHECK.form)) or list(CHECK.faults(content))
    if faults:
        raise TreeError("; ".join(f"{'.'.join(map(str, way))}: {message}" for way, message in faults))
    return content


def with_new_checks(
    files: Sequence[SourceFile], contents: Mapping[tuple[str, str], Mapping[str, Any]]
) -> dict[str, bytes | None]:
    """Return the files of new documents, given by kind and name, without documents that exist with this content.

    Raises ``RefusedError`` if another document has one of the names.
    """
    entries = read_documents(document_files(files)).entries
    changed: dict[str, bytes | None] = {}
    for (kind, name), content in contents.items():
        entry = entries.get((kind, (name,)))
        if entry is None:
            changed |= with_new_document(files, _KINDS[kind], (name,), content)
        elif entry.content != content:
            raise RefusedError(
                f"there is a {kind} {name} already: {entry.file} holds its document; change that document, or"
                " choose another name"
            )
    return changed


def with_changed_check(
    files: Sequence[SourceFile], name: str, content: Mapping[str, Any]
) -> dict[str, bytes | None]:
    """Return the changed file after a configuration gets other values; raises ``NotFoundError``."""
    entry = find_check(files, name)
    old, new = entry.content["data"], content["data"]
    changes: dict[Way, object] = {
        ("data", key): value for key, value in new.items() if key not in old or old[key] != value
    }
    changes |= {("data", key): REMOVED for key in old if key not in new}
    if not changes:
        return {}
    return {entry.file: change_document(text_of(files, entry.file), entry.position, changes).encode()}


def without_check(files: Sequence[SourceFile], name: str) -> dict[str, bytes | None]:
    """Return the changed file after a configuration is removed; raises ``NotFoundError``."""
    return without_document(files, find_check(files, name))


def find_check(files: Sequence[SourceFile], name: str) -> DocumentEntry:
    """Return the document of a configuration; raises ``NotFoundError`` if it does not exist."""
    entry = read_documents(document_files(files)).entries.get((CHECK.name, (name,)))
    if entry is None:
        raise NotFoundError(
            f"there is no check {name} at the tip of the branch; 'zkdeployment checks list' shows those that are"
            " published"
        )
    return entry
