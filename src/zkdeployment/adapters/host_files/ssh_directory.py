"""The directory ``/root/.ssh`` of this host, recorded before a tenant is admitted and restored afterwards.

A tenant is root and may leave anything there: more keys, configurations, symbolic links, directories. Nothing is
read, written or removed through a symbolic link.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zkdeployment.adapters import durable
from zkdeployment.errors import HostFilesError

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = ".ssh"

#: The most bytes of all files in the directory, and of the record.
_LARGEST = 1024 * 1024
_LARGEST_RECORD = 4 * _LARGEST

#: The most entries in the directory.
_MOST_ENTRIES = 200


@dataclass(frozen=True)
class SshDirectory:
    """The directory below ``root``, which stands for ``/``, and the file ``record``."""

    root: Path
    record: Path

    def keep(self) -> None:
        """Record the directory, unless a record exists: it is that of before the first tenant."""
        if self.record.exists():
            return
        with self._errors(), self._home() as home:
            content = None if home is None else self._read(home)
            durable.replace(self.record, json.dumps(content).encode(), mode=0o600)

    def restore(self) -> None:
        """Restore the recorded state of the directory, and remove the record; does nothing without a record."""
        with self._errors():
            text = durable.read(self.record, _LARGEST_RECORD)
        if text is None:
            return
        try:
            recorded = json.loads(text)
        except ValueError as error:
            raise HostFilesError(
                f"{self.record} is damaged: expected JSON; remove it to keep {self._path}"
            ) from error
        with self._errors(), self._home() as home:
            if home is not None:
                self._write(home, recorded)
            durable.remove(self.record)

    @property
    def _path(self) -> Path:
        return self.root / "root" / _NAME

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise HostFilesError(
                f"cannot restore {self._path}: {error.strerror}; a former tenant may have changed it: repair it"
            ) from error

    @contextlib.contextmanager
    def _home(self) -> Iterator[int | None]:
        """Yield a descriptor of root's home directory; ``None`` if it does not exist."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self.root / "root", flags)
        except FileNotFoundError:
            yield None
            return
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _read(self, home: int) -> dict[str, Any] | None:
        """Return the mode, the files and the links in the directory; ``None`` if there is no directory."""
        with _opened(home) as directory:
            if directory is None:
                return None
            paths = sorted(Path(f"/proc/self/fd/{directory}").iterdir())
            entries = {path.name: _entry(path) for path in paths[: _MOST_ENTRIES + 1]}
            size = sum(len(entry.get("content", "")) for entry in entries.values())
            if len(paths) > _MOST_ENTRIES or size > _LARGEST * 4 // 3:
                raise HostFilesError(
                    f"{self._path} is too large to be recorded before a tenant is admitted: expected at most"
                    f" {_MOST_ENTRIES} entries and {_LARGEST} bytes; remove what does not belong there"
                )
            return {"mode": stat.S_IMODE(os.fstat(directory).st_mode), "entries": entries}

    def _write(self, home: int, recorded: dict[str, Any] | None) -> None:
        """Remove what is not recorded, and write what is."""
        status = _status(home, _NAME)
        if status is not None and (recorded is None or not stat.S_ISDIR(status.st_mode)):
            _remove(home, _NAME)
            status = None
        if recorded is None:
            return
        if status is None:
            os.mkdir(_NAME, mode=0o700, dir_fd=home)
        with _opened(home) as directory:
            if directory is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            for path in list(Path(f"/proc/self/fd/{directory}").iterdir()):
                if path.name not in recorded["entries"]:
                    _remove(directory, path.name)
            for name, entry in recorded["entries"].items():
                _restore_entry(directory, name, entry)
            os.fchown(directory, os.geteuid(), os.getegid())
            os.fchmod(directory, recorded["mode"])


@contextlib.contextmanager
def _opened(home: int) -> Iterator[int | None]:
    try:
        descriptor = os.open(_NAME, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=home)
    except FileNotFoundError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _entry(path: Path) -> dict[str, Any]:
    """Return the record of a file or a link; of anything else only that it is there."""
    status = path.lstat()
    owner = {"mode": stat.S_IMODE(status.st_mode), "uid": status.st_uid, "gid": status.st_gid}
    if stat.S_ISLNK(status.st_mode):
        return {"link": str(path.readlink())}
    if not stat.S_ISREG(status.st_mode):
        return {}
    content = durable.read(path, _LARGEST + 1) or b""
    return {**owner, "content": base64.b64encode(content).decode("ascii")}


def _restore_entry(directory: int, name: str, entry: dict[str, Any]) -> None:
    path, status = Path(f"/proc/self/fd/{directory}") / name, _status(directory, name)
    if "content" in entry or "link" in entry:
        if status is not None and stat.S_ISDIR(status.st_mode):
            _remove(directory, name)
        if "link" in entry:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            path.symlink_to(entry["link"])
        else:
            durable.replace(path, base64.b64decode(entry["content"]), mode=entry["mode"])
            os.chown(path, entry["uid"], entry["gid"], follow_symlinks=False)


def _status(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _remove(directory: int, name: str) -> None:
    status = _status(directory, name)
    if status is not None and stat.S_ISDIR(status.st_mode):
        shutil.rmtree(name, dir_fd=directory)
    elif status is not None:
        os.unlink(name, dir_fd=directory)
