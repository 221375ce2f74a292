"""The trace of a chaos run: events and observations with their time, in a file and, if wanted, on the terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: The lines that a finding shows.
_SHOWN = 60


def uptime() -> float:
    """Return the seconds since the machine's boot, with which scripts record their begin and end."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Trace:
    """Notes what happens in ``file``; ``loud`` shows each line at once."""

    def __init__(self, file: Path, *, loud: bool) -> None:
        self.file = file
        self._loud = loud
        self._begun = uptime()
        self._last: deque[str] = deque(maxlen=_SHOWN)
        self._lock = threading.Lock()

    def note(self, text: str) -> None:
        """Add a line."""
        line = f"{uptime() - self._begun:9.2f} {text}"
        with self._lock:
            self._last.append(line)
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write(f"{line}\n")
        if self._loud:
            say(line)

    def show_end(self) -> None:
        """Show the last lines, unless all lines were shown."""
        if not self._loud:
            say("\n".join(self._last))


def say(text: str) -> None:
    """Print a line for people."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
