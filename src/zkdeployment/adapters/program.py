"""Detects that an upgrade replaced the running program."""

from __future__ import annotations

from pathlib import Path


class Program:
    """The file from which this process was started."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._started = self._identify()

    def outdated(self) -> bool:
        """Whether the file was replaced since this process started."""
        return self._identify() != self._started

    def _identify(self) -> tuple[int, int, int] | None:
        try:
            status = Path(self._file).stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns
