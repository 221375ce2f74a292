"""The program that this process runs, as it is on the disk."""

from __future__ import annotations

from pathlib import Path


class Program:
    """Knows of what file this process was started; an upgrade puts another one in its place."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._started = self._look()

    def outdated(self) -> bool:
        """Whether something else is there by now."""
        return self._look() != self._started

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = Path(self._file).stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_mtime_ns
