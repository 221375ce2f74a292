"""The files of the tree's repository that zkdeployment reads, and problems with their places in them."""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import NamedTuple

from zkdeployment.base.values import dataclass

#: The suffixes of tree files: files that own their top-level nodes, and files that are layered over them.
TREE_SUFFIXES = (".zk", ".zkx")

#: The suffixes of files that may contain rollout documents.
DOCUMENT_SUFFIXES = (".yaml", ".yml")

#: The largest tree file, in bytes. People write trees by hand; a larger file is a mistake or an attack.
MOST_BYTES_OF_A_FILE = 32 << 20


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The content of a file in the repository: a tree file, or a file that may contain documents.

    ``is_nested``: the file is in a subdirectory, so its documents are not in force.
    """

    name: str
    content: bytes = field(hash=False)  # a comparison is faster than the hash of a large file
    is_nested: bool = False


def is_tree_file(name: str) -> bool:
    """Whether a file at the top of a repository is a tree file."""
    return name.endswith(TREE_SUFFIXES)


def may_hold_documents(name: str, size: int) -> bool:
    """Whether a file of ``size`` bytes at the top of a repository may contain rollout documents.

    Most YAML files belong to other programs. Their errors and their size are not reported.
    """
    return name.endswith(DOCUMENT_SUFFIXES) and size <= MOST_BYTES_OF_A_FILE


class Severity(Enum):
    """The effect of a problem: an error prevents the publication, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


class Correction(NamedTuple):
    """The text that a problem is about, in its line or in the property's line, and the text that was meant.

    If nothing was ``found``, the line that was meant is missing at the end of the problem's node.
    """

    found: str
    meant: str


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem and the known parts of its place: file, line and column (from 1), and node path."""

    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    path: str | None = None
    severity: Severity = Severity.ERROR
    correction: Correction | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        message = self.message if self.severity is Severity.ERROR else f"warning: {self.message}"
        if self.path is not None and self.path not in self.message:
            message = f"{self.path}: {message}"
        return f"{place}: {message}" if place else message
