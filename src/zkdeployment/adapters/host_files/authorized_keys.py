"""The keys of tenants in ``/root/.ssh/authorized_keys`` of this host.

A tenant is root and may have left anything there: symbolic links, directories, pipes, wrong rights. Nothing is
read or written through a symbolic link, and a file is replaced as a whole.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.adapters.host_files.ssh_connections import end_connections
from zkdeployment.errors import HostFilesError
from zkdeployment.pools.lease import TENANT_MARKER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_DIRECTORIES = ("root", ".ssh")
_NAME = "authorized_keys"
_LARGEST = 1024 * 1024
_MARKER = TENANT_MARKER.encode()


@dataclass(frozen=True)
class AuthorizedKeys:
    """The file below the directory ``root``, which stands for ``/``.

    The tenants' keys follow the marker, up to the end of the file. All lines before it belong to others.
    The methods raise ``HostFilesError``.
    """

    root: Path

    def admitted(self) -> Sequence[str]:
        """Return the keys of tenants that root admits; the keys of others are not among them."""
        with self._directory(make=False) as directory:
            if directory is None:
                return ()
            _, block = _split(self._read(directory))
            return tuple(line.decode("utf-8", errors="replace") for line in block or () if line)

    def admit(self, keys: Sequence[str]) -> None:
        """Make root admit exactly these keys of tenants; the keys of others stay. Writes only what differs."""
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
            durable.replace(directory / _NAME, wanted, mode=0o600)

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
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                descriptor = os.open(name, flags, dir_fd=descriptor)
            except FileNotFoundError:
                return None
            stack.callback(os.close, descriptor)
        if make:
            os.fchown(descriptor, os.geteuid(), os.getegid())
            os.fchmod(descriptor, 0o700)
        return descriptor

    def _read(self, directory: Path) -> bytes:
        content = durable.read(directory / _NAME, _LARGEST + 1) or b""
        if len(content) > _LARGEST:
            raise HostFilesError(f"{self._file} is too large: expected at most {_LARGEST} bytes; shorten it")
        return content

    def _is_private(self, directory: Path) -> bool:
        """Whether only this user may read and write the file."""
        status = os.lstat(directory / _NAME)
        return status.st_mode & 0o777 == 0o600 and status.st_uid == os.geteuid()


def _split(content: bytes) -> tuple[bytes, list[bytes] | None]:
    """Return what is before the first marker, and the lines after it; ``None`` without a marker."""
    lines = content.split(b"\n")
    if _MARKER not in lines:
        return content, None
    place = lines.index(_MARKER)
    return b"".join(line + b"\n" for line in lines[:place]), lines[place + 1 :]


def _joined(others: bytes, lines: Sequence[bytes]) -> bytes:
    """Return the lines after what others have in the file, whose last line may lack its end."""
    end = b"\n" if others and not others.endswith(b"\n") else b""
    return others + end + b"".join(line + b"\n" for line in lines)
