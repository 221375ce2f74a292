"""Getting the files of the packages wanted, and of what they need, into a directory."""

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
    from zkdeployment.adapters.packages.rpmdb import RpmDatabase, RpmFile
    from zkdeployment.model.inventory import Package, Packages


class Downloads:
    """Downloads with dnf, which checks the signatures as the repositories demand; changes no package."""

    def __init__(self, dnf: DnfCommand, database: RpmDatabase) -> None:
        self._dnf = dnf
        self._database = database

    def obtain(
        self,
        wanted: Mapping[str, str | None],
        directory: Path,
        *,
        alone: bool,
        sources: Sequence[str] = (),
    ) -> tuple[RpmFile, ...]:
        """Download what is wanted and what it needs; ``alone``: let rpm test it, as nothing is to be removed.

        ``sources`` are arguments that add repositories.

        Asking by name and version is one call, and right nearly always. What it does not find (an epoch), or
        mistakes for something else (a name that others provide), is looked up and asked for exactly.
        """
        if not wanted:
            return ()
        with contextlib.suppress(NotAvailableError):
            specs = [_spec(*want) for want in wanted.items()]
            files = self._download(specs, directory, alone=alone, sources=sources)
            if _answers(files, wanted):
                return files
        exact = [package.nevra for package in self._resolve(wanted, sources)]
        for path in directory.glob("*.rpm"):
            path.unlink()
        files = self._download(exact, directory, alone=alone, sources=sources)
        if not _answers(files, wanted):
            got = ", ".join(file.package.nevra for file in files) or "nothing"
            raise PackageError(f"asked dnf for {', '.join(exact)}, but it came with {got}")
        return files

    def obtain_again(self, installed: Collection[Package], directory: Path) -> tuple[RpmFile, ...]:
        """Download those of the packages installed that a repository still has.

        Raises ``PackageError`` when none of them is to be had.
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
        words = [
            *sources,
            "--refresh",
            f"--setopt=destdir={directory}",
            "--setopt=tsflags=test" if alone else "--downloadonly",
        ]
        try:
            self._dnf.run(*words, "install", *specs)
        except UnsolvableError:
            if alone:
                raise
            # It may not fit beside what is to be removed with it; the test of the whole transaction will tell.
            self._dnf.run(*words, "--allowerasing", "install", *specs)
        return self.read(directory)

    def _resolve(self, wanted: Mapping[str, str | None], sources: Sequence[str]) -> Collection[Package]:
        rows = self._dnf.run(*sources, "repoquery", "--available", "--qf", QUERY, *sorted(wanted))
        available = [package for package in parse(rows) if package.arch not in {"src", "nosrc"}]
        chosen, missing = packages.select(available, wanted, arch=platform.machine())
        if missing:
            hint = "publish it, or correct the version in the tree"
            raise NotAvailableError(
                f"{'; '.join(missing)}; {_installed(self._database.installed(), wanted)}; {hint}"
            )
        return chosen.values()


def is_there(installed: Packages, name: str, version: str | None) -> bool:
    """Whether a package is installed, once, in the version wanted."""
    have = installed.get(name, ())
    releases = {(package.epoch, package.version, package.release) for package in have}
    return len(releases) == 1 and (version is None or packages.has_version(have[0], version))


def _spec(name: str, version: str | None) -> str:
    """Return what to ask dnf for: unlike ``foo-1.1`` it is never taken for a package of another name."""
    return f"{name} >= 0" if version is None else f"{name} = {version}"


def _answers(files: Collection[RpmFile], wanted: Mapping[str, str | None]) -> bool:
    """Whether each package wanted was downloaded once, in its version."""
    got = by_name(file.package for file in files)
    return all(len(got.get(name, ())) == 1 and is_there(got, name, version) for name, version in wanted.items())


def _installed(installed: Packages, names: Collection[str]) -> str:
    have = [package.nevra for name in sorted(names) for package in installed.get(name, ())]
    return f"installed: {', '.join(have)}" if have else "none is installed"
