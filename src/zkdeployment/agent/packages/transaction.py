"""Package transactions: ready to be committed, recorded in a journal, and rolled back after a failure.

dnf refuses to replay a file if the transaction would do anything else. The format is dnf-transaction-json(5),
version 0; dnf refuses other versions.

When a rollback is needed is decided in ``dnf``; the journal records what to restore.
"""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.agent.packages import held_dnf, package_cache, rpmdb
from zkdeployment.agent.packages.failures import report_disk_errors
from zkdeployment.base import packages
from zkdeployment.base.errors import PackageError
from zkdeployment.base.inventory import Package
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import files as durable
from zkdeployment.base.machine.program import late_import
from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.base.packages import Action

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from zkdeployment.agent.packages.command import DnfCommand
    from zkdeployment.agent.packages.package_cache import PackageCache
    from zkdeployment.agent.packages.rpmdb import RpmDatabase, RpmFile
    from zkdeployment.base.inventory import Packages
    from zkdeployment.base.packages import Item
    from zkdeployment.base.plan import PackageChange


#: dnf's names for the two rows of a replaced package: the new package, the old package.
_ACTIONS = {Action.CHANGE: ("Upgrade", "Upgraded"), Action.REINSTALL: ("Reinstall", "Reinstalled")}


def document(changes: Iterable[Item], *, wanted: Collection[str]) -> bytes:
    """Return the content of the transaction file for these changes.

    The names ``wanted`` are marked as installed by the user, other new packages as dependencies.
    """
    rpms = []
    for item in changes:
        reason = "user" if item.name in wanted else "dependency"
        # dnf compares no versions here: the action "Upgrade" may also be a downgrade.
        new_action, old_action = _ACTIONS.get(item.action, ("Install", "Removed"))
        if item.after is not None:
            rpms.append(_row(new_action, item.after, reason=reason, repository=""))
        if item.before is not None:
            rpms.append(_row(old_action, item.before, reason="user", repository="@System"))
    return json.dumps({"version": "0.0", "rpms": rpms}, indent=1).encode()


def _row(action: str, package: Package, *, reason: str, repository: str) -> dict[str, str]:
    return {"action": action, "nevra": package.nevra, "reason": reason, "repo_id": repository}


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


class Journal:
    """One file that exists from just before a transaction until the transaction is verified or rolled back."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def open(self, entry: Entry) -> None:
        """Record a transaction that is about to start; raises ``OSError``."""
        before = [astuple(package) for packages in entry.before.values() for package in packages]
        content = {"names": sorted(entry.names), "before": sorted(before), "trusted": entry.trusted}
        durable.replace(self._file, json.dumps(content).encode(), mode=0o600)

    @property
    def is_open(self) -> bool:
        """Whether there is an entry that was not closed."""
        return self._file.exists()

    def read(self) -> Entry | None:
        """Return the entry that was not closed, or ``None``; raises ``PackageError`` for a damaged file."""
        try:
            content = json.loads(self._file.read_text(encoding="utf-8"))
            before = rpmdb.by_name(Package(*fields) for fields in content["before"])
            return Entry(frozenset(content["names"]), before, content["trusted"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PackageError(
                f"cannot roll back an interrupted package transaction: its journal {self._file} cannot be read:"
                f" {error}; check the packages by hand, then remove the file",
                changed=True,
            ) from error

    @property
    def advice(self) -> str:
        """Advice for an operator after a failed rollback."""
        return (
            f"{self._file} lists the packages to restore, and the next deployment tries again: publish those"
            " packages in a repository and resume, or correct the packages by hand and remove the file"
        )

    def close(self) -> None:
        """Remove the entry of a transaction that is verified or rolled back; raises ``OSError``."""
        durable.remove(self._file)


#: The name of the repository that is made of the downloaded files.
_REPOSITORY = "zkdeployment-prepared"


@dataclass(frozen=True)
class DnfTransaction:
    """A prepared transaction of dnf.

    ``directory`` holds the downloads and dnf's output. ``sources`` are the arguments that make dnf use the
    downloads in a replay, ``None`` until that is necessary; ``alone`` is false if dnf needs the configured
    repositories as well. ``wanted`` are the names of the requested packages, ``managed`` the names of the packages
    that zkdeployment may change, ``preserve`` the names of the packages whose replaced files are kept.
    """

    before: Packages
    after: Packages
    reversible: bool = True
    items: tuple[Item, ...] = ()
    directory: Path = Path()
    sources: Sequence[str] | None = None
    alone: bool = True
    files: tuple[RpmFile, ...] = ()
    entry: Entry = field(default_factory=lambda: Entry(frozenset(), {}, trusted=True))
    wanted: frozenset[str] = frozenset()
    managed: frozenset[str] = frozenset()
    preserve: frozenset[str] = frozenset()

    @property
    def plan(self) -> Path:
        """The transaction file that dnf replays."""
        return self.directory / "plan.json"

    @property
    def replay_arguments(self) -> Sequence[str]:
        """The arguments that make dnf replay the transaction from the downloaded files."""
        return [*(self.sources or ()), "history", "replay", str(self.plan)]


def make_replayable(transaction: DnfTransaction) -> DnfTransaction:
    """Write what a replay needs: the transaction file, and a repository of the downloads.

    Raises ``PackageError`` or ``OSError``.
    """
    if transaction.sources is not None:
        return transaction
    durable.replace(transaction.plan, document(transaction.items, wanted=transaction.wanted))
    sources, alone = _make_sources(transaction.directory)
    return replace(transaction, sources=sources, alone=alone)


def _make_sources(directory: Path) -> tuple[Sequence[str], bool]:
    """Return the arguments that make dnf use the RPM files in ``directory``, and whether those files suffice.

    dnf reads a repository made of the files, with its own cache in the directory, so that neither an emptied cache
    nor a changed repository matters. dnf checked the signatures after the download. Without createrepo_c, dnf has
    to find the packages in its cache of the configured repositories.
    """
    if not any(directory.glob("*.rpm")):
        return [], True
    if not package_cache.is_possible():
        return ["--cacheonly", f"--setopt=destdir={directory}"], False
    cache = f"--setopt=cachedir={directory / 'cache'}"
    return [*package_cache.make(directory, _REPOSITORY, signed=False), cache], True


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
        durable.replace(plan, document(changes, wanted=entry.names))
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
        cached = self._cache.find(restored) if package_cache.is_possible() else ()
        arguments = self._cache.arguments(trusted=trusted) if cached else ()
        return arguments, len(cached) == len(restored)
