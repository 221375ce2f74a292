"""Restores the packages that a failed or interrupted transaction touched, from the cached RPM files.

When a rollback is needed is decided in ``dnf``; what to restore is recorded in ``journal``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.adapters.late_imports import late_import
from zkdeployment.adapters.packages import held_dnf, local_repository, replay
from zkdeployment.adapters.packages.failures import report_disk_errors
from zkdeployment.errors import PackageError
from zkdeployment.log import get_logger
from zkdeployment.planning import packages

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from zkdeployment.adapters.packages.command import DnfCommand
    from zkdeployment.adapters.packages.journal import Entry, Journal
    from zkdeployment.adapters.packages.package_cache import PackageCache
    from zkdeployment.adapters.packages.rpmdb import RpmDatabase
    from zkdeployment.model.inventory import Package

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
        """Restore the packages of a journal entry and return whether any package had to change.

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

        commands = {"replay", held_dnf.COMMAND} if self._journal.is_open else {"replay"}
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
        restored = [item.after for item in changes if item.after is not None]
        plan = self._state / "back.json"
        durable.replace(plan, replay.document(changes, wanted=entry.names))
        failure: PackageError | None = None
        try:
            sources, alone = self._sources(restored, trusted=entry.trusted)
            arguments = [*sources, "history", "replay", str(plan)]
            self._dnf.retry_while_locked(
                self._dnf.run_apart, *arguments, output=self._state / "back.txt", alone=alone
            )
        except PackageError as error:  # Only the packages installed in the end count.
            failure = error
        if differences := packages.deviations(entry.before, entry.of(self._database.installed())):
            reason = f" ({failure})" if failure else ""
            raise PackageError(f"{'; '.join(differences)}{reason}", changed=True) from failure
        return True

    def _sources(self, restored: Collection[Package], *, trusted: bool) -> tuple[Sequence[str], bool]:
        """Return the arguments that make dnf find the packages, and whether the cache alone has all of them."""
        cached = self._cache.find(restored) if local_repository.is_possible() else ()
        arguments = self._cache.arguments(trusted=trusted) if cached else ()
        return arguments, len(cached) == len(restored)
