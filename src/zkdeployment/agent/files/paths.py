"""Safe names and paths below the host's root, and the errors of failed accesses."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from zkdeployment.base.errors import HostFilesError
from zkdeployment.base.names import NameKind, is_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def checked_name(kind: NameKind, name: str) -> str:
    """Return a name that is safe in a path; raises ``HostFilesError`` for other names."""
    if not isinstance(name, str) or not is_name(kind, name):
        raise HostFilesError(f"{name!a} is not a {kind.value}")
    return name


def package_directories(parent: Path) -> Iterator[str]:
    """Yield the names of directories in ``parent`` that are valid names of packages or applications, sorted."""
    with converting_errors("read", parent), contextlib.suppress(FileNotFoundError), os.scandir(parent) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        yield from (name for name in names if is_name(NameKind.PACKAGE, name))


@contextlib.contextmanager
def converting_errors(verb: str, file: Path) -> Iterator[None]:
    """Raise ``HostFilesError`` with the failed action and the file for an ``OSError``."""
    try:
        yield
    except OSError as error:
        raise HostFilesError(f"cannot {verb} {error.filename or file}: {error.strerror}") from error
