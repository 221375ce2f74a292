"""New and removed documents, as changes of the files of a revision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.documents.edits import add_document, remove_document
from zkdeployment.documents.file_names import document_file_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.documents.collection import DocumentEntry
    from zkdeployment.documents.kinds import DocumentKind, Subject
    from zkdeployment.model.source_files import SourceFile


def with_new_document(
    files: Sequence[SourceFile], kind: DocumentKind[Any], subject: Subject, content: Mapping[str, Any]
) -> dict[str, bytes | None]:
    """Return the file that a new document is added to: one of its own, named by its kind and subject."""
    name = document_file_name(kind.name, subject)
    return {name: add_document(text_of(files, name), content).encode()}


def without_document(files: Sequence[SourceFile], entry: DocumentEntry) -> dict[str, bytes | None]:
    """Return the file that changes when a document is removed; an empty file is deleted."""
    rest = remove_document(text_of(files, entry.file), entry.position)
    return {entry.file: rest.encode() if rest.strip() else None}


def text_of(files: Sequence[SourceFile], name: str) -> str:
    """Return the text of a file, empty if the file does not exist."""
    content = next((file.content for file in files if file.name == name), b"")
    return content.decode("utf-8-sig")
