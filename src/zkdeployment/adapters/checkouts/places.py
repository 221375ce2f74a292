"""Installs checkouts in ``/opt``: prepares them in a staging directory, moves them whole, rolls back failures.

The staging directory ``/opt/.zkdeployment`` exists while checkouts change. ``new`` holds the fetched directory of
each package, ``before`` the replaced directory until the new one is built, and ``rest`` directories to delete.
Directories are moved by renaming, so that a crash never leaves an incomplete directory in use.

How a system checks out belongs into the system's own module.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import tenacity

from zkdeployment.adapters import durable, process
from zkdeployment.adapters.checkouts.systems import SYSTEMS
from zkdeployment.adapters.retrying import retry
from zkdeployment.errors import CheckoutError, ProgramError, ScriptError, TreeError, without_passwords
from zkdeployment.log import get_logger
from zkdeployment.model.checkout import parse_checkout
from zkdeployment.model.names import NameKind, is_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from zkdeployment.adapters.checkouts.systems import VersionControl
    from zkdeployment.model.checkout import Checkout

#: The file in a checkout that records the full version.
MEMORY = ".zkdeployment-version"

#: The build script at the top of a checkout.
BUILD = "stage-build"

_ATTEMPTS = 3
_LARGEST = 4096


def remembered_version(directory: Path) -> str | None:
    """Return the version of a checkout; ``None`` if the directory is no checkout. Raises ``OSError``."""
    memory = directory / MEMORY
    content = durable.read(memory, _LARGEST) if memory.is_file() and not memory.is_symlink() else None
    return None if content is None else content.decode("utf-8", "replace").strip()


@dataclass(frozen=True)
class CheckoutPlaces:
    """Implements ``ports.Checkouts`` in the directory ``opt``.

    ``sources`` are the beginnings of the URLs that may be checked out (``None``: any). An unreachable repository
    is tried three times, with ``gap`` seconds in between.
    """

    opt: Path
    sources: Sequence[str] | None = None
    systems: Mapping[str, Callable[[], VersionControl]] = field(default_factory=lambda: SYSTEMS, kw_only=True)
    gap: float = field(default=2, kw_only=True)

    def prepare(self, package: str, version: str, *, replaces: bool) -> None:
        """An installed checkout of the same version is copied and updated instead of checked out again."""
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
            system = self.systems[checkout.scheme]()
            if not self._update(system, checkout, place, new):
                self._check_out(system, checkout, new)
            durable.replace(new / MEMORY, f"{version}\n".encode())

    def install(self, package: str, build: Callable[[str, str], None]) -> None:
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
            durable.sync_directory(self.opt)
            self._forget(before, package)
            self._tidy()

    def remove(self, package: str) -> None:
        with _reporting(f"remove the checkout of {package}"):
            place = self._place(package)
            get_logger().info("checkout-removed", directory=str(place), version=remembered_version(place))
            self._discard(package)
            self._tidy()

    def recover(self) -> None:
        with _reporting("restore checkouts"):
            for before in _entries(self._staged("before")):
                get_logger().warning("checkout-restored", directory=str(self.opt / before.name))
                self._discard(before.name)
                before.rename(self.opt / before.name)
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

    def _update(self, system: VersionControl, checkout: Checkout, place: Path, new: Path) -> bool:
        """Copy an installed checkout of this version, update the copy, and return whether that succeeded."""
        if place.is_symlink() or not place.is_dir() or remembered_version(place) != checkout.text:
            return False
        try:
            process.run(["cp", "--archive", "--reflink=auto", "--", str(place), str(new)]).check()
            system.update(checkout, new)
        except (CheckoutError, ProgramError) as error:
            get_logger().warning("checkout-not-updated", directory=str(place), reason=str(error))
            _delete(new)
            return False
        return True

    def _check_out(self, system: VersionControl, checkout: Checkout, new: Path) -> None:
        def attempt() -> None:
            _delete(new)
            system.check_out(checkout, new)

        retry(attempt, attempts=_ATTEMPTS, gap=self.gap)

    # In place

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
        """Delete ``/opt/PACKAGE``, whole or not at all."""
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
        return self.opt / package

    def _staged(self, kind: str, package: str = "") -> Path:
        return self.opt / ".zkdeployment" / kind / package

    def _tidy(self) -> None:
        """Remove empty staging directories."""
        for kind in ("new", "before", "rest", ""):
            with contextlib.suppress(OSError):
                self._staged(kind).rmdir()


def _open_permissions(directory: Path) -> None:
    """Let all users read all files, search all directories and run all programs; do not follow symbolic links."""
    _open(str(directory))
    for parent, directories, files in os.walk(directory):
        for name in (*directories, *files):
            with contextlib.suppress(FileNotFoundError):  # a process of the build may still remove files
                _open(os.path.join(parent, name))  # noqa: PTH118  there may be very many


def _open(path: str) -> None:
    mode = os.lstat(path).st_mode
    if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
        search = 0o111 if stat.S_ISDIR(mode) or mode & stat.S_IXUSR else 0
        os.chmod(path, stat.S_IMODE(mode) | 0o444 | search)  # noqa: PTH101  a name, not a path


# A process of a killed agent may still create files until it notices that the directory has moved.
@tenacity.retry(
    stop=tenacity.stop_after_attempt(10),
    wait=tenacity.wait_fixed(0.1),
    retry=tenacity.retry_if_exception(lambda error: isinstance(error, OSError) and error.errno == errno.ENOTEMPTY),
    reraise=True,
)
def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _entries(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


@contextlib.contextmanager
def _reporting(action: str) -> Iterator[None]:
    """Raise ``CheckoutError`` that names the failed action, for a ``CheckoutError`` or an ``OSError``."""
    try:
        yield
    except CheckoutError as error:
        raise CheckoutError(without_passwords(f"cannot {action}: {error}")) from error
    except OSError as error:
        raise CheckoutError(f"cannot {action}: {error.strerror}: {error.filename}") from error
