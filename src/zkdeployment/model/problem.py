"""Problems: everything that is wrong with a tree, each with its place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """Whether a problem forbids publication."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where (file, line and column from 1, node path, as far as known) and what."""

    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    path: str | None = None
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        words = self.message if self.severity is Severity.ERROR else f"warning: {self.message}"
        if self.path is not None and self.path not in self.message:
            words = f"{self.path}: {words}"
        return f"{place}: {words}" if place else words
