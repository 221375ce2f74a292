"""Reads small files, and replaces and removes files atomically and durably.

The formats of files belong into the modules that use them.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def replace(file: Path, content: bytes, *, mode: int = 0o644, sync: bool = True) -> None:
    """Replace a file, or a symbolic link or an empty directory of the same name; raises ``OSError``.

    Without ``sync``, the call is fast and the content survives a crash of this process, but not of the machine.
    """
    try:
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name[:100]}.")
    except OSError as error:
        error.filename = str(file)  # the target, not the temporary file
        raise
    try:
        with os.fdopen(descriptor, "wb") as temporary:
            os.fchmod(descriptor, mode)
            temporary.write(content)
            temporary.flush()
            if sync:
                os.fsync(descriptor)
        try:
            os.replace(name, file)  # noqa: PTH105  names on both sides
        except IsADirectoryError:
            file.rmdir()
            os.replace(name, file)  # noqa: PTH105  names on both sides
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108  a name, not a path
        raise
    if sync:
        sync_directory(file.parent)


def remove(file: Path) -> None:
    """Remove a file if it exists; raises ``OSError``."""
    file.unlink(missing_ok=True)
    sync_directory(file.parent)


def sync_directory(directory: Path) -> None:
    """Make creations, renames and removals in a directory survive a crash of the machine."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(file: Path, limit: int) -> bytes | None:
    """Return at most ``limit`` bytes of a regular file; ``None`` if it does not exist.

    Raises ``OSError``, also for a symbolic link, a directory or a pipe of that name.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as opened:
        return opened.read(limit)
