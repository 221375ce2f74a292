"""RPM files on this machine: a cache for rollbacks, and directories as dnf repositories."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from zkdeployment.base.errors import PackageError, ProgramError
from zkdeployment.base.machine import files as durable
from zkdeployment.base.machine import process

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from zkdeployment.agent.packages.rpmdb import RpmDatabase, RpmFile
    from zkdeployment.base.inventory import Package, Packages


_MAKER = "createrepo_c"


def is_possible() -> bool:
    """Whether createrepo_c is installed."""
    return shutil.which(_MAKER) is not None


def make(directory: Path, name: str, *, signed: bool) -> Sequence[str]:
    """Make a repository of a directory and return the arguments that add it to dnf's repositories as ``name``.

    ``signed``: dnf checks the signatures of the packages. Raises ``PackageError`` if createrepo_c fails.
    """
    # createrepo_c refuses to run if a crash left its temporary directory.
    shutil.rmtree(directory / ".repodata", ignore_errors=True)
    try:
        process.run([_MAKER, "-q", str(directory)], timeout=600).check()
    except ProgramError as error:
        raise PackageError(f"cannot make a repository of the packages in {directory}: {error}") from error
    return [
        f"--repofrompath={name},{directory.as_uri()}",
        f"--setopt={name}.gpgcheck={int(signed)}",
        # The exact packages are already chosen; modules must not hide them.
        f"--setopt={name}.module_hotfixes=1",
    ]


class PackageCache:
    """A directory of RPM files, each named after its package.

    dnf uses the directory as a repository of the same name.
    """

    def __init__(self, directory: Path, database: RpmDatabase) -> None:
        self.directory = directory
        self._database = database

    @property
    def files(self) -> Sequence[Path]:
        """All files in the cache."""
        return sorted(self.directory.glob("*.rpm"))

    def find(self, packages: Collection[Package]) -> Sequence[RpmFile]:
        """Return the intact files of those of the packages that the cache has."""
        paths = {path for package in packages if (path := self._path(package)).exists()}
        try:
            files = self._database.read(sorted(paths))
        except PackageError:  # A file is damaged: skip it.
            files = tuple(file for path in sorted(paths) for file in self._intact(path))
        return [*{file.package: file for file in files if file.package in packages}.values()]

    def keep(self, files: Iterable[RpmFile]) -> None:
        """Move files into the cache; raises ``OSError``."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in files:
            file.path.replace(self._path(file.package))
        durable.sync_directory(self.directory)

    def copy(self, files: Iterable[RpmFile]) -> None:
        """Copy files into the cache; raises ``OSError``."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in files:
            durable.replace(self._path(file.package), file.path.read_bytes())

    def drop(self, packages: Iterable[Package]) -> None:
        """Remove the files of these packages."""
        for package in packages:
            self._path(package).unlink(missing_ok=True)

    def prune(self, installed: Packages) -> None:
        """Remove the files of packages that are no longer installed."""
        names = {self._path(package).name for packages in installed.values() for package in packages}
        for path in self.directory.glob("*.rpm"):
            if path.name not in names:
                path.unlink()
        shutil.rmtree(self.directory / "repodata", ignore_errors=True)

    def arguments(self, *, trusted: bool) -> Sequence[str]:
        """Return the arguments that add the cache to dnf's repositories.

        ``trusted``: dnf checks the signatures of the files. Raises ``PackageError`` if createrepo_c fails.
        """
        return [
            *make(self.directory, f"zkdeployment-{self.directory.name}", signed=trusted),
            "--refresh",
        ]

    def _intact(self, path: Path) -> Sequence[RpmFile]:
        try:
            return self._database.read([path])
        except PackageError:
            return ()

    def _path(self, package: Package) -> Path:
        """Return the path of a package's file: the files of two epochs have different names."""
        epoch = f".epoch{package.epoch}" if package.epoch else ""
        return self.directory / f"{package.name}-{package.version}-{package.release}.{package.arch}{epoch}.rpm"
