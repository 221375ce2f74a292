"""Problems of a tree, each with its place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """The effect of a problem: an error prevents the publication, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem and the known parts of its place: file, line and column (from 1), and node path."""

    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    path: str | None = None
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        message = self.message if self.severity is Severity.ERROR else f"warning: {self.message}"
        if self.path is not None and self.path not in self.message:
            message = f"{self.path}: {message}"
        return f"{place}: {message}" if place else message
