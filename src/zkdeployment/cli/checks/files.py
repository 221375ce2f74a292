"""Reads the files with check configurations that the command line names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.checks.edits import new_check_documents
from zkdeployment.errors import ConfigurationError
from zkdeployment.model.source_files import DOCUMENT_SUFFIXES, SourceFile

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.documents.collection import Documents


def read_check_documents(file: Path) -> Documents:
    """Return the documents in a file; raises ``ConfigurationError``, and ``TreeError`` with all faults."""
    if not file.name.endswith(DOCUMENT_SUFFIXES):
        raise ConfigurationError(f"{file} is not a document: expected a file that ends in .yaml or .yml")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror}") from error
    return new_check_documents(SourceFile(str(file), content))
