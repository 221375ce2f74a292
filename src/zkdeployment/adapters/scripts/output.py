"""The output file of a script: the script writes to the file, the agent follows it and limits its size.

The output goes to a file and not to a pipe, so that the script works on when the agent dies, and the agent does
not wait for a daemon that the script started and that keeps its output open.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from typing import TYPE_CHECKING, Self

from zkdeployment.printable import printable_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEAD = 5 * 1024 * 1024
TAIL = 5 * 1024 * 1024

_CHUNK = 64 * 1024
_LONGEST_LINE = 4096
_CUT = b"\n... cut: the output was too long; the end of it follows ...\n"


class ScriptOutput:
    """The output of a script in ``file``, to which the script appends; a context manager.

    The first and the last megabytes of a long output are kept: when the file grows larger, its middle is removed
    in place. ``show`` is called with each line, up to the first cut. Raises ``OSError``.
    """

    def __init__(self, file: Path, show: Callable[[str], None] | None = None) -> None:
        self.file = file
        self._show = show
        self._shown = 0
        self._line = b""
        self._descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def follow(self) -> None:
        """Show the new lines, then cut the file if it is too long."""
        if self._show is not None:
            while self._shown < HEAD and (new := self._read(self._shown, HEAD)):
                self._shown += len(new)
                self._show_lines(new)
        if os.fstat(self._descriptor).st_size > HEAD + len(_CUT) + 2 * TAIL:
            self._cut()

    def finish(self) -> None:
        """Show the remaining lines, then cut the file to its final size."""
        self.follow()
        if self._line and self._show is not None:
            self._show_lines(b"\n")
        if os.fstat(self._descriptor).st_size > HEAD + len(_CUT) + TAIL:
            self._cut()

    def tail(self, size: int) -> str:
        """Return the last ``size`` bytes as text; control characters except line ends are escaped."""
        start = max(0, os.fstat(self._descriptor).st_size - size)
        return printable_lines(os.pread(self._descriptor, size, start).decode("utf-8", errors="replace"))

    def _read(self, start: int, limit: int) -> bytes:
        return os.pread(self._descriptor, min(_CHUNK, limit - start), start)

    def _show_lines(self, new: bytes) -> None:
        *lines, self._line = (self._line + new).split(b"\n")
        while len(self._line) > _LONGEST_LINE:
            lines.append(self._line[:_LONGEST_LINE])
            self._line = self._line[_LONGEST_LINE:]
        for line in lines:
            for start in range(0, max(1, len(line)), _LONGEST_LINE):
                piece = line[start : start + _LONGEST_LINE]
                self._show(printable_lines(piece.decode("utf-8", errors="replace").rstrip("\r")))  # type: ignore[misc]

    def _cut(self) -> None:
        """Move the end of the file to just behind its head, while the script continues to append."""
        source = os.fstat(self._descriptor).st_size - TAIL
        target = HEAD + os.pwrite(self._descriptor, _CUT, HEAD)
        while chunk := os.pread(self._descriptor, _CHUNK, source):
            source += len(chunk)
            target += os.pwrite(self._descriptor, chunk, target)
        os.ftruncate(self._descriptor, target)


def cap(file: Path) -> None:
    """Limit the size of an output file to which a daemon started by a script may append; raises ``OSError``."""
    with ScriptOutput(file) as output:
        output.follow()


def is_written(file: Path) -> bool:
    """Whether a process has a file open for writing, according to the kernel's leases; raises ``OSError``."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)  # ignored by default, sent if the lease is broken
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    finally:
        os.close(descriptor)
    return False
