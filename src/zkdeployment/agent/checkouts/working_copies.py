"""Working copies that only the agent changes, and the files that a new state takes over from the old one.

The build runs as root. The build sees only files that no other user may change; all other files are moved into the
new directory after the build, and are never opened. Repositories of version control are not taken over: their
configuration names programs.

A service's user may own ``/opt/PACKAGE`` with its repository, whose configuration names programs. Git and svn
therefore run on these copies only, in which nothing is built. ``PACKAGE/copy`` is the working copy,
``PACKAGE/files`` lists the files of its installed state, and ``PACKAGE/coming`` those of the next state.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import stat
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from zkdeployment.base.errors import CheckoutError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import files
from zkdeployment.base.machine.files import foreign_part, is_ours
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator


_REPOSITORIES = frozenset({".git", ".svn"})


def committed_files(directory: Path) -> frozenset[str]:
    """Return the relative paths of all files and symbolic links of a checkout in which nothing was built."""
    return frozenset(_files(str(directory), ""))


def _files(directory: str, prefix: str) -> Iterator[str]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                yield prefix + entry.name
            elif entry.name not in _REPOSITORIES:
                yield from _files(entry.path, f"{prefix}{entry.name}/")


def copy_built(old: Path, new: Path, committed: Collection[str], prefix: str = "") -> None:
    """Copy files that only root may change, that are not ``committed``, and that ``new`` does not have."""
    if not is_ours(old.lstat()) or new.is_symlink() or (new.exists() and not new.is_dir()):
        return
    names = os.listdir(old)  # noqa: PTH208  names, not paths
    if prefix and _has_repository(names):
        return
    is_new = not new.exists()
    new.mkdir(exist_ok=True)
    for name in names:
        path, status = prefix + name, (old / name).lstat()
        if path in committed or name in _REPOSITORIES or not is_ours(status):
            continue
        if stat.S_ISDIR(status.st_mode):
            copy_built(old / name, new / name, committed, f"{path}/")
        elif not os.path.lexists(new / name):
            _copy(old / name, new / name)
    if is_new and names and not any(new.iterdir()):
        new.rmdir()  # it contained only committed files
    elif is_new:
        _copy_status(old, new)


def _copy(source: Path, target: Path) -> None:
    """Copy a file or a symbolic link; nothing else can be copied."""
    if source.is_symlink() or source.is_file():
        shutil.copyfile(source, target, follow_symlinks=False)
        _copy_status(source, target)


def _copy_status(source: Path, target: Path) -> None:
    status = source.lstat()
    with contextlib.suppress(PermissionError):  # an agent of another user than root
        os.lchown(target, status.st_uid, status.st_gid)
    shutil.copystat(source, target, follow_symlinks=False)


def move_others(old: Path, new: Path, committed: Collection[str]) -> None:
    """Move files that other users may change, that are not ``committed``, and that ``new`` does not have.

    ``committed`` are the files of the old and of the new state. Other users may change the directories meanwhile.
    """
    parents = {str(parent) for path in committed for parent in PurePosixPath(path).parents}
    with _opened(str(old)) as source, _opened(str(new)) as target:
        _move(source, target, committed, parents, "")


def _move(source: int, target: int, committed: Collection[str], parents: Collection[str], prefix: str) -> None:
    for name in os.listdir(source):
        path = prefix + name
        if path in committed or name in _REPOSITORIES:
            continue
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # their owner may change them meanwhile
            status = os.lstat(name, dir_fd=source)
            if not stat.S_ISDIR(status.st_mode):
                if not is_ours(status):
                    _rename(name, source, target, path)
                continue
            with _opened(name, source) as inner:
                if _has_repository(os.listdir(inner)):  # noqa: PTH208  a descriptor
                    continue
                if path not in parents and not is_ours(os.fstat(inner)):
                    _rename(name, source, target, path)
                    continue
                _move_within(name, inner, target, committed, parents, path)


def _move_within(
    name: str, inner: int, target: int, committed: Collection[str], parents: Collection[str], path: str
) -> None:
    """Move files from the directory ``inner`` to that of the same name in ``target``, which is made if needed."""
    status = os.fstat(inner)
    if is_new := not _exists(name, target):
        os.mkdir(name, dir_fd=target)
    with _opened(name, target) as place:
        _move(inner, place, committed, parents, f"{path}/")
        if is_new:
            with contextlib.suppress(PermissionError):  # an agent of another user than root
                os.fchown(place, status.st_uid, status.st_gid)
            os.fchmod(place, stat.S_IMODE(status.st_mode))
    if is_new:
        with contextlib.suppress(OSError):  # it is not empty
            os.rmdir(name, dir_fd=target)


def _rename(name: str, source: int, target: int, path: str) -> None:
    """Move a file or a directory, unless the new state contains this name; replace an empty directory."""
    is_in_the_way = _exists(name, target) and not stat.S_ISDIR(os.lstat(name, dir_fd=target).st_mode)
    try:
        if not is_in_the_way:
            os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
            return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR):
            raise
    get_logger().warning("checkout-file-not-kept", path=path, reason="the new state has a file of the same name")


def _exists(name: str, directory: int) -> bool:
    try:
        os.lstat(name, dir_fd=directory)
    except FileNotFoundError:
        return False
    return True


@contextlib.contextmanager
def _opened(name: str, directory: int | None = None) -> Iterator[int]:
    """Yield the descriptor of a directory; raises ``NotADirectoryError`` for other files and symbolic links."""
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _has_repository(names: Collection[str]) -> bool:
    return not _REPOSITORIES.isdisjoint(names)


_LARGEST = 256 * 1024 * 1024


@dataclass(frozen=True)
class PristineCopies:
    """The working copies below the host's ``root``. Methods raise ``CheckoutError`` or ``OSError``."""

    root: Path

    def prepare(self, package: str, renew: Callable[[Path], None]) -> Path:
        """Return the working copy, made or updated by ``renew``; its files are the next ones to install."""
        directory = self._directory(package)
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.mkdir(exist_ok=True)
        if part := foreign_part(directory, self.root):
            raise CheckoutError(f"other users may change {part}: expected a directory of root; make it one")
        copy = working_copy(self.root, package)
        renew(copy)
        files.replace(directory / "coming", json.dumps(sorted(committed_files(copy))).encode())
        return copy

    def installed_files(self, package: str) -> frozenset[str] | None:
        """Return the files of the installed state; ``None`` if they are not recorded."""
        return self._files(package, "files")

    def coming_files(self, package: str) -> frozenset[str]:
        """Return the files of the state that is being installed."""
        return self._files(package, "coming") or frozenset()

    def complete(self, package: str) -> None:
        """Record that the coming state is now the installed state."""
        with contextlib.suppress(FileNotFoundError):
            (self._directory(package) / "coming").replace(self._directory(package) / "files")

    def remove(self, package: str) -> None:
        """Remove the working copy and the records of its files."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._directory(package))

    def _files(self, package: str, name: str) -> frozenset[str] | None:
        content = files.read(self._directory(package) / name, _LARGEST)
        return None if content is None else frozenset(json.loads(content))

    def _directory(self, package: str) -> Path:
        return working_copy(self.root, package).parent


def working_copy(root: Path, package: str) -> Path:
    """Return the directory of the agent's own working copy of a checkout."""
    return root / "var/lib/zkdeployment/checkouts" / package / "copy"
