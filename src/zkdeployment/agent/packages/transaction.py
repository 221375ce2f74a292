"""Package transactions: ready to be committed, recorded in a journal, and rolled back after a failure.

The module ``dnf`` decides when to roll back; the journal records the packages to restore.
"""

from __future__ import annotations

import contextlib
import json
import platform
import shutil
import tempfile
from dataclasses import astuple, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.agent.packages import installed_packages
from zkdeployment.agent.packages.command import INSTALL_COMMAND, DnfCommand
from zkdeployment.agent.packages.failures import (
    NO_REPOSITORIES,
    HiddenError,
    NotAvailableError,
    UnsolvableError,
    report_disk_errors,
)
from zkdeployment.agent.packages.hidden_packages import hidden_packages
from zkdeployment.agent.packages.installed_packages import (
    QUERY,
    PackageCache,
    RpmDatabase,
    RpmFile,
    by_name,
    parse,
)
from zkdeployment.agent.rules.hidden import filtered, lacks, with_obstacles
from zkdeployment.base import packages
from zkdeployment.base.errors import PackageError
from zkdeployment.base.inventory import Package, Packages
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import files as durable
from zkdeployment.base.machine.program import late_import
from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.base.packages import Action, Item, word_size
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.agent.packages.held_dnf import HeldDnf
    from zkdeployment.agent.packages.replays import Replay, Replays
    from zkdeployment.base.plan import PackageChange


@dataclass(frozen=True)
class Entry:
    """The packages to restore: for all ``names`` that the transaction touches, the packages ``before``.

    ``trusted``: the cached files of those packages are signed with keys that rpm has. Otherwise the files came
    from a repository that requires no signatures, and are restored without a check.
    """

    names: frozenset[str]
    before: Packages
    trusted: bool

    def of(self, installed: Packages) -> Packages:
        """Return those of the installed packages that the transaction touches."""
        return {name: packages for name, packages in installed.items() if name in self.names}


@dataclass(frozen=True)
class Journal:
    """One file that exists from just before a transaction until the transaction is verified or rolled back."""

    file: Path

    def open(self, entry: Entry) -> None:
        """Record a transaction that is about to start; raises ``OSError``."""
        before = [astuple(package) for packages in entry.before.values() for package in packages]
        content = {"names": sorted(entry.names), "before": sorted(before), "trusted": entry.trusted}
        durable.replace(self.file, json.dumps(content).encode(), mode=0o600)

    @property
    def is_open(self) -> bool:
        """Whether there is an entry that was not closed."""
        return self.file.exists()

    def read(self) -> Entry | None:
        """Return the entry that was not closed, or ``None``; raises ``PackageError`` for a damaged file."""
        try:
            content = json.loads(self.file.read_text(encoding="utf-8"))
            before = by_name(Package(*fields) for fields in content["before"])
            return Entry(frozenset(content["names"]), before, content["trusted"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PackageError(
                f"cannot roll back an interrupted package transaction: its journal {self.file} cannot be read:"
                f" {error}; check the packages by hand, then remove the file",
                changed=True,
            ) from error

    @property
    def advice(self) -> str:
        """Advice for an operator after a failed rollback."""
        return (
            f"{self.file} lists the packages to restore, and the next deployment tries again: publish those"
            " packages in a repository and resume, or correct the packages by hand and remove the file"
        )

    def close(self) -> None:
        """Remove the entry of a transaction that is verified or rolled back; raises ``OSError``."""
        durable.remove(self.file)


@dataclass(frozen=True)
class DnfTransaction:
    """A prepared transaction of dnf.

    ``directory`` holds the downloads and dnf's output. ``replay`` is the transaction file, ``None`` until that is
    necessary. ``wanted`` are the names of the requested packages, ``managed`` the names of the packages that
    zkdeployment may change, ``preserve`` the names of the packages whose replaced files are kept. ``release`` is
    that of an update of the operating system, and ``options`` make dnf use it; ``advisories`` is the number of
    security advisories that the host lacks after the update, ``None`` if dnf has not counted them.
    """

    before: Packages
    after: Packages
    reversible: bool = True
    items: tuple[Item, ...] = ()
    directory: Path = Path()
    replay: Replay | None = None
    files: tuple[RpmFile, ...] = ()
    entry: Entry = field(default_factory=lambda: Entry(frozenset(), {}, trusted=True))
    wanted: frozenset[str] = frozenset()
    managed: frozenset[str] = frozenset()
    preserve: frozenset[str] = frozenset()
    release: str | None = None
    options: Sequence[str] = ()
    advisories: int | None = None


def replay_of(transaction: DnfTransaction, replays: Replays) -> Replay:
    """Return the transaction file, written again if the host has another generation of dnf by now.

    Raises ``PackageError`` or ``OSError``.
    """
    if transaction.replay is not None and transaction.replay.generation == replays.generation:
        return transaction.replay
    # The downloads are in the directory itself; the files in directories below it are moved or copied there.
    replay = replays.of_downloads(
        transaction.items, transaction.files, transaction.directory, wanted=transaction.wanted
    )
    return replay if replay.alone else replace(replay, arguments=[*transaction.options, *replay.arguments])


def journal_entry(changes: Collection[Item], before: Packages, *, trusted: bool) -> Entry:
    """Return the journal entry for these changes of the packages ``before``."""
    names = frozenset(item.name for item in changes)
    return Entry(names, {name: before[name] for name in names & before.keys()}, trusted)


def check_names(change: PackageChange) -> None:
    """Raise ``PackageError`` for a name that dnf could read as an option, a pattern, a path or a URL."""
    problems = [
        name_problem(NameKind.PACKAGE, name) for name in sorted({*change.want, *change.remove, *change.reinstall})
    ]
    problems += [
        name_problem(NameKind.VERSION, version) for version in change.want.values() if version is not None
    ]
    if messages := [problem for problem in problems if problem is not None]:
        raise PackageError("; ".join(messages))


_log = get_logger()

#: Seconds between two calls of ``tick`` while a dnf is waited for.
_POLL = 0.2


class Rollback:
    """Restores packages with dnf; the transaction file and dnf's output are in ``state``."""

    def __init__(
        self, state: Path, dnf: DnfCommand, database: RpmDatabase, cache: PackageCache, journal: Journal
    ) -> None:
        self._state = state
        self._dnf = dnf
        self._database = database
        self._cache = cache
        self._journal = journal

    def restore(self, entry: Entry) -> bool:
        """Restore the packages of a journal entry and return whether that changed any package.

        Raises ``PackageError`` with advice for an operator when that fails.
        """
        try:
            with report_disk_errors():
                return self._restore(entry)
        except PackageError as error:
            message = f"the packages could not be rolled back: {error}; {self._journal.advice}"
            raise PackageError(message, changed=True) from error

    def wait_for_orphans(self) -> None:
        """Wait for every dnf that makes a transaction from ``state`` and whose agent is dead.

        A dnf that waited for the order got it only if there is an entry in the journal; otherwise it ends alone.
        Raises what ``tick`` of the ``DnfCommand`` raises.
        """
        with late_import():
            import psutil  # noqa: PLC0415  a megabyte that most agents never need

        commands = {"replay", INSTALL_COMMAND} if self._journal.is_open else {"replay"}
        for process in psutil.process_iter(["cmdline"]):
            arguments = process.info["cmdline"] or []
            if commands.isdisjoint(arguments):
                continue
            if any(f"={self._state}/" in f"={argument}" for argument in arguments):
                _log.warning("packages-dnf-awaited", pid=process.pid)
                while psutil.wait_procs([process], timeout=_POLL)[1]:
                    self._dnf.tick()

    def _restore(self, entry: Entry) -> bool:
        changes = packages.items(entry.of(self._database.installed()), entry.before)
        if not changes:
            return False
        cached = self._cache.find([item.after for item in changes if item.after is not None])
        place = self._state / "back"
        place.mkdir(mode=0o700, exist_ok=True)
        failure: PackageError | None = None
        try:
            replay = self._dnf.replays.of_cache(changes, cached, place, trusted=entry.trusted)
            self._dnf.retry_while_locked(
                self._dnf.run_apart, *replay.arguments, output=place / "output.txt", alone=replay.alone
            )
        except PackageError as error:  # Only the packages that are installed at the end count.
            failure = error
        if differences := packages.deviations(entry.before, entry.of(self._database.installed())):
            reason = f" ({failure})" if failure else ""
            raise PackageError(f"{'; '.join(differences)}{reason}", changed=True) from failure
        if failure is not None:
            _log.warning("packages-rollback-with-failure", reason=str(failure))
        return True


@dataclass(frozen=True)
class Resolved:
    """A resolved change: the ``files`` of all packages to install, and the packages to remove or to replace."""

    files: tuple[RpmFile, ...]
    removed: frozenset[Package]


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
        installed: Packages,
        remove: frozenset[Package],
        sources: Sequence[str] = (),
    ) -> Resolved:
        """Download the wanted packages (versions by name) and their dependencies.

        The ``installed`` packages ``remove`` are to be removed. Without them, rpm tests the installation at
        once, and dnf is held if possible. ``sources`` are arguments that add repositories. Raises
        ``PackageError`` if a package cannot be downloaded.

        A request by name and version takes one call and is nearly always right. If dnf finds nothing (a version
        with an epoch) or another package (one that provides the name), the exact packages are looked up and
        requested in further calls. Packages that are installed for another word size than that of the machine
        are looked up at once, because a name alone requests one architecture.
        """
        if not wanted:
            return Resolved((), remove)
        try:
            return self._obtain(wanted, directory, installed, remove, sources)
        except UnsolvableError as error:
            hidden = hidden_packages(self._dnf, filtered(str(error)), options=sources)
            raise UnsolvableError(with_obstacles(str(error), hidden)) from error

    def _obtain(
        self,
        wanted: Mapping[str, str | None],
        directory: Path,
        installed: Packages,
        remove: frozenset[Package],
        sources: Sequence[str],
    ) -> Resolved:
        refusal: NotAvailableError | None = None
        try:
            resolved = self._obtain_by_name(wanted, directory, installed, remove, sources)
            if resolved is not None and self._are_complete(resolved, wanted, installed):
                return resolved
        except NotAvailableError as error:
            refusal = error
        chosen = self._look_up(wanted, installed, sources, refusal)
        for path in directory.glob("*.rpm"):
            path.unlink()
        exact = [package.nevra for package in chosen if package not in installed.get(package.name, ())]
        displaced = _displaced(chosen, installed, self._database.installonly())
        resolved = self._resolve(exact, directory, installed, remove | displaced, sources)
        if not self._are_complete(resolved, wanted, installed):
            downloaded = ", ".join(file.package.nevra for file in resolved.files) or "nothing"
            raise PackageError(
                f"dnf downloaded other packages than requested: expected {', '.join(exact)}, found {downloaded};"
                " check the repository's metadata"
            )
        return resolved

    def _obtain_by_name(
        self,
        wanted: Mapping[str, str | None],
        directory: Path,
        installed: Packages,
        remove: frozenset[Package],
        sources: Sequence[str],
    ) -> Resolved | None:
        """Download packages by name and version; return ``None`` if the exact packages have to be looked up."""
        sizes = {word_size(package.arch) for name in wanted for package in installed.get(name, ())} - {None}
        if sizes - {word_size(platform.machine())}:
            return None
        try:
            return self._resolve([_spec(*want) for want in wanted.items()], directory, installed, remove, sources)
        except NotAvailableError:
            raise
        except PackageError as error:
            if sizes and not error.retry_helps:
                self._look_up(wanted, installed, sources)  # dnf may have chosen another architecture
            raise

    def _are_complete(self, resolved: Resolved, wanted: Mapping[str, str | None], installed: Packages) -> bool:
        """Whether all wanted packages are installed in the wanted version after a transaction."""
        after = packages.changed(installed, [file.package for file in resolved.files], resolved.removed)
        installonly = self._database.installonly() | self._installonly(resolved.files)
        return all(
            packages.is_installed(after.get(name, ()), version, installonly=name in installonly)
            for name, version in wanted.items()
        )

    def _installonly(self, files: Iterable[RpmFile]) -> frozenset[str]:
        """Return the names of the packages in files that dnf installs beside other versions."""
        beside = self._database.kept_beside()
        return frozenset(file.package.name for file in files if file.provides & beside)

    def obtain_again(self, installed: Collection[Package], directory: Path) -> tuple[RpmFile, ...]:
        """Download those of the installed packages that a repository still has.

        Raises ``PackageError`` if no repository has any of them.
        """
        nevras = sorted(package.nevra for package in installed)
        command = [f"--setopt=destdir={directory}", *self._dnf.reinstall, "--downloadonly", *nevras]
        if not self._held.run(*command):
            self._dnf.run(*command)
        files = self.read(directory)
        if not files:
            raise NotAvailableError(f"no repository has any of {', '.join(nevras)}")
        return files

    def read(self, directory: Path) -> tuple[RpmFile, ...]:
        """Read the packages in a directory, sorted by file name."""
        return self._database.read(sorted(directory.glob("*.rpm")))

    def _resolve(
        self,
        specs: Sequence[str],
        directory: Path,
        installed: Packages,
        remove: frozenset[Package],
        sources: Sequence[str],
    ) -> Resolved:
        options = [*sources, "--refresh", f"--setopt=destdir={directory}"]
        removed = self._held.prepare(directory, options, specs, remove)
        if removed is not None:
            return Resolved(self.read(directory), removed)
        if not remove:
            self._dnf.run(*options, "--setopt=tsflags=test", "install", *specs)
        else:
            self._download_beside(options, specs)
        files = self.read(directory)
        command = [*sources, "install", *(["--allowerasing"] if remove else []), *specs]
        return Resolved(files, remove | self.replaced(files, installed, command))

    def _download_beside(self, options: Sequence[str], specs: Sequence[str]) -> None:
        try:
            self._dnf.run(*options, "install", "--downloadonly", *specs)
        except UnsolvableError:
            # A package may conflict with packages that the same transaction removes. The test of the whole
            # transaction decides.
            self._dnf.run(*options, "install", "--downloadonly", "--allowerasing", *specs)

    def replaced(
        self, files: Collection[RpmFile], installed: Packages, command: Sequence[str]
    ) -> frozenset[Package]:
        """Return the installed packages that these downloads of a ``command`` replace.

        dnf refuses to replay the transaction if it would remove any others.
        """
        installonly = self._installonly(files)
        obsoleted = {name for file in files for name in file.obsoletes} & installed.keys()
        if (installonly or obsoleted) and (removed := self._dnf.removals(command)) is not None:
            return frozenset(
                package for same in installed.values() for package in same if package.nevra in removed
            )
        return packages.replaced(installed, [file.package for file in files], installonly)

    def _look_up(
        self,
        wanted: Mapping[str, str | None],
        installed: Packages,
        sources: Sequence[str],
        refusal: NotAvailableError | None = None,
    ) -> Collection[Package]:
        """Return the exact packages; raise ``PackageError`` if dnf does not find all.

        ``refusal`` is the error if dnf refused the request by name and version.
        """
        rows = self._dnf.run(*sources, "repoquery", "--available", f"--qf={QUERY}", *sorted(wanted))
        available = [package for package in parse(rows) if package.arch not in {"src", "nosrc"}]
        chosen, missing = packages.select(available, wanted, arch=platform.machine(), installed=installed)
        if missing:
            if not available and not self._dnf.run(*sources, "repolist", "--enabled").strip():
                raise PackageError(NO_REPOSITORIES)
            hidden = hidden_packages(self._dnf, wanted.keys() - chosen.keys(), available, sources)
            if not hidden and isinstance(refusal, HiddenError):
                raise refusal
            found = lacks(available, wanted, hidden, arch=platform.machine(), installed=installed)
            sentences = "; ".join(lack.sentence for lack in found)
            advice = "".join(dict.fromkeys(lack.advice for lack in found))
            raise NotAvailableError(f"{sentences}; {_installed(self._database.installed(), wanted)}{advice}")
        return [package for same in chosen.values() for package in same]


def _spec(name: str, version: str | None) -> str:
    """Return dnf's spec for a package; unlike ``foo-1.1``, this form never matches a package of another name."""
    return f"{name} >= 0" if version is None else f"{name} = {version}"


def _displaced(
    chosen: Collection[Package], installed: Packages, installonly: Collection[str]
) -> frozenset[Package]:
    """Return the packages in the place of chosen ones that dnf would keep, because their word size is another."""
    names = {package.name for package in chosen}.difference(installonly)
    return frozenset(
        old
        for name in names
        for old in installed.get(name, ())
        if not packages.replaced({name: (old,)}, chosen) and old not in chosen
    )


def _installed(installed: Packages, names: Collection[str]) -> str:
    listed = [package.nevra for name in sorted(names) for package in installed.get(name, ())]
    return f"installed: {', '.join(listed)}" if listed else "installed: none"


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
        self.downloads = Downloads(dnf, held, database)

    def prepare(self, change: PackageChange) -> DnfTransaction:
        """Return the tested transaction for a change; raises ``PackageError`` for an impossible change."""
        before = self._database.installed()
        needed = _without_done_parts(change, before, self._database.installonly())
        if not needed.want and not needed.remove and not needed.reinstall:
            return DnfTransaction(before, before)
        _log.debug(
            "packages-requested",
            dnf=self._dnf.version,
            want=needed.want,
            remove=sorted(needed.remove),
            reinstall=sorted(needed.reinstall),
        )
        with self.directory() as directory:
            return self._prepare_in(directory, before, needed)

    @contextlib.contextmanager
    def directory(self, name: str = "prepared") -> Iterator[Path]:
        """Return a new directory for a transaction, removed if the block fails; ``name`` is its prefix."""
        self._state.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._state))
        try:
            yield directory
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
        if refused := packages.unmanaged(changes, change.managed):
            raise PackageError(
                f"the package change ({_described(change)}) {'; '.join(refused)}; make that change by other"
                " means first"
            )
        transaction = self.with_files(directory, before, after, changes, files)
        return self.tested(
            replace(
                transaction,
                wanted=frozenset(change.want),
                managed=change.managed,
                preserve=change.preserve,
            )
        )

    def with_files(
        self,
        directory: Path,
        before: Packages,
        after: Packages,
        changes: tuple[Item, ...],
        files: tuple[RpmFile, ...],
    ) -> DnfTransaction:
        """Return the transaction with the files that a rollback needs."""
        replaced = {item.before for item in changes if item.before is not None and item.before != item.after}
        cached = self._cache_replaced(replaced, directory / "replaced")
        return DnfTransaction(
            before=before,
            after=after,
            reversible={file.package for file in cached} == replaced,
            items=changes,
            directory=directory,
            files=files,
            entry=journal_entry(changes, before, trusted=all(file.trusted for file in cached)),
        )

    def tested(self, transaction: DnfTransaction) -> DnfTransaction:
        """Return the transaction with its file, tested by rpm unless that was done for the download."""
        changes = transaction.items
        if self._held.confirm(transaction.directory, changes):
            return transaction
        replay = replay_of(transaction, self._dnf.replays)
        transaction = replace(transaction, replay=replay)
        obsoleted = {name for file in transaction.files for name in file.obsoletes} & transaction.before.keys()
        if obsoleted or any(item.action in {Action.REMOVE, Action.REINSTALL} for item in changes):
            # rpm's test during the download covered other packages than this transaction.
            self._dnf.run("--setopt=tsflags=test", *replay.arguments, alone=replay.alone)
        return transaction

    def _obtain(
        self, directory: Path, before: Packages, change: PackageChange
    ) -> tuple[tuple[RpmFile, ...], Packages, Sequence[Package]]:
        """Download a change; return the files, the packages after the change, and those to install again."""
        leftovers = {
            name: found
            for name, version in change.want.items()
            if (found := _leftovers(before.get(name, ()), version))
        }
        wanted = {name: version for name, version in change.want.items() if name not in leftovers}
        removed = frozenset(package for name in change.remove for package in before[name])
        resolved = self.downloads.obtain(
            wanted, directory, installed=before, remove=removed, sources=self._sources_of_originals()
        )
        gone = resolved.removed.union(*leftovers.values())
        after = packages.changed(before, [file.package for file in resolved.files], gone)
        again = {package for name in change.reinstall for package in before[name]} | _endangered(before, after)
        reinstalled = sorted(package for package in again if package in after.get(package.name, ()))
        return resolved.files + self._obtain_installed(reinstalled, directory), after, reinstalled

    def _sources_of_originals(self) -> Sequence[str]:
        """Return the arguments that make dnf find the system's own packages that were replaced."""
        if not self._originals.files or not installed_packages.can_make_repository():
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
                for file in self.downloads.obtain_again(lacking, downloaded):
                    file.path.rename(directory / file.path.name)
        files = tuple(file for file in self.downloads.read(directory) if file.package in installed)
        if missing := set(installed) - {file.package for file in files}:
            listed = ", ".join(sorted(package.nevra for package in missing))
            raise PackageError(
                f"cannot reinstall {listed} as this change requires: no repository has that version; publish it,"
                " or deploy another version"
            )
        return files

    def _cache_replaced(self, replaced: Collection[Package], directory: Path) -> Sequence[RpmFile]:
        """Return the cached files of packages that will be replaced, downloading those that the cache lacks.

        The result omits packages whose files are not available.
        """
        if replaced and not self._dnf.replays.can_use_files:
            names = sorted(package.nevra for package in replaced)
            _log.warning("packages-not-reversible", packages=names, reason="createrepo_c is not installed")
            return ()
        cached = self._cache.find(replaced)
        if lacking := set(replaced) - {file.package for file in cached}:
            try:
                cached = [*cached, *self._cache.keep(self.downloads.obtain_again(lacking, directory))]
            except PackageError as error:
                names = sorted(package.nevra for package in lacking)
                _log.warning("packages-not-reversible", packages=names, reason=str(error))
        return cached


def _without_done_parts(change: PackageChange, installed: Packages, installonly: Collection[str]) -> PackageChange:
    """Return a change without the packages that are already installed or already removed."""
    want = {
        name: version
        for name, version in change.want.items()
        if not packages.is_installed(installed.get(name, ()), version, installonly=name in installonly)
    }
    remove = (change.remove & installed.keys()) - change.want.keys()
    reinstall = (change.reinstall & installed.keys()) - want.keys() - remove
    return replace(change, want=want, remove=remove, reinstall=reinstall)


def _leftovers(installed: Collection[Package], version: str | None) -> frozenset[Package]:
    """Return the packages of a name that an interrupted transaction left beside their successors.

    The highest packages that satisfy ``version`` stay, one for each word size. If packages of a word size would
    have to be installed first, there are no leftovers.
    """
    matches = [package for package in installed if version is None or packages.has_version(package, version)]
    staying = {word_size(package.arch): package for package in sorted(matches, key=packages.order_key)}
    gone = packages.replaced({package.name: tuple(installed) for package in matches}, staying.values())
    return gone if frozenset(installed) - gone == frozenset(staying.values()) else frozenset()


def _endangered(before: Packages, after: Packages) -> frozenset[Package]:
    """Return the packages that rpm would remove, because packages for another word size are replaced.

    rpm keeps packages for both word sizes only if both are in the transaction, or if nothing is replaced.
    """
    return frozenset(
        package
        for name, present in before.items()
        for package in present
        if package in after.get(name, ())
        and not set(after[name]) <= set(present)
        and any(
            old not in after[name] and word_size(old.arch) not in {word_size(package.arch), None}
            for old in present
        )
    )


def _described(change: PackageChange) -> str:
    wanted = [f"install {name} {version or ''}".strip() for name, version in change.want.items()]
    again = [f"reinstall {name}" for name in sorted(change.reinstall)]
    return ", ".join([*wanted, *again, *(f"remove {name}" for name in sorted(change.remove))])
