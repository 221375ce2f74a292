"""Prepares package transactions: resolves, downloads and tests them without changing a package.

The files to roll back to are fetched here, too. Committing a transaction belongs into ``dnf``.
"""

from __future__ import annotations

import contextlib
import platform
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.agent.packages import package_cache
from zkdeployment.agent.packages.failures import NotAvailableError, UnsolvableError
from zkdeployment.agent.packages.rpmdb import QUERY, by_name, parse
from zkdeployment.agent.packages.transaction import DnfTransaction, journal_entry, make_replayable
from zkdeployment.base import packages
from zkdeployment.base.errors import PackageError
from zkdeployment.base.log import get_logger
from zkdeployment.base.packages import Action, Item

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from zkdeployment.agent.packages.command import DnfCommand
    from zkdeployment.agent.packages.held_dnf import HeldDnf
    from zkdeployment.agent.packages.package_cache import PackageCache
    from zkdeployment.agent.packages.rpmdb import RpmDatabase, RpmFile
    from zkdeployment.base.inventory import Package, Packages
    from zkdeployment.base.plan import PackageChange


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


_log = get_logger()


class Preparation:
    """Prepares transactions in directories below ``state``.

    ``held`` holds the dnf that may make the transaction. ``cache`` holds the files of installed packages,
    ``originals`` the files of the system's own packages that were replaced.
    """

    def __init__(
        self,
        state: Path,
        dnf: DnfCommand,
        held: HeldDnf,
        database: RpmDatabase,
        *,
        cache: PackageCache,
        originals: PackageCache,
    ) -> None:
        self._state = state
        self._dnf = dnf
        self._held = held
        self._database = database
        self._cache = cache
        self._originals = originals
        self._downloads = Downloads(dnf, held, database)

    def prepare(self, change: PackageChange) -> DnfTransaction:
        """Return the tested transaction for a change; raises ``PackageError`` if there can be none."""
        before = self._database.installed()
        needed = _without_done_parts(change, before)
        if not needed.want and not needed.remove and not needed.reinstall:
            return DnfTransaction(before, before)
        _log.debug(
            "packages-requested",
            dnf=self._dnf.version,
            want=needed.want,
            remove=sorted(needed.remove),
            reinstall=sorted(needed.reinstall),
        )
        self._state.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory = Path(tempfile.mkdtemp(prefix="prepared-", dir=self._state))
        try:
            return self._prepare_in(directory, before, needed)
        except BaseException:
            self._held.release(directory)
            shutil.rmtree(directory, ignore_errors=True)
            raise

    def _prepare_in(self, directory: Path, before: Packages, change: PackageChange) -> DnfTransaction:
        files, after, reinstalled = self._obtain(directory, before, change)
        changes = (
            *packages.items(before, after),
            *(Item(package.name, package, package) for package in reinstalled),
        )
        if refused := packages.unmanaged(changes, change.managed, before):
            raise PackageError(
                f"the package change ({_described(change)}) {'; '.join(refused)}; make that change by other"
                " means first"
            )
        replaced = {item.before for item in changes if item.before is not None and item.before != item.after}
        cached = self._cache_replaced(replaced, directory / "replaced")
        transaction = DnfTransaction(
            before=before,
            after=after,
            reversible={file.package for file in cached} == replaced,
            items=changes,
            directory=directory,
            files=files,
            entry=journal_entry(changes, before, trusted=all(file.trusted for file in cached)),
            wanted=frozenset(change.want),
            managed=change.managed,
            preserve=change.preserve,
        )
        if self._held.confirm(directory, changes):
            return transaction
        transaction = make_replayable(transaction)
        obsoleted = {name for file in files for name in file.obsoletes} & before.keys()
        if obsoleted or any(item.action in {Action.REMOVE, Action.REINSTALL} for item in changes):
            # rpm's test during the download covered other packages than this transaction.
            self._dnf.run("--setopt=tsflags=test", *transaction.replay_arguments, alone=transaction.alone)
        return transaction

    def _obtain(
        self, directory: Path, before: Packages, change: PackageChange
    ) -> tuple[tuple[RpmFile, ...], Packages, Sequence[Package]]:
        """Download a change; return the files, the packages after the change, and those to install again."""
        chosen = {
            name: package
            for name, version in change.want.items()
            if (package := _surviving_duplicate(before, name, version))
        }
        wanted = {name: version for name, version in change.want.items() if name not in chosen}
        sources = self._sources_of_originals()
        files = self._downloads.obtain(wanted, directory, alone=not change.remove, sources=sources)
        after = packages.after(before, chosen.values(), change.remove, [file.package for file in files])
        unchanged = sorted(name for name in change.reinstall if after[name] == before[name])
        reinstalled = [package for name in unchanged for package in before[name]]
        return files + self._obtain_installed(reinstalled, directory), after, reinstalled

    def _sources_of_originals(self) -> Sequence[str]:
        """Return the arguments that make dnf find the system's own packages that were replaced."""
        if not self._originals.files or not package_cache.is_possible():
            return ()
        return self._originals.arguments(trusted=False)  # dnf checked the signatures after the download

    def _obtain_installed(self, installed: Collection[Package], directory: Path) -> tuple[RpmFile, ...]:
        """Copy the files of installed packages to ``directory``, from the cache or from a repository.

        Raises ``PackageError`` if neither has a package.
        """
        if not installed:
            return ()
        cached = self._cache.find(installed)
        for file in cached:
            shutil.copy2(file.path, directory)
        lacking = set(installed) - {file.package for file in cached}
        if lacking:
            downloaded = directory / "again"
            downloaded.mkdir()
            with contextlib.suppress(NotAvailableError):
                for file in self._downloads.obtain_again(lacking, downloaded):
                    file.path.rename(directory / file.path.name)
        names = {package.name for package in installed}
        files = tuple(file for file in self._downloads.read(directory) if file.package.name in names)
        if missing := set(installed) - {file.package for file in files}:
            listed = ", ".join(sorted(package.nevra for package in missing))
            raise PackageError(
                f"cannot reinstall {listed} to replace missing files: no repository has that version; publish it,"
                " or deploy another version"
            )
        return files

    def _cache_replaced(self, replaced: Collection[Package], directory: Path) -> Sequence[RpmFile]:
        """Return the cached files of packages that will be replaced, downloading those that the cache lacks.

        Packages whose files cannot be had are missing in the result.
        """
        if replaced and not package_cache.is_possible():
            names = sorted(package.nevra for package in replaced)
            _log.warning("packages-not-reversible", packages=names, reason="createrepo_c is not installed")
            return ()
        cached = self._cache.find(replaced)
        if lacking := set(replaced) - {file.package for file in cached}:
            try:
                self._cache.keep(self._downloads.obtain_again(lacking, directory))
            except PackageError as error:
                names = sorted(package.nevra for package in lacking)
                _log.warning("packages-not-reversible", packages=names, reason=str(error))
            cached = self._cache.find(replaced)
        return cached


def _without_done_parts(change: PackageChange, installed: Packages) -> PackageChange:
    """Return a change without the packages that are already installed or already removed."""
    want = {name: version for name, version in change.want.items() if not is_installed(installed, name, version)}
    remove = (change.remove & installed.keys()) - change.want.keys()
    reinstall = (change.reinstall & installed.keys()) - want.keys() - remove
    return replace(change, want=want, remove=remove, reinstall=reinstall)


def _surviving_duplicate(installed: Packages, name: str, version: str | None) -> Package | None:
    """Return the installed package that satisfies ``version``; ``None`` if none does.

    An interrupted transaction may leave several packages of a name; the highest matching one stays.
    """
    matches = [
        package for package in installed.get(name, ()) if version is None or packages.has_version(package, version)
    ]
    return max(matches, key=packages.order_key, default=None)


def _described(change: PackageChange) -> str:
    wanted = [f"install {name} {version or ''}".strip() for name, version in change.want.items()]
    again = [f"reinstall {name}" for name in sorted(change.reinstall)]
    return ", ".join([*wanted, *again, *(f"remove {name}" for name in sorted(change.remove))])
