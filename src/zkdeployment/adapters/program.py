"""The file of the running program on disk."""

from __future__ import annotations

from pathlib import Path


class Program:
    """The file that this process was started from; an upgrade replaces it."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._started = self._look()

    def outdated(self) -> bool:
        """Whether the file was replaced since this process started."""
        return self._look() != self._started

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = Path(self._file).stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_mtime_ns
