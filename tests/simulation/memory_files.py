"""Small files in memory that survive the kill of a process, behind the functions of ``base.machine.files``."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Any
from unittest import mock

from zkdeployment.base.machine import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Disk:
    """The files of one machine; ``point`` is called before and after each write, and may kill the process."""

    def __init__(self, point: Callable[[str], None]) -> None:
        self.files: dict[str, bytes] = {}
        self.is_full = False
        self.point = point

    def empty(self) -> None:
        """Make space."""
        self.is_full = False

    def write(self, name: str, content: bytes | None) -> None:
        """Replace a file, or remove it."""
        self.point(f"write {name}")
        if content is None:
            self.files.pop(name, None)
        elif self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        else:
            self.files[name] = content
        self.point(f"wrote {name}")


class MemoryPath:
    """The path of a file on a disk, as far as the run directory uses paths."""

    def __init__(self, disk: Disk, name: str) -> None:
        self.disk = disk
        self.name = name

    def __truediv__(self, name: str) -> MemoryPath:
        return MemoryPath(self.disk, name)

    def with_name(self, name: str) -> MemoryPath:
        """Return the path of a file beside this one."""
        return MemoryPath(self.disk, name)

    @property
    def parent(self) -> MemoryPath:
        """The directory."""
        return self

    def mkdir(self, **_options: Any) -> None:
        """Do nothing: the directory exists."""

    def exists(self) -> bool:
        """Whether the file exists."""
        return self.name in self.disk.files

    def __str__(self) -> str:
        return self.name


@contextlib.contextmanager
def memory_files() -> Iterator[None]:
    """Let the functions that write and read single files accept a ``MemoryPath`` during the block."""
    on_disk = {name: getattr(files, name) for name in ("replace", "remove", "read")}

    def replace(file: MemoryPath | Path, content: bytes, **options: Any) -> None:
        if isinstance(file, MemoryPath):
            file.disk.write(file.name, content)
        else:
            on_disk["replace"](file, content, **options)

    def remove(file: MemoryPath | Path) -> None:
        if isinstance(file, MemoryPath):
            file.disk.write(file.name, None)
        else:
            on_disk["remove"](file)

    def read(file: MemoryPath | Path, limit: int) -> bytes | None:
        if not isinstance(file, MemoryPath):
            return on_disk["read"](file, limit)
        content = file.disk.files.get(file.name)
        return None if content is None else content[:limit]

    with mock.patch.multiple(files, replace=replace, remove=remove, read=read):
        yield
