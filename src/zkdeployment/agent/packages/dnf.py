"""Changes the packages of an RPM host with dnf 4 or dnf 5: exactly as planned, in one transaction, or not at all.

A change goes through these steps. Until the last step nothing on the host has changed:

1. read all installed packages (``installed_packages``);
2. resolve, download and check signatures, and let rpm test the transaction (``transaction``);
3. write a transaction file with the exact packages, and refuse the change if it touches an unmanaged package;
4. fetch the RPM files of all packages that will be replaced or removed (``installed_packages``);
5. record in the journal which packages to restore (``transaction``);
6. make the transaction, and compare the packages that it touches with the expected ones. If they differ, restore
   them (``transaction``). Other packages that differ were changed by another program meanwhile.

Which packages a change removes or replaces is what dnf reports in step 2: dnf replaces no package for another
word size, and keeps several versions of kernels and their modules.

Starting dnf 4 and loading the metadata takes most of the time of a change. If no package is to be removed,
installed again or repaired, the dnf 4 of step 2 does step 4, too, and waits for step 6, for a limited time
(``held_dnf``). Otherwise, and with dnf 5, other processes fetch the files and replay the transaction file
(``replays``).

dnf's exit status alone proves nothing: dnf may exit with 0 after a scriptlet failed, and a failed transaction may
have changed only some packages. The package manager and its commit are in this module. The calls of dnf belong in
``command``, the explanations of its messages in ``failures``.
"""

from __future__ import annotations

import functools
import shutil
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.agent.packages.command import DnfCommand, Repositories
from zkdeployment.agent.packages.failures import LockedError, StaleError, report_disk_errors
from zkdeployment.agent.packages.held_dnf import HeldDnf
from zkdeployment.agent.packages.installed_packages import PackageCache, RpmDatabase
from zkdeployment.agent.packages.system_update import SystemUpdates
from zkdeployment.agent.packages.transaction import (
    DnfTransaction,
    Entry,
    Journal,
    Preparation,
    Rollback,
    check_names,
    replay_of,
)
from zkdeployment.base import packages
from zkdeployment.base.errors import PackageError
from zkdeployment.base.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zkdeployment.agent.adapters import Transaction
    from zkdeployment.base.inventory import Packages
    from zkdeployment.base.plan import PackageChange
    from zkdeployment.base.system import SystemChange

_log = get_logger()

#: The seconds that a report about the host may take: the agent does nothing else meanwhile.
_REPORT_LIMIT = 60.0


class Dnf:
    """Implements ``PackageManager`` with rpm and dnf for the host whose files are under ``root``.

    ``repositories`` are the values of the configuration key (see ``Repositories``). While another program holds
    dnf's lock, a call is retried for ``patience`` seconds; ``gap`` is the number of seconds between two attempts
    to reach a repository. ``tick`` is called a few times a second while dnf prepares a transaction; an exception
    of ``tick`` ends the preparation. All files are in ``ROOT/var/lib/zkdeployment/packages``.
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
        command = functools.partial(
            DnfCommand,
            self._root,
            Repositories(self._root, repositories),
            home=self._state / "home",
            gap=gap,
            tick=tick,
        )
        self._dnf = command(patience=patience)
        self._report = command(patience=0, limit=_REPORT_LIMIT)
        self._held = HeldDnf(self._dnf)
        self._counted: tuple[str, int | None] = "", None  # the release of the last update, and its advisories
        self._journal = Journal(self._state / "journal.json")

    @report_disk_errors()
    def installed(self) -> Packages:
        return self._database.installed()

    @report_disk_errors()
    def installonly(self) -> frozenset[str]:
        return self._database.installonly()

    @report_disk_errors()
    def lost_scripts(self, packages: Packages) -> frozenset[str]:
        return self._database.lost_scripts(packages)

    @report_disk_errors()
    def prepare(self, change: PackageChange) -> DnfTransaction:
        """Prepare a change; raise ``PackageError`` for packages that are unavailable, unsigned or in conflict."""
        check_names(change)
        return self._dnf.retry_while_locked(self._preparation.prepare, change)

    @report_disk_errors()
    def prepare_system(self, change: SystemChange) -> DnfTransaction:
        """Prepare an update of the operating system; raise ``PackageError`` if it is impossible."""
        return self._dnf.retry_while_locked(self._updates.prepare, change)

    @report_disk_errors()
    def preview_system(self, change: SystemChange) -> Packages:
        return self._dnf.retry_while_locked(self._updates.preview, change)

    @report_disk_errors()
    def installed_since(self, time: float) -> frozenset[str]:
        return self._database.installed_since(time)

    def missing_advisories(self, release: str) -> int | None:
        counted_for, number = self._counted
        if counted_for == release and number is not None:
            return number  # dnf counted them when it resolved the update, from the metadata that it had loaded
        return self._updates.missing_advisories(self._report, release)

    def update_exceptions(self, change: SystemChange) -> Mapping[str, str]:
        return self._updates.exceptions(change)

    @report_disk_errors()
    def commit(self, transaction: Transaction) -> None:
        """Make the transaction; if a signal handler raises meanwhile, dnf finishes alone and the journal stays."""
        if not isinstance(transaction, DnfTransaction):
            raise TypeError(f"expected a transaction prepared by dnf, got {transaction!r}")
        if not transaction.items:
            self._keep_release(transaction)
            return
        try:
            self._dnf.retry_while_locked(self._commit, transaction)
        except PackageError:
            self._held.release(transaction.directory)
            _discard(transaction.directory)
            raise
        _discard(transaction.directory)
        with report_disk_errors(changed=True):
            self._keep_release(transaction)

    def _keep_release(self, transaction: DnfTransaction) -> None:
        if transaction.release is not None:
            self._counted = transaction.release, transaction.advisories
            self._updates.keep_release(transaction.release)

    @report_disk_errors()
    def recover(self) -> None:
        """Wait for a dnf of a dead agent, then roll back; raise ``PackageError`` if that fails.

        The transaction file of such a dnf still exists, in a directory that was prepared or beside the journal.
        """
        self._held.release()
        prepared = [*self._state.glob("prepared-*")]
        if prepared or self._journal.is_open:
            self._rollback.wait_for_orphans()
        if (interrupted := self._journal.read()) is not None:
            _log.warning("packages-interrupted", names=sorted(interrupted.names))
            self._rollback.restore(interrupted)
            self._journal.close()
        for directory in (*prepared, *filter(_is_abandoned, self._state.glob("preview-*"))):
            _discard(directory)

    @cached_property
    def _database(self) -> RpmDatabase:
        return RpmDatabase(self._root, self._dnf.env)

    @cached_property
    def _cache(self) -> PackageCache:
        return PackageCache(self._state / "kept", self._database)

    @cached_property
    def _originals(self) -> PackageCache:
        """The files of the system's own packages that were replaced."""
        return PackageCache(self._state / "originals", self._database)

    @cached_property
    def _preparation(self) -> Preparation:
        return Preparation(
            self._state, self._dnf, self._held, self._database, cache=self._cache, originals=self._originals
        )

    @cached_property
    def _updates(self) -> SystemUpdates:
        return SystemUpdates(self._root, self._dnf, self._held, self._database, self._preparation)

    @cached_property
    def _rollback(self) -> Rollback:
        return Rollback(self._state, self._dnf, self._database, self._cache, self._journal)

    def _commit(self, transaction: DnfTransaction) -> None:
        self._dnf.check_lock()
        if differences := packages.deviations(transaction.before, self.installed()):
            raise StaleError(
                "another program changed packages after this transaction was prepared:"
                f" {'; '.join(differences)}; try again",
                retry_helps=True,
            )
        self._journal.open(transaction.entry)
        try:
            self._change_and_verify(transaction)
        except (LockedError, StaleError):  # dnf never began: changes are another program's.
            self._journal.close()
            raise
        except PackageError as error:
            self._roll_back(transaction, error)
            raise
        self._update_caches(transaction)
        self._journal.close()

    def _change_and_verify(self, transaction: DnfTransaction) -> None:
        is_held = self._held.confirm(transaction.directory, transaction.items)
        with report_disk_errors():
            if not self._held.commit(transaction.directory):
                if is_held:
                    self._check_not_begun(transaction.entry)
                self._replay(transaction)
        entry, present = transaction.entry, self.installed()
        if differences := packages.deviations(entry.of(transaction.after), entry.of(present)):
            raise PackageError(f"dnf reported success, but the packages are wrong: {'; '.join(differences)}")
        if others := packages.deviations(transaction.after, present):
            _log.warning("packages-changed-by-others", differences=others)

    def _check_not_begun(self, entry: Entry) -> None:
        """Raise ``PackageError`` if a dnf that seemed to change nothing changed packages after all."""
        if differences := packages.deviations(entry.before, entry.of(self.installed())):
            raise PackageError(f"packages changed, but dnf did not report it: {'; '.join(differences)}")

    def _replay(self, transaction: DnfTransaction) -> None:
        """Make the transaction with another dnf process than the one that tested it."""
        replay = replay_of(transaction, self._dnf.replays)
        output = transaction.directory / "output.txt"
        self._dnf.run_apart(*replay.arguments, output=output, alone=replay.alone)

    def _roll_back(self, transaction: DnfTransaction, error: PackageError) -> None:
        """Restore the packages after ``error``; raise ``PackageError`` unless no package had changed.

        The journal stays open if the packages cannot be restored.
        """
        _log.warning("packages-rollback-started", reason=str(error))
        try:
            had_changed = self._rollback.restore(transaction.entry)
        except PackageError as second:
            raise PackageError(f"{error}; and {second}", changed=True) from error
        self._journal.close()
        if had_changed:
            message = f"{error}; all packages were rolled back"
            raise PackageError(message, retry_helps=error.retry_helps) from error

    def _update_caches(self, transaction: DnfTransaction) -> None:
        """Cache the files of the new managed packages and drop those of removed ones; only log a failure."""
        try:
            preserved = [item for item in transaction.items if item.name in transaction.preserve]
            self._originals.copy(self._cache.find([item.before for item in preserved if item.before is not None]))
            self._originals.drop(file.package for file in transaction.files)
            self._cache.keep(file for file in transaction.files if file.package.name in transaction.managed)
            self._cache.prune(transaction.after)
        except OSError as error:
            _log.warning("packages-not-cached", reason=str(error))


def _is_abandoned(preview: Path) -> bool:
    """Whether the process that made the directory of a preview no longer exists."""
    return not Path("/proc", preview.name.split("-")[1]).exists()


def _discard(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
