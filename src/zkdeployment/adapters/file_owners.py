"""Decides whether other users may change a file: by its owner, its mode and the directories on the way to it.

An agent runs as root. The agent may believe and run only what no other user can write. An agent of another user,
as in tests, trusts that user, too.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_LINKS = 40


def is_ours(status: os.stat_result) -> bool:
    """Whether only root and this user may change a file with this status."""
    if status.st_uid not in _trusted_users():
        return False
    if stat.S_ISLNK(status.st_mode):
        return True
    group_writes = status.st_mode & stat.S_IWGRP and status.st_gid not in (0, os.getegid())
    return not group_writes and not status.st_mode & stat.S_IWOTH


def read_ours(file: Path, limit: int) -> bytes | None:
    """Return at most ``limit`` bytes of a file; ``None`` if it is missing or other users may change it.

    Raises ``OSError``, also for a symbolic link, a directory or a pipe of that name.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as opened:
        return opened.read(limit) if is_ours(os.fstat(descriptor)) else None


def foreign_part(path: Path, root: Path) -> Path | None:
    """Return the first part of ``path`` below ``root`` that other users may change; ``None`` without such a part.

    Parts are the file, the directories on the way, and those of symbolic links on the way. Raises ``OSError`` for
    a missing part.
    """
    place, names, links = root, [*reversed(path.relative_to(root).parts)], 0
    while names:
        name = names.pop()
        place = place.parent if name == ".." else place / name
        status = place.lstat()
        if not is_ours(status) and not _is_sticky(status):
            return place
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _LINKS:
                return place
            place, rest = _start(place, place.readlink(), root)
            names += reversed(rest)
    return None


def _is_sticky(status: os.stat_result) -> bool:
    """Whether this is a directory such as ``/tmp``, in which users can only move and remove their own files."""
    return (
        stat.S_ISDIR(status.st_mode) and bool(status.st_mode & stat.S_ISVTX) and status.st_uid in _trusted_users()
    )


def _trusted_users() -> tuple[int, ...]:
    return (0, os.geteuid())


def _start(link: Path, target: Path, root: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the directory at which the target of a symbolic link begins, and the parts below that directory."""
    if not target.is_absolute():
        return link.parent, target.parts
    start = root if target.is_relative_to(root) else Path(target.anchor)
    return start, target.relative_to(start).parts
