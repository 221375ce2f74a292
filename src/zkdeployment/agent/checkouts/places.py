"""Installs checkouts in ``/opt``: prepares them in a staging directory, moves them whole, rolls back failures.

The staging directory ``/opt/.zkdeployment`` exists while checkouts change. ``new`` holds the fetched directory of
each package, ``before`` the replaced directory until the new one is built, ``kept`` the replaced directory until
the files of a service's user are moved out of it, and ``rest`` directories to delete. Directories are moved by
renaming, so that a crash never leaves an incomplete directory in use.

``SYSTEMS`` has the version control systems by the scheme of a version. A new system needs a class in
``repositories`` and an entry there. Agents import ``repositories`` with their first checkout, if they have any.
Working copies belong to ``working_copies``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import time
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from zkdeployment.agent.checkouts.working_copies import PristineCopies, copy_built, move_others
from zkdeployment.base.errors import CheckoutError, ProgramError, ScriptError, TreeError, without_passwords
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import files as durable
from zkdeployment.base.machine import process
from zkdeployment.base.machine.program import late_import
from zkdeployment.base.machine.retrying import retry
from zkdeployment.base.names import NameKind, is_name
from zkdeployment.base.values import dataclass
from zkdeployment.tree.checkout import Checkout, parse_checkout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path


class VersionControl(Protocol):
    """A version control system. Raises ``CheckoutError``, with ``retry_helps`` for an unreachable repository."""

    def check_out(self, checkout: Checkout, directory: Path) -> None:
        """Create ``directory`` with the checkout."""

    def update(self, checkout: Checkout, directory: Path) -> None:
        """Update a directory that holds an older state of the same checkout; files that a build made stay."""


def _git() -> VersionControl:
    with late_import():
        from zkdeployment.agent.checkouts.repositories import GitCheckouts  # noqa: PLC0415
    return GitCheckouts()


def _svn() -> VersionControl:
    with late_import():
        from zkdeployment.agent.checkouts.repositories import SvnCheckouts  # noqa: PLC0415
    return SvnCheckouts()


SYSTEMS: Mapping[str, Callable[[], VersionControl]] = {"git": _git, "svn": _svn, "svn+ssh": _svn}

#: The file in a checkout that records the full version.
MEMORY = ".zkdeployment-version"

#: The build script at the top of a checkout.
BUILD = "stage-build"

_ATTEMPTS = 3
_LARGEST = 4096


def remembered_version(directory: Path) -> str | None:
    """Return the version of a checkout; ``None`` if the directory is not a checkout. Raises ``OSError``."""
    memory = directory / MEMORY
    content = durable.read(memory, _LARGEST) if memory.is_file() and not memory.is_symlink() else None
    return None if content is None else content.decode("utf-8", "replace").strip()


@dataclass(frozen=True)
class CheckoutPlaces:
    """Software in ``/opt`` below ``root`` that is checked out from a repository and built there.

    ``sources`` are the beginnings of the URLs that may be checked out (``None``: any). An unreachable repository
    is tried three times, with ``gap`` seconds in between. The methods raise ``CheckoutError``.
    """

    root: Path
    sources: Sequence[str] | None = None
    systems: Mapping[str, Callable[[], VersionControl]] = field(default_factory=lambda: SYSTEMS, kw_only=True)
    gap: float = field(default=2, kw_only=True)

    def prepare(self, package: str, version: str, *, replaces: bool) -> None:
        """Check out a version in the staging directory, without a change of ``/opt/PACKAGE``.

        The working copy of an installed checkout is updated instead of checked out again. Files that a build left
        in an installed checkout of the same version are copied. Raises ``CheckoutError`` if the source is not
        allowed, or if ``/opt/PACKAGE`` exists and not ``replaces``.
        """
        with _reporting(f"check out {package}"):
            checkout = self._parse(version)
            place = self._place(package)
            if not replaces and os.path.lexists(place) and not _is_empty(place):
                raise CheckoutError(
                    f"{place} is in the way: expected a checkout or a managed package, found neither; move it away"
                )
            new = self._staged("new", package)
            self._forget(new, package)
            new.parent.mkdir(parents=True, exist_ok=True)
            copy = self._copies.prepare(package, partial(self._renew, checkout))
            _copy(copy, new)
            installed = self._copies.installed_files(package)
            if installed is not None and self._is_installed(checkout, place):
                copy_built(place, new, installed)

    def install(self, package: str, build: Callable[[str, str], None]) -> None:
        """Build and install the prepared checkout, readable for everyone; on failure restore the previous content.

        ``build`` is called with the path of the build script, if there is one, and its directory.
        """
        place, new, before = self._place(package), self._staged("new", package), self._staged("before", package)
        with _reporting(f"install the checkout of {package}"):
            before.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(place):
                place.rename(before)
            try:
                new.rename(place)
                self._build(place, build)
                _open_permissions(place)
            except BaseException:
                self._discard(package)
                if os.path.lexists(before):
                    before.rename(place)
                self._tidy()
                raise
            durable.sync_directory(self._opt)
            if os.path.lexists(before):
                self._staged("kept").mkdir(exist_ok=True)
                before.rename(self._staged("kept", package))
            self._complete(package)
            self._tidy()

    def remove(self, package: str) -> None:
        """Remove ``/opt/PACKAGE``, completely or not at all."""
        with _reporting(f"remove the checkout of {package}"):
            place = self._place(package)
            get_logger().info("checkout-removed", directory=str(place), version=remembered_version(place))
            self._discard(package)
            self._copies.remove(package)
            self._tidy()

    def recover(self) -> None:
        """Restore directories that an interrupted installation had moved, and remove incomplete checkouts."""
        with _reporting("restore checkouts"):
            for before in _entries(self._staged("before")):
                get_logger().warning("checkout-restored", directory=str(self._opt / before.name))
                self._discard(before.name)
                before.rename(self._opt / before.name)
            for kept in _entries(self._staged("kept")):
                self._complete(kept.name)
            for new in _entries(self._staged("new")):
                self._forget(new, new.name)
            for rest in _entries(self._staged("rest")):
                _delete(rest)
            self._tidy()

    # In the staging directory

    def _parse(self, version: str) -> Checkout:
        """Return the checkout of a version; raises ``CheckoutError`` if its repository is not allowed."""
        try:
            checkout = parse_checkout(version)
        except TreeError as error:
            raise CheckoutError(str(error)) from error
        if self.sources is not None and not checkout.is_from(self.sources):
            raise CheckoutError(
                f"{checkout.url} is not allowed on this host: expected one of checkout-sources"
                f" ({', '.join(self.sources) or 'none'}); correct the version in the tree, or checkout-sources"
            )
        return checkout

    def _renew(self, checkout: Checkout, copy: Path) -> None:
        """Update the working copy if it is of this version, or else check it out."""
        system = self.systems[checkout.scheme]()
        if not self._is_installed(checkout, copy) or not self._update(system, checkout, copy):
            self._check_out(system, checkout, copy)
        durable.replace(copy / MEMORY, f"{checkout.text}\n".encode())

    def _update(self, system: VersionControl, checkout: Checkout, copy: Path) -> bool:
        try:
            system.update(checkout, copy)
        except CheckoutError as error:
            get_logger().warning("checkout-not-updated", directory=str(copy), reason=str(error))
            return False
        return True

    def _check_out(self, system: VersionControl, checkout: Checkout, copy: Path) -> None:
        def attempt() -> None:
            _delete(copy)
            system.check_out(checkout, copy)

        retry(attempt, attempts=_ATTEMPTS, gap=self.gap)

    @staticmethod
    def _is_installed(checkout: Checkout, directory: Path) -> bool:
        is_directory = directory.is_dir() and not directory.is_symlink()
        return is_directory and remembered_version(directory) == checkout.text

    # In place

    def _complete(self, package: str) -> None:
        """Keep other users' files of a replaced directory with the same version; then delete the directory."""
        kept, place = self._staged("kept", package), self._place(package)
        if kept.is_dir() and not kept.is_symlink() and remembered_version(kept) == remembered_version(place):
            installed = self._copies.installed_files(package) or frozenset()
            move_others(kept, place, installed | self._copies.coming_files(package))
        self._copies.complete(package)
        self._forget(kept, package)

    def _build(self, place: Path, build: Callable[[str, str], None]) -> None:
        script = place / BUILD
        if not os.path.lexists(script):
            return
        if not script.is_file() or not script.resolve().is_relative_to(place.resolve()):
            raise ScriptError(f"the build script {script} is no file inside the checkout; commit a regular file")
        if not script.stat().st_mode & stat.S_IXUSR:
            raise ScriptError(f"the build script {script} is not executable; commit it with mode 755")
        build(str(script), str(place))

    def _discard(self, package: str) -> None:
        """Delete ``/opt/PACKAGE``, completely or not at all."""
        place = self._place(package)
        if os.path.lexists(place):
            self._forget(place, package)

    def _forget(self, directory: Path, package: str) -> None:
        """Move a directory out of use in one step, then delete it."""
        if not os.path.lexists(directory):
            return
        rest = self._staged("rest", package)
        _delete(rest)
        rest.parent.mkdir(parents=True, exist_ok=True)
        directory.rename(rest)
        durable.sync_directory(directory.parent)
        _delete(rest)

    def _place(self, package: str) -> Path:
        if not is_name(NameKind.PACKAGE, package):
            raise CheckoutError(f"{package!a} is not a {NameKind.PACKAGE.value}")
        return self._opt / package

    def _staged(self, kind: str, package: str = "") -> Path:
        return self._opt / ".zkdeployment" / kind / package

    @property
    def _opt(self) -> Path:
        return self.root / "opt"

    @property
    def _copies(self) -> PristineCopies:
        return PristineCopies(self.root)

    def _tidy(self) -> None:
        """Remove empty staging directories."""
        for kind in ("new", "before", "kept", "rest", ""):
            with contextlib.suppress(OSError):
                self._staged(kind).rmdir()


def _copy(source: Path, target: Path) -> None:
    try:
        process.run(["cp", "--archive", "--reflink=auto", "--", str(source), str(target)]).check()
    except ProgramError as error:
        raise CheckoutError(str(error)) from error


def _open_permissions(directory: Path) -> None:
    """Let all users read all files, search all directories and run all programs; do not follow symbolic links."""
    _open(str(directory))
    for _, directories, files, parent in os.fwalk(directory):
        for name in (*directories, *files):
            with contextlib.suppress(FileNotFoundError):  # a process that the build started may still remove files
                _open(name, parent)


def _open(name: str, parent: int | None = None) -> None:
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if not _opened_mode(mode) & ~mode:
        return
    # The build may have given the directory to another user, who may replace the file by a symbolic link now.
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        mode = os.fstat(descriptor).st_mode
        os.chmod(f"/proc/self/fd/{descriptor}", stat.S_IMODE(_opened_mode(mode)))  # noqa: PTH101
    finally:
        os.close(descriptor)


def _opened_mode(mode: int) -> int:
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        return mode
    return mode | (0o555 if stat.S_ISDIR(mode) or mode & stat.S_IXUSR else 0o444)


#: Attempts at the deletion of a directory, and the seconds between two of them.
_DELETIONS, _DELETION_GAP = 10, 0.1


def _delete(path: Path) -> None:
    """Delete a file or a directory.

    A process of a killed agent may still create files until the process notices that the directory has moved.
    """
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    for attempt in range(1, _DELETIONS + 1):
        try:
            shutil.rmtree(path)
            break
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or attempt == _DELETIONS:
                raise
        time.sleep(_DELETION_GAP)


def _entries(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


@contextlib.contextmanager
def _reporting(action: str) -> Iterator[None]:
    """Raise a ``CheckoutError`` that names the failed action, for a ``CheckoutError`` or an ``OSError``."""
    try:
        yield
    except CheckoutError as error:
        raise CheckoutError(without_passwords(f"cannot {action}: {error}")) from error
    except OSError as error:
        raise CheckoutError(f"cannot {action}: {error.strerror}: {error.filename}") from error
