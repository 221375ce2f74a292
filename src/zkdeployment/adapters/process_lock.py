"""A lock on this machine that ends with the process that holds it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
from typing import TYPE_CHECKING

from zkdeployment.errors import ConfigurationError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def check_owner(directory: Path) -> None:
    """Raise ``RefusedError`` if a directory, or the parent it is to be created in, belongs to another user.

    Our files there would be in that user's way.
    """
    # A directory below a closed one cannot be seen; the closed one counts then.
    place = next(one for one in (directory, *directory.parents) if os.access(one, os.F_OK))
    owner = place.stat().st_uid
    # Directories of root may hold directories for everybody.
    if owner != os.geteuid() and (place == directory or owner != 0):
        raise RefusedError(f"{place} belongs to {_name(owner)}: run this as that user, say with runuser -u")


@contextlib.contextmanager
def sole_process(file: Path) -> Iterator[bool]:
    """Hold the lock of ``file``, which is created if missing; yields ``False`` if another process holds it.

    Raises ``ConfigurationError`` if the file cannot be created.
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


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user {uid}"
