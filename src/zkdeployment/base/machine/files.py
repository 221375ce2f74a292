"""Files of the machine: atomic replacement, JSON, owners and permissions, secrets, and locks between processes.

The contents of files belong to the modules that use them. An agent runs as root, so it may trust and run only
files that no other user can write. An agent that runs as another user, as in tests, trusts that user, too.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import stat
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from zkdeployment.base.errors import (
    ConfigurationError,
    HostFilesError,
    RefusedError,
    error_message,
    without_secrets,
)
from zkdeployment.base.log import get_logger
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def replace(file: Path, content: bytes, *, mode: int = 0o644, sync: bool = True) -> None:
    """Replace a file, or a symbolic link or an empty directory of the same name; raises ``OSError``.

    Without ``sync``, the call is fast and the content survives a crash of this process, but not of the machine.
    """
    try:
        _replace(file, content, mode, sync=sync)
    except OSError as error:
        error.filename = str(file)  # not the temporary file
        raise
    if sync:
        sync_directory(file.parent)


def _replace(file: Path, content: bytes, mode: int, *, sync: bool) -> None:
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name[:100]}.")
    try:
        with os.fdopen(descriptor, "wb") as temporary:
            os.fchmod(descriptor, mode)
            temporary.write(content)
            temporary.flush()
            if sync:
                os.fsync(descriptor)
        try:
            os.replace(name, file)  # noqa: PTH105  names on both sides
        except IsADirectoryError:
            file.rmdir()
            os.replace(name, file)  # noqa: PTH105  names on both sides
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108  a name, not a path
        raise


def remove(file: Path) -> None:
    """Remove a file if it exists; raises ``OSError``."""
    file.unlink(missing_ok=True)
    sync_directory(file.parent)


def sync_directory(directory: Path) -> None:
    """Make creations, renames and removals in a directory survive a crash of the machine."""
    _sync(directory, os.O_DIRECTORY)


def sync_file(file: Path) -> None:
    """Make the content of a file survive a crash of the machine; raises ``OSError``."""
    _sync(file, os.O_NOFOLLOW)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(file: Path, limit: int) -> bytes | None:
    """Return at most ``limit`` bytes of a regular file; ``None`` if it does not exist.

    Raises ``OSError``, also for a symbolic link, a directory or a pipe of that name.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as opened:
        return opened.read(limit)


@contextlib.contextmanager
def converting_errors(verb: str, file: Path) -> Iterator[None]:
    """Raise ``HostFilesError`` with the failed action and the file for an ``OSError``."""
    try:
        yield
    except OSError as error:
        raise HostFilesError(f"cannot {verb} {error.filename or file}: {error.strerror}") from error


T = TypeVar("T")


def log_damage(file: Path, reason: str) -> None:
    """Log that a file cannot be read; it counts as missing."""
    get_logger().warning("host-file-unreadable", file=str(file), reason=reason)


@dataclass(eq=False, repr=False)
class JsonFile(Generic[T]):
    """A file with one JSON value, replaced atomically and durably. Writes raise ``HostFilesError``.

    ``decode`` returns the value of decoded JSON, and raises one of the usual errors for JSON that is not
    ``expected``; ``encode`` is its inverse. A file that cannot be read is logged and counts as missing, unless
    ``damaged`` returns what stands for its value, or raises an error; it takes the file and the reason.

    A write replaces the whole value, also keys that another version wrote: those belong to the replaced value.
    """

    file: Path
    decode: Callable[[Any], T | None]
    encode: Callable[[T], object]
    expected: str = "JSON"
    limit: int = 64 * 1024
    mode: int = 0o644
    damaged: Callable[[Path, str], T | None] = log_damage

    def load(self) -> T | None:
        """Return the value; ``None`` for a missing file."""
        wrong = "not JSON"
        try:
            content = read(self.file, self.limit)
            if content is None:
                return None
            value = json.loads(content)
            wrong = f"not {self.expected}"
            return self.decode(value)
        except OSError as error:
            return self.damaged(self.file, error.strerror or str(error))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return self.damaged(self.file, wrong)

    def save(self, value: T) -> None:
        """Replace the value; a missing directory is made."""
        content = json.dumps(self.encode(value)).encode()
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            replace(self.file, content, mode=self.mode)
        except OSError as error:
            raise HostFilesError(f"cannot write {self.file}: {error.strerror}") from error

    def clear(self) -> None:
        """Remove the file if it exists."""
        try:
            remove(self.file)
        except OSError as error:
            raise HostFilesError(f"cannot remove {self.file}: {error.strerror}") from error


def json_object(value: Any) -> dict[str, Any]:
    """Return a decoded JSON object; raises ``TypeError`` for another value."""
    if not isinstance(value, dict):
        raise TypeError("not a JSON object")
    return value


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


_MAX_BYTES = 4096


def read_secret(file: Path) -> str:
    """Return the only line of a file; raises ``ConfigurationError`` if everyone has access to the file."""
    try:
        with file.open("rb") as opened:
            check_private(file)
            secret = opened.read(_MAX_BYTES).decode("utf-8", errors="replace").strip()
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror}") from error
    if not secret or len(secret.splitlines()) != 1:
        raise ConfigurationError(f"expected one line with a secret in {file}, found other content")
    return secret


def check_private(file: Path) -> None:
    """Raise ``ConfigurationError`` if everyone has access to a file; raises ``OSError`` for a missing one."""
    if file.is_dir():
        raise ConfigurationError(f"{file} is a directory: expected a file")
    if (mode := stat.S_IMODE(file.stat().st_mode)) & stat.S_IRWXO:
        raise ConfigurationError(f"everyone has access to {file} (mode {mode:03o}); run chmod o-rwx {file}")


@contextlib.contextmanager
def unfinished(directory: Path) -> Iterator[None]:
    """Keep a marker file beside ``directory`` inside the block; after an error, the file stays with the reason.

    A failure to write the file is only logged.
    """
    file = directory.with_name(f".{directory.name}.unfinished")
    _write(file, "under way, or killed")
    try:
        yield
    except Exception as error:
        _write(file, without_secrets(error_message(error)))
        raise
    with contextlib.suppress(OSError):
        remove(file)


def _write(file: Path, state: str) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    content = f"{now} process {os.getpid()}: {state}\n".encode("utf-8", errors="backslashreplace")
    try:
        replace(file, content, sync=False)
    except OSError as error:
        get_logger().warning("unfinished-mark-not-written", file=str(file), reason=error.strerror)


def check_owner(directory: Path) -> None:
    """Raise ``RefusedError`` if a directory, or its nearest existing parent, belongs to another user.

    The owner of such a directory could not replace files that this process creates in it.
    """
    # A directory below an inaccessible one is invisible, so the inaccessible one is checked instead.
    existing = next(path for path in (directory, *directory.parents) if os.access(path, os.F_OK))
    owner = existing.stat().st_uid
    # A directory of root, such as /var/lib, may hold directories of any user.
    if owner != os.geteuid() and (existing == directory or owner != 0):
        raise RefusedError(
            f"{existing} belongs to {_name(owner)}; run this command as that user, for example with runuser -u"
        )


def write_problem(directory: Path, user: str) -> str | None:
    """Return why a user cannot write to a directory; ``None`` if the user can, or does not exist."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        return None
    make = f"make it with: install -d -o {user} -g {user} -m 750 {directory}"
    try:
        status = directory.stat()
    except OSError as error:
        return f"{user} cannot write to {directory}: {error.strerror}; {make}"
    if entry.pw_uid == 0 or (stat.S_ISDIR(status.st_mode) and _mode_for(status, entry) & stat.S_IWOTH):
        return None
    return (
        f"{user} cannot write to {directory}, which belongs to {_name(status.st_uid)} with mode"
        f" {stat.S_IMODE(status.st_mode):03o}; {make}"
    )


def read_problem(file: Path, user: str) -> str | None:
    """Return why a user cannot read an existing file; ``None`` if the user can, or does not exist."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        return None
    status = file.stat()
    if entry.pw_uid == 0 or _mode_for(status, entry) & stat.S_IROTH:
        return None
    return (
        f"{user} cannot read {file}, which belongs to {_name(status.st_uid)} with mode"
        f" {stat.S_IMODE(status.st_mode):03o}; permit it with: chgrp {user} {file} && chmod 640 {file}"
    )


def _mode_for(status: os.stat_result, entry: pwd.struct_passwd) -> int:
    """Return the mode of a file with the permissions of a user in its last three bits."""
    if status.st_uid == entry.pw_uid:
        return status.st_mode >> 6
    if status.st_gid in os.getgrouplist(entry.pw_name, entry.pw_gid):
        return status.st_mode >> 3
    return status.st_mode


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
