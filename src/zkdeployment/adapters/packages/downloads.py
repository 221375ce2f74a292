"""Downloads the RPM files of requested packages and of their dependencies into a directory."""

from __future__ import annotations

import contextlib
import platform
from typing import TYPE_CHECKING

from zkdeployment.adapters.packages.failures import NotAvailableError, UnsolvableError
from zkdeployment.adapters.packages.rpmdb import QUERY, by_name, parse
from zkdeployment.errors import PackageError
from zkdeployment.planning import packages

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from zkdeployment.adapters.packages.command import DnfCommand
    from zkdeployment.adapters.packages.held_dnf import HeldDnf
    from zkdeployment.adapters.packages.rpmdb import RpmDatabase, RpmFile
    from zkdeployment.model.inventory import Package, Packages


class Downloads:
    """Downloads with dnf, which checks the signatures as the repositories require. No package is changed."""

    def __init__(self, dnf: DnfCommand, held: HeldDnf, database: RpmDatabase) -> None:
        self._dnf = dnf
        self._held = held
        self._database = database

    def obtain(
        self,
        wanted: Mapping[str, str | None],
        directory: Path,
        *,
        alone: bool,
        sources: Sequence[str] = (),
    ) -> tuple[RpmFile, ...]:
        """Download the wanted packages (versions by name) and their dependencies.

        ``alone``: no package will be removed, so rpm tests the installation at once, and dnf is held if possible.
        ``sources`` are arguments that add repositories. Raises ``PackageError`` if a package cannot be downloaded.

        A request by name and version takes one call and is nearly always right. If dnf finds nothing (a version
        with an epoch) or another package (one that provides the name), the exact packages are looked up and
        requested in further calls.
        """
        if not wanted:
            return ()
        with contextlib.suppress(NotAvailableError):
            specs = [_spec(*want) for want in wanted.items()]
            files = self._download(specs, directory, alone=alone, sources=sources)
            if _are_complete(files, wanted):
                return files
        exact = [package.nevra for package in self._resolve(wanted, sources)]
        for path in directory.glob("*.rpm"):
            path.unlink()
        files = self._download(exact, directory, alone=alone, sources=sources)
        if not _are_complete(files, wanted):
            downloaded = ", ".join(file.package.nevra for file in files) or "nothing"
            raise PackageError(
                f"dnf downloaded other packages than requested: expected {', '.join(exact)}, found {downloaded};"
                " check the repository's metadata"
            )
        return files

    def obtain_again(self, installed: Collection[Package], directory: Path) -> tuple[RpmFile, ...]:
        """Download those of the installed packages that a repository still has.

        Raises ``PackageError`` if no repository has any of them.
        """
        nevras = sorted(package.nevra for package in installed)
        self._dnf.run("--downloadonly", f"--setopt=destdir={directory}", "reinstall", *nevras)
        return self.read(directory)

    def read(self, directory: Path) -> tuple[RpmFile, ...]:
        """Read the packages in a directory, sorted by file name."""
        return self._database.read(sorted(directory.glob("*.rpm")))

    def _download(
        self, specs: Sequence[str], directory: Path, *, alone: bool, sources: Sequence[str]
    ) -> tuple[RpmFile, ...]:
        options = [*sources, "--refresh", f"--setopt=destdir={directory}"]
        if alone and self._held.can_prepare(directory) and self._held.prepare(directory, options, specs):
            return self.read(directory)
        options.append("--setopt=tsflags=test" if alone else "--downloadonly")
        try:
            self._dnf.run(*options, "install", *specs)
        except UnsolvableError:
            if alone:
                raise
            # A package may conflict with packages that the same transaction removes. The test of the whole
            # transaction decides.
            self._dnf.run(*options, "--allowerasing", "install", *specs)
        return self.read(directory)

    def _resolve(self, wanted: Mapping[str, str | None], sources: Sequence[str]) -> Collection[Package]:
        rows = self._dnf.run(*sources, "repoquery", "--available", "--qf", QUERY, *sorted(wanted))
        available = [package for package in parse(rows) if package.arch not in {"src", "nosrc"}]
        chosen, missing = packages.select(available, wanted, arch=platform.machine())
        if missing:
            advice = "publish it, or correct the version in the tree"
            raise NotAvailableError(
                f"{'; '.join(missing)}; {_installed(self._database.installed(), wanted)}; {advice}"
            )
        return chosen.values()


def is_installed(installed: Packages, name: str, version: str | None) -> bool:
    """Whether a package is installed in exactly one version, and that version is the wanted one."""
    candidates = installed.get(name, ())
    releases = {(package.epoch, package.version, package.release) for package in candidates}
    return len(releases) == 1 and (version is None or packages.has_version(candidates[0], version))


def _spec(name: str, version: str | None) -> str:
    """Return dnf's spec for a package; unlike ``foo-1.1``, this form never matches a package of another name."""
    return f"{name} >= 0" if version is None else f"{name} = {version}"


def _are_complete(files: Collection[RpmFile], wanted: Mapping[str, str | None]) -> bool:
    """Whether the files hold each wanted package once, in the wanted version."""
    downloaded = by_name(file.package for file in files)
    return all(
        len(downloaded.get(name, ())) == 1 and is_installed(downloaded, name, version)
        for name, version in wanted.items()
    )


def _installed(installed: Packages, names: Collection[str]) -> str:
    listed = [package.nevra for name in sorted(names) for package in installed.get(name, ())]
    return f"installed: {', '.join(listed)}" if listed else "installed: none"
