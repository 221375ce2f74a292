"""The packages of an RPM host, changed with dnf 4: exactly, in one transaction, or not at all.

A change goes through these steps; up to the last but one nothing on the host has changed:

1. read the packages there are;
2. resolve, download and check signatures, and let rpm test the transaction;
3. write the whole transaction down as exact packages, and refuse it if it touches what is not ours;
4. have at hand the RPM files of all that will be replaced or removed;
5. note in the journal what to go back to;
6. replay what was written down, and compare *all* packages with what was to be expected.

dnf's exit status alone proves nothing: a failing scriptlet may exit with 0, and a failing transaction may have
changed some packages and not others.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import psutil
import tenacity

from zkdeployment.adapters import durable
from zkdeployment.adapters.packages import failures, local_repository, replay
from zkdeployment.adapters.packages.command import DnfCommand
from zkdeployment.adapters.packages.downloads import Downloads, is_there
from zkdeployment.adapters.packages.failures import LockedError, NotAvailableError, StaleError
from zkdeployment.adapters.packages.journal import Journal
from zkdeployment.adapters.packages.package_cache import KeptFiles
from zkdeployment.adapters.packages.repositories import Repositories
from zkdeployment.adapters.packages.rpmdb import RpmDatabase
from zkdeployment.adapters.packages.transaction import DnfTransaction, check_names, entry, make_sources
from zkdeployment.errors import PackageError
from zkdeployment.log import get_logger
from zkdeployment.planning import packages
from zkdeployment.planning.packages import Action, Item

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from zkdeployment.adapters.packages.journal import Entry
    from zkdeployment.adapters.packages.rpmdb import RpmFile
    from zkdeployment.model.inventory import Package, Packages
    from zkdeployment.model.plan import PackageChange
    from zkdeployment.ports.host import Transaction

P = ParamSpec("P")
T = TypeVar("T")

_log = get_logger()


@contextlib.contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PackageError(f"cannot write {error.filename}: {error.strerror}") from error


class Dnf:
    """Implements ``ports.PackageManager`` with rpm and dnf 4 for the host whose files are under ``root``.

    ``repositories`` are words as in the configuration (see ``Repositories``). ``patience`` is for how many
    seconds to try again while another program holds dnf's lock, ``gap`` in how many seconds when a repository is
    out of reach. ``tick`` is called a few times a second while dnf prepares something, and may end that by raising
    something. Everything kept on disk is under ``ROOT/var/lib/zkdeployment/packages``.
    """

    def __init__(
        self,
        root: Path,
        repositories: tuple[str, ...] = (),
        *,
        patience: float = 300.0,
        gap: float = 2.0,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._root = root.absolute()
        self._state = self._root / "var/lib/zkdeployment/packages"
        self._dnf = DnfCommand(
            self._root,
            Repositories(self._root, repositories),
            home=self._state / "home",
            gap=gap,
            tick=tick,
        )
        self._patience = patience
        self._journal = Journal(self._state / "journal.json")

    @_disk_errors()
    def installed(self) -> Packages:
        """Read the whole database once; raises ``PackageError`` when it cannot be read."""
        return self._database.installed()

    @_disk_errors()
    def lost_scripts(self, packages: Packages) -> frozenset[str]:
        """Return the names of the installed ``packages`` whose scripts are missing or damaged."""
        return self._database.lost_scripts(packages)

    @_disk_errors()
    def prepare(self, change: PackageChange) -> DnfTransaction:
        """Resolve, download, verify and test a change, without changing a package.

        Raises ``PackageError`` for what cannot be had, is not signed, does not fit, or would touch a package that
        ``change`` does not manage.
        """
        check_names(change)
        return self._patiently(self._prepare, change)

    @_disk_errors()
    def commit(self, transaction: Transaction) -> None:
        """Do it in one transaction and verify all packages; on failure go back to ``before``.

        Raises ``PackageError`` with the reason then. Interrupted by a signal that raises, it leaves dnf to finish
        and the journal to ``recover``.
        """
        if not isinstance(transaction, DnfTransaction):
            raise TypeError(f"expected a transaction prepared by dnf, got {transaction!r}")
        if not transaction.items:
            return
        try:
            self._patiently(self._commit, transaction)
        except PackageError:
            self._discard(transaction.directory)
            raise
        self._discard(transaction.directory)

    @_disk_errors()
    def recover(self) -> None:
        """Go back to before a transaction that a crash interrupted, if there is one.

        Waits for a dnf that a dead agent left running. Raises ``PackageError`` if going back fails.
        """
        self._await_orphans()
        if (interrupted := self._journal.read()) is not None:
            _log.warning("packages-recover", names=sorted(interrupted.names))
            self._restore(interrupted)
            self._journal.close()
        for directory in self._state.glob("prepared-*"):
            self._discard(directory)

    @cached_property
    def _database(self) -> RpmDatabase:
        return RpmDatabase(self._root, self._dnf.env)

    @cached_property
    def _downloads(self) -> Downloads:
        return Downloads(self._dnf, self._database)

    @cached_property
    def _kept(self) -> KeptFiles:
        return KeptFiles(self._state / "kept", self._database)

    @cached_property
    def _originals(self) -> KeptFiles:
        """The files of the system's own packages that were replaced."""
        return KeptFiles(self._state / "originals", self._database)

    def _prepare(self, change: PackageChange) -> DnfTransaction:
        before = self.installed()
        wanted = {name: version for name, version in change.want.items() if not is_there(before, name, version)}
        removed = (change.remove & before.keys()) - change.want.keys()
        again = (change.reinstall & before.keys()) - wanted.keys() - removed
        if not wanted and not removed and not again:
            return DnfTransaction(before, before)
        _log.debug(
            "packages-prepare",
            dnf=self._dnf.version,
            want=wanted,
            remove=sorted(removed),
            reinstall=sorted(again),
        )
        self._state.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory = Path(tempfile.mkdtemp(prefix="prepared-", dir=self._state))
        try:
            return self._prepare_in(
                directory, before, replace(change, want=wanted, remove=removed, reinstall=again)
            )
        except BaseException:
            self._discard(directory)
            raise

    def _prepare_in(self, directory: Path, before: Packages, change: PackageChange) -> DnfTransaction:
        chosen = {
            name: package
            for name, version in change.want.items()
            if (package := _duplicate(before, name, version))
        }
        coming = {name: version for name, version in change.want.items() if name not in chosen}
        sources = self._sources_of_originals()
        files = self._downloads.obtain(coming, directory, alone=not change.remove, sources=sources)
        after = packages.after(before, chosen.values(), change.remove, [file.package for file in files])
        lasting = sorted(name for name in change.reinstall if after[name] == before[name])
        again = [package for name in lasting for package in before[name]]
        files += self._obtain_again(again, directory)
        changes = (*packages.items(before, after), *(Item(package.name, package, package) for package in again))
        if refused := packages.unmanaged(changes, change.managed, before):
            raise PackageError(f"{_named(change)}: {'; '.join(refused)}; change that by other means first")
        going = [item.before for item in changes if item.before not in {None, item.after}]
        kept = self._keep(going, directory / "replaced")
        sources, alone = make_sources(directory)
        transaction = DnfTransaction(
            before=before,
            after=after,
            reversible={file.package for file in kept} == set(going),
            items=changes,
            directory=directory,
            sources=sources,
            alone=alone,
            files=files,
            entry=entry(changes, before, trusted=all(file.trusted for file in kept)),
            managed=change.managed,
            preserve=change.preserve,
        )
        durable.replace(transaction.plan, replay.document(changes, wanted=change.want))
        obsoleted = {name for file in files for name in file.obsoletes} & before.keys()
        if obsoleted or any(item.action in {Action.REMOVE, Action.REINSTALL} for item in changes):
            # What rpm tested while downloading was less than, or not just, this.
            self._dnf.run("--setopt=tsflags=test", *transaction.words, alone=transaction.alone)
        return transaction

    def _sources_of_originals(self) -> Sequence[str]:
        """Return the arguments that make dnf find the system's own packages that were replaced."""
        if not self._originals.files or not local_repository.is_possible():
            return ()
        return self._originals.arguments(trusted=False)  # dnf checked the signatures when it fetched them

    def _obtain_again(self, installed: Collection[Package], directory: Path) -> tuple[RpmFile, ...]:
        """Have the files of packages that are installed again in ``directory``, from a repository if need be."""
        kept = self._kept.find(installed)
        for file in kept:
            shutil.copy2(file.path, directory)
        lacking = set(installed) - {file.package for file in kept}
        if lacking:
            again = directory / "again"
            again.mkdir()
            with contextlib.suppress(NotAvailableError):
                for file in self._downloads.obtain_again(lacking, again):
                    file.path.rename(directory / file.path.name)
        names = {package.name for package in installed}
        found = tuple(file for file in self._downloads.read(directory) if file.package.name in names)
        if missing := set(installed) - {file.package for file in found}:
            listed = ", ".join(sorted(package.nevra for package in missing))
            raise PackageError(
                f"cannot install {listed} again, whose files are missing: no repository has it; publish it, or"
                " deploy another version"
            )
        return found

    def _keep(self, going: Collection[Package], directory: Path) -> Sequence[RpmFile]:
        """Have the files of the packages that will go at hand, from a repository if need be."""
        if going and not local_repository.is_possible():
            names = sorted(package.nevra for package in going)
            _log.warning("packages-not-reversible", packages=names, reason="createrepo_c is not installed")
            return ()
        kept = self._kept.find(going)
        if lacking := set(going) - {file.package for file in kept}:
            try:
                self._kept.keep(self._downloads.obtain_again(lacking, directory))
            except PackageError as error:
                names = sorted(package.nevra for package in lacking)
                _log.warning("packages-not-reversible", packages=names, reason=str(error))
            kept = self._kept.find(going)
        return kept

    def _keep_new(self, transaction: DnfTransaction) -> None:
        """Keep the files of the managed packages that came, drop those of what went; it may fail without harm."""
        try:
            theirs = [item for item in transaction.items if item.name in transaction.preserve]
            self._originals.copy(self._kept.find([item.before for item in theirs if item.before is not None]))
            self._originals.drop(file.package for file in transaction.files)
            self._kept.keep(file for file in transaction.files if file.package.name in transaction.managed)
            self._kept.prune(transaction.after)
        except OSError as error:
            _log.warning("packages-not-kept", reason=str(error))

    def _commit(self, transaction: DnfTransaction) -> None:
        if changed := packages.deviations(transaction.before, self.installed()):
            differences = "; ".join(changed)
            raise StaleError(f"another program has changed packages meanwhile: {differences}", retry_helps=True)
        self._journal.open(transaction.entry)
        try:
            self._replay_and_verify(transaction)
        except (LockedError, StaleError):  # It never began; whatever has changed is another program's doing.
            self._journal.close()
            raise
        except PackageError as error:
            self._undo(transaction, error)
            raise
        self._keep_new(transaction)
        self._journal.close()

    def _replay_and_verify(self, transaction: DnfTransaction) -> None:
        # The signatures were checked when the files came, which takes a process for each; dnf still compares the
        # files with the repository's checksums, and rpm with their own.
        words = ["--nogpgcheck", *transaction.words]
        with _disk_errors():
            output = self._dnf.run_apart(
                *words, output=transaction.directory / "output.txt", alone=transaction.alone
            )
        if (failed := failures.scriptlet_failure(output)) is not None:
            raise PackageError(failed)
        if wrong := packages.deviations(transaction.after, self.installed()):
            raise PackageError(f"dnf did not do what was asked: {'; '.join(wrong)}")

    def _undo(self, transaction: DnfTransaction, error: PackageError) -> None:
        """Go back after ``error`` and raise ``PackageError`` saying so; if that fails, the journal stays open."""
        _log.warning("packages-roll-back", reason=str(error))
        try:
            had_changed = self._restore(transaction.entry)
        except PackageError as second:
            raise PackageError(f"{error}; and {second}", changed=True) from error
        self._journal.close()
        if had_changed:
            message = f"{error}; the packages are what they were before"
            raise PackageError(message, retry_helps=error.retry_helps) from error

    def _restore(self, to: Entry) -> bool:
        """Go back, and on failure raise ``PackageError`` with what an operator can do."""
        try:
            with _disk_errors():
                return self._go_back(to)
        except PackageError as error:
            message = f"the packages could not be put back: {error}; {self._journal.advice}"
            raise PackageError(message, changed=True) from error

    def _go_back(self, to: Entry) -> bool:
        """Bring the packages of ``to`` back to what they were, from the kept files; say if there was a need."""
        way = packages.items(to.of(self.installed()), to.before)
        if not way:
            return False
        coming = [item.after for item in way if item.after is not None]
        plan = self._state / "back.json"
        durable.replace(plan, replay.document(way, wanted=to.names))
        failure: PackageError | None = None
        try:
            sources, alone = self._sources(coming, trusted=to.trusted)
            words = [*sources, "history", "replay", str(plan)]
            self._patiently(self._dnf.run_apart, *words, output=self._state / "back.txt", alone=alone)
        except PackageError as error:  # What counts is what is installed in the end.
            failure = error
        if wrong := packages.deviations(to.before, to.of(self.installed())):
            raise PackageError(
                f"{'; '.join(wrong)}{f' ({failure})' if failure else ''}", changed=True
            ) from failure
        return True

    def _sources(self, coming: Collection[Package], *, trusted: bool) -> tuple[Sequence[str], bool]:
        """Return the arguments that make dnf find the packages, and whether it needs no configured repository."""
        have = self._kept.find(coming) if local_repository.is_possible() else ()
        arguments = self._kept.arguments(trusted=trusted) if have else ()
        return arguments, len(have) == len(coming)

    def _await_orphans(self) -> None:
        """Wait for every dnf that replays one of our transactions: its agent is dead, its work is not done."""
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if "replay" in words and any(word.startswith(f"{self._state}/") for word in words):
                _log.warning("packages-wait-for-dnf", pid=process.pid)
                process.wait()

    def _patiently(self, attempt: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T:
        """Try again, from fresh data, while another program holds dnf's or rpm's lock."""
        again = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(LockedError),
            wait=tenacity.wait_random_exponential(multiplier=0.2, max=10),
            stop=tenacity.stop_after_delay(self._patience),
            reraise=True,
        )
        return again(attempt, *args, **keywords)

    @staticmethod
    def _discard(directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)


def _duplicate(installed: Packages, name: str, version: str | None) -> Package | None:
    """Return the one to stay of several packages of a name that an interrupted transaction left, if one fits."""
    fitting = [one for one in installed.get(name, ()) if version is None or packages.has_version(one, version)]
    return max(fitting, key=packages.order_key, default=None)


def _named(change: PackageChange) -> str:
    wanted = [f"installing {name} {version or ''}".strip() for name, version in change.want.items()]
    again = [f"installing {name} again" for name in sorted(change.reinstall)]
    return ", ".join([*wanted, *again, *(f"removing {name}" for name in sorted(change.remove))])
