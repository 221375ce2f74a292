"""A lock between the processes of a machine, which the kernel releases when its holder ends."""

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
    """Raise ``RefusedError`` if a directory, or its nearest existing parent, belongs to another user.

    The user of this process could not replace files that this process creates there.
    """
    # A directory below an inaccessible one is invisible; then the inaccessible one counts.
    existing = next(path for path in (directory, *directory.parents) if os.access(path, os.F_OK))
    owner = existing.stat().st_uid
    # A directory of root, such as /var/lib, may hold directories of any user.
    if owner != os.geteuid() and (existing == directory or owner != 0):
        raise RefusedError(
            f"{existing} belongs to {_name(owner)}; run this command as that user, for example with runuser -u"
        )


@contextlib.contextmanager
def sole_process(file: Path) -> Iterator[bool]:
    """Hold the lock ``file`` and yield ``True``, or yield ``False`` if another process holds the lock.

    A missing file is created; raises ``ConfigurationError`` if that fails.
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
