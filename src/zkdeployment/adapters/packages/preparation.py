"""Prepares package transactions: resolves, downloads and tests them without changing a package.

The files to roll back to are fetched here, too. Committing a transaction belongs into ``dnf``.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.adapters.packages import local_repository
from zkdeployment.adapters.packages.downloads import Downloads, is_installed
from zkdeployment.adapters.packages.failures import NotAvailableError
from zkdeployment.adapters.packages.transaction import DnfTransaction, journal_entry, make_replayable
from zkdeployment.errors import PackageError
from zkdeployment.log import get_logger
from zkdeployment.planning import packages
from zkdeployment.planning.packages import Action, Item

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from zkdeployment.adapters.packages.command import DnfCommand
    from zkdeployment.adapters.packages.held_dnf import HeldDnf
    from zkdeployment.adapters.packages.package_cache import PackageCache
    from zkdeployment.adapters.packages.rpmdb import RpmDatabase, RpmFile
    from zkdeployment.model.inventory import Package, Packages
    from zkdeployment.model.plan import PackageChange

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
        if not self._originals.files or not local_repository.is_possible():
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
        if replaced and not local_repository.is_possible():
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
