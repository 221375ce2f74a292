"""One process at a time, of one user: a lock on this machine that ends with whoever has it."""

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
    """Raise ``RefusedError`` if a directory is another user's, or is to be made in one that is.

    What we leave there would be in that user's way.
    """
    # What a place above keeps closed to us is not seen; that place counts then.
    place = next(one for one in (directory, *directory.parents) if os.access(one, os.F_OK))
    owner = place.stat().st_uid
    # Below what is root's there may be places for all.
    if owner != os.geteuid() and (place == directory or owner != 0):
        raise RefusedError(f"{place} belongs to {_name(owner)}: run this as that user, say with runuser -u")


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


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user {uid}"
