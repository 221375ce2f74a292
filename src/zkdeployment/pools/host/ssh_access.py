"""The access of tenants by SSH: root's directory, the keys of tenants, and their connections.

A tenant is root and may leave anything in the directory: more keys, configurations, symbolic links, directories,
pipes, wrong permissions. Nothing is read, written or removed through a symbolic link, and a file is replaced as a
whole.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import shutil
import signal
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zkdeployment.agent.rules.lease import TENANT_MARKER
from zkdeployment.base.errors import HostFilesError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import files
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_SAVED_NAME = ".ssh"

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
        """Record the directory, unless a record exists, which has the state before the first tenant."""
        if self.record.exists():
            return
        with self._errors(), _opened(self.root / "root") as home:
            content = None if home is None else self._read(home)
            files.replace(self.record, json.dumps(content).encode(), mode=0o600)

    def restore(self) -> None:
        """Restore the recorded state of the directory, and remove the record; does nothing without a record."""
        with self._errors():
            text = files.read(self.record, _LARGEST_RECORD)
        if text is None:
            return
        try:
            recorded = json.loads(text)
        except ValueError as error:
            raise HostFilesError(
                f"{self.record} is damaged: expected JSON; remove it to keep {self._path}"
            ) from error
        with self._errors(), _opened(self.root / "root") as home:
            if home is not None:
                self._write(home, recorded)
            files.remove(self.record)

    @property
    def _path(self) -> Path:
        return self.root / "root" / _SAVED_NAME

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise HostFilesError(
                f"cannot restore {self._path}: {error.strerror}; a former tenant may have changed it: repair it"
            ) from error

    def _read(self, home: int) -> dict[str, Any] | None:
        """Return the mode, the files and the links in the directory; ``None`` if there is no directory."""
        with _opened(_SAVED_NAME, home) as directory:
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
        """Remove all entries that are not recorded, and write the recorded ones."""
        status = _status(home, _SAVED_NAME)
        if status is not None and (recorded is None or not stat.S_ISDIR(status.st_mode)):
            _remove(home, _SAVED_NAME)
            status = None
        if recorded is None:
            return
        if status is None:
            os.mkdir(_SAVED_NAME, mode=0o700, dir_fd=home)
        with _opened(_SAVED_NAME, home) as directory:
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
def _opened(name: str | Path, above: int | None = None) -> Iterator[int | None]:
    """Yield a descriptor of a directory that is no symbolic link; ``None`` if it does not exist."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except FileNotFoundError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _entry(path: Path) -> dict[str, Any]:
    """Return the record of a file or a link; the record of any other entry only names its kind."""
    status = path.lstat()
    owner = {"mode": stat.S_IMODE(status.st_mode), "uid": status.st_uid, "gid": status.st_gid}
    if stat.S_ISLNK(status.st_mode):
        return {"link": str(path.readlink())}
    if not stat.S_ISREG(status.st_mode):
        return {}
    content = files.read(path, _LARGEST + 1) or b""
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
            files.replace(path, base64.b64decode(entry["content"]), mode=entry["mode"])
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


_PROCESSES = Path("/proc")

#: The beginnings of the titles that sshd gives the processes of connections, and a part of its listener's title.
_TITLES = (b"sshd: ", b"sshd-session: ")
_LISTENER = b"[listener]"


def end_connections(root: Path) -> None:
    """End the connections to the host with the root directory ``root``, except that of this process.

    A process counts only if its root directory is ``root``. Containers on the host are therefore excluded, and so
    are the connections of the machine if the directory stands for ``/``.
    """
    ended = 0
    own = set(_ancestors())
    for process in _PROCESSES.iterdir():
        if process.name.isdecimal() and int(process.name) not in own and _is_connection(process, root):
            with contextlib.suppress(OSError):  # the process has ended in the meantime
                os.kill(int(process.name), signal.SIGTERM)
                ended += 1
    if ended:
        get_logger().info("ssh-connections-ended", processes=ended)


def _is_connection(process: Path, root: Path) -> bool:
    try:
        title = (process / "cmdline").read_bytes()
        return title.startswith(_TITLES) and _LISTENER not in title and (process / "root").samefile(root)
    except OSError:
        return False


def _ancestors() -> Iterator[int]:
    """Yield the ids of this process and of its ancestors."""
    process = os.getpid()
    while process > 1:
        yield process
        try:
            lines = (
                (_PROCESSES / str(process) / "status").read_text(encoding="ascii", errors="replace").splitlines()
            )
        except OSError:
            return
        process = next((int(line.split()[1]) for line in lines if line.startswith("PPid:")), 0)


_DIRECTORIES = ("root", ".ssh")
_NAME = "authorized_keys"
_MARKER = TENANT_MARKER.encode()


@dataclass(frozen=True)
class AuthorizedKeys:
    """The file below the directory ``root``, which stands for ``/``.

    The tenants' keys follow the marker, up to the end of the file. All lines before it belong to others.
    The methods raise ``HostFilesError``.
    """

    root: Path

    def admitted(self) -> Sequence[str]:
        """Return the keys of tenants that root admits, without keys of other owners."""
        with self._directory(make=False) as directory:
            if directory is None:
                return ()
            _, block = _split(self._read(directory))
            return tuple(line.decode("utf-8", errors="replace") for line in block or () if line)

    def admit(self, keys: Sequence[str]) -> None:
        """Make root admit exactly these keys of tenants; keys of other owners stay. Writes only differences."""
        with self._directory(make=bool(keys)) as directory:
            if directory is None:
                return
            content = self._read(directory)
            others, block = _split(content)
            if keys:
                wanted = _joined(others, [_MARKER, *(key.encode() for key in keys)])
                if wanted == content and self._is_private(directory):
                    return
            elif block is None:
                return
            else:
                wanted = others
            files.replace(directory / _NAME, wanted, mode=0o600)

    def end_connections(self) -> None:
        """End all SSH connections to this host, except the one through which this process was started."""
        end_connections(self.root)

    @property
    def _file(self) -> Path:
        return self.root.joinpath(*_DIRECTORIES, _NAME)

    @contextlib.contextmanager
    def _directory(self, *, make: bool) -> Iterator[Path | None]:
        """Yield a path of the file's directory that no symbolic link can redirect; ``None`` without a directory.

        With ``make``, the directory is made if it is missing, belongs to this user, and no other user may use it.
        """
        with contextlib.ExitStack() as stack:
            try:
                descriptor = self._open_directory(stack, make=make)
                yield None if descriptor is None else Path("/proc/self/fd") / str(descriptor)
            except OSError as error:
                raise HostFilesError(
                    f"cannot use {self._file}: {error.strerror}; expected a file in directories, none of them a"
                    " symbolic link; a former tenant may have changed that: repair it"
                ) from error

    def _open_directory(self, stack: contextlib.ExitStack, *, make: bool) -> int | None:
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, descriptor)
        for name in _DIRECTORIES:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, mode=0o700, dir_fd=descriptor)
            found = stack.enter_context(_opened(name, descriptor))
            if found is None:
                return None
            descriptor = found
        if make:
            os.fchown(descriptor, os.geteuid(), os.getegid())
            os.fchmod(descriptor, 0o700)
        return descriptor

    def _read(self, directory: Path) -> bytes:
        content = files.read(directory / _NAME, _LARGEST + 1) or b""
        if len(content) > _LARGEST:
            raise HostFilesError(f"{self._file} is too large: expected at most {_LARGEST} bytes; shorten it")
        return content

    def _is_private(self, directory: Path) -> bool:
        """Whether only this user may read and write the file."""
        status = os.lstat(directory / _NAME)
        return status.st_mode & 0o777 == 0o600 and status.st_uid == os.geteuid()


def _split(content: bytes) -> tuple[bytes, list[bytes] | None]:
    """Return the text before the first marker, and the lines after it; ``None`` without a marker."""
    lines = content.split(b"\n")
    if _MARKER not in lines:
        return content, None
    place = lines.index(_MARKER)
    return b"".join(line + b"\n" for line in lines[:place]), lines[place + 1 :]


def _joined(others: bytes, lines: Sequence[bytes]) -> bytes:
    """Return the text of other owners, whose last line may lack its end, followed by these lines."""
    end = b"\n" if others and not others.endswith(b"\n") else b""
    return others + end + b"".join(line + b"\n" for line in lines)
