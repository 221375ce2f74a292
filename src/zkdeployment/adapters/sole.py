"""One process at a time: a lock on this machine that ends with whoever has it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from zkdeployment.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def sole_process(file: Path) -> Iterator[bool]:
    """Hold the lock of ``file``, which is made if need be; gives ``False`` if another process has it.

    Raises ``ConfigurationError`` if the file cannot be made.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError(f"cannot make the lock {file}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
