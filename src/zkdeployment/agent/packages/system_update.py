"""Updates of the operating system with dnf: all packages, security updates or named packages of one release.

The packages of a release come from repositories whose URLs contain dnf's variable ``release``. A release may be
earlier than the present one: its packages then replace later ones. The transaction is made, verified and rolled
back like every other (``dnf``, ``transaction``).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.agent.packages.command import VARIABLES, DnfCommand
from zkdeployment.agent.packages.failures import UnsolvableError, report_disk_errors
from zkdeployment.agent.packages.held_packages import excluded_builds, held_packages
from zkdeployment.agent.packages.hidden_packages import hidden_packages
from zkdeployment.agent.packages.releases import release_options
from zkdeployment.agent.packages.transaction import DnfTransaction, Preparation, Resolved
from zkdeployment.agent.rules.hidden import filtered, kept_by_update, with_obstacles
from zkdeployment.agent.rules.system import names_in_scope
from zkdeployment.base import packages
from zkdeployment.base.errors import PackageError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import files as durable
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zkdeployment.agent.packages.held_dnf import HeldDnf
    from zkdeployment.agent.packages.installed_packages import RpmDatabase
    from zkdeployment.base.inventory import Packages
    from zkdeployment.base.packages import Item
    from zkdeployment.base.system import SystemChange


_log = get_logger()

#: The time limits for dnf when it only reports; it abandons a silent server after some seconds.
_IMPATIENT = ("--setopt=timeout=5", "--setopt=retries=1")

#: The most exceptions of a kind that a host reports by name.
_NAMED = 20

#: The heading of the column of names in a list of dnf 5.
_HEADING = "Name"


@dataclass(frozen=True)
class SystemUpdates:
    """Prepares updates of the operating system below ``root``."""

    root: Path
    dnf: DnfCommand
    held: HeldDnf
    database: RpmDatabase
    preparation: Preparation

    def prepare(self, change: SystemChange) -> DnfTransaction:
        """Return the tested transaction of an update; raises ``PackageError`` if the update is impossible."""
        return self._prepared(change, self._prepare_in)

    def preview(self, change: SystemChange) -> Packages:
        """Return the packages after an update, which is tested as in ``prepare``; keep no downloads.

        The agent of the host may run or start meanwhile: it leaves the directory alone while this process exists.
        """
        return self._prepared(change, self._preview_in, f"preview-{os.getpid()}").after

    def _prepared(
        self, change: SystemChange, prepare_in: Callable[..., DnfTransaction], name: str = "prepared"
    ) -> DnfTransaction:
        """Return the transaction that ``prepare_in`` makes in a new directory, or one that changes nothing."""
        before = self.database.installed()
        try:
            unheld = self._without_held(change, before)
            names = names_in_scope(unheld, before.keys() - change.kept)
            if not names:
                return DnfTransaction(before, before, release=change.release)
            with self.preparation.directory(name) as directory:
                return prepare_in(directory, before, unheld, [] if isinstance(change.update, str) else names)
        except PackageError as error:
            reason = f"cannot update the system to release {change.release}: {error}"
            raise type(error)(reason, retry_helps=error.retry_helps) from error

    def missing_advisories(self, dnf: DnfCommand, release: str) -> int | None:
        """Return the number of security advisories of a release that the host lacks; ``None`` if ``dnf`` fails."""
        listing = ["advisory", "list"] if dnf.replays.generation == 5 else ["updateinfo", "list"]
        try:
            with report_disk_errors(), tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch:
                options = release_options(dnf, self.root, release, Path(scratch))
                printed = dnf.run(*options, *_IMPATIENT, *listing, "--security", "--available")
        except PackageError as error:
            _log.warning("advisories-unknown", release=release, reason=str(error))
            return None
        names = {line.split()[0] for line in printed.splitlines() if line.strip()}
        return len(names - {_HEADING})

    def exceptions(self, change: SystemChange) -> Mapping[str, str]:
        """Return the packages that an update does not treat like all others, as text by kind.

        Packages that the change excludes or dnf's configuration holds stay. Packages of modules follow the stream
        of their module, although repositories may have a later one. Packages of services are not named.
        """
        try:
            with report_disk_errors():
                installed, streams = self.database.installed(), self.database.module_streams()
        except PackageError as error:
            _log.warning("exceptions-unknown", reason=str(error))
            return {}
        excluded = {*packages.matching_names(change.exclude, installed)} - change.kept
        held = held_packages(self.root, installed).keys() - change.kept - excluded
        found = {"excluded": excluded, "held": held, "modular": streams}
        return {kind: listing(sorted(names), _NAMED) for kind, names in found.items() if names}

    def keep_release(self, release: str) -> None:
        """Record the release of a completed update as dnf's variable, which people's dnf then uses, too."""
        directory = self.root / VARIABLES
        directory.mkdir(parents=True, exist_ok=True)
        durable.replace(directory / "release", f"{release}\n".encode(), mode=0o644)

    def _without_held(self, change: SystemChange, before: Packages) -> SystemChange:
        """Return the change without packages and builds that dnf's configuration holds or excludes.

        Raises ``PackageError`` for a held package that the change names.
        """
        held = held_packages(self.root, before)
        for name in change.update if not isinstance(change.update, str) else ():
            if name in held:
                raise PackageError(
                    f"{name} is held by {held[name]}, but update names it; remove it there, or from update"
                )
        others = {name: reason for name, reason in held.items() if name not in change.kept}
        if others:
            _log.warning("system-packages-held", packages=others)
        return replace(change, exclude=(*change.exclude, *others, *excluded_builds(self.root, before)))

    def _preview_in(
        self, directory: Path, before: Packages, change: SystemChange, names: Sequence[str]
    ) -> DnfTransaction:
        _, after, _ = self._resolve(directory, before, change, names)
        self._discard(directory)
        return DnfTransaction(before, after, release=change.release)

    def _discard(self, directory: Path) -> None:
        self.held.release(directory)
        shutil.rmtree(directory, ignore_errors=True)

    def _resolve(
        self, directory: Path, before: Packages, change: SystemChange, names: Sequence[str]
    ) -> tuple[Resolved, Packages, tuple[Item, ...]]:
        """Return the tested downloads of an update, the packages after it, and its changes."""
        try:
            resolved = self._obtain(directory, before, change, names)
        except UnsolvableError as error:
            raise UnsolvableError(self._explained(str(error), change, directory)) from error
        after = packages.changed(before, [file.package for file in resolved.files], resolved.removed)
        changes = packages.items(before, after)
        fixed = {item.name for item in changes} & {*change.kept, *packages.matching_names(change.exclude, before)}
        if fixed:
            raise PackageError(
                f"the update would change {', '.join(sorted(fixed))}, but packages of services and excluded ones"
                " stay unchanged; exclude the packages that require the change"
            )
        return resolved, after, changes

    def _prepare_in(
        self, directory: Path, before: Packages, change: SystemChange, names: Sequence[str]
    ) -> DnfTransaction:
        resolved, after, changes = self._resolve(directory, before, change, names)
        advisories = self.held.advisories(directory)
        if not changes:
            self._discard(directory)
            return DnfTransaction(before, after, release=change.release, advisories=advisories)
        transaction = replace(
            self.preparation.with_files(directory, before, after, changes, resolved.files),
            release=change.release,
            options=release_options(self.dnf, self.root, change.release, directory),
            advisories=advisories,
            wanted=frozenset(item.name for item in changes) - _new_dependencies(resolved, before),
        )
        return self.preparation.tested(transaction)

    def _explained(self, reason: str, change: SystemChange, directory: Path) -> str:
        """Return why an update cannot be resolved, with the obstacles of the hidden packages in ``reason``."""
        options = release_options(self.dnf, self.root, change.release, directory)
        hidden = hidden_packages(self.dnf, filtered(reason), options=options)
        left = packages.matching_names((*change.kept, *change.exclude), {package.name for package in hidden})
        obstacles = {
            package: kept_by_update() if package.name in left else obstacle for package, obstacle in hidden.items()
        }
        return with_obstacles(reason, obstacles)

    def _obtain(self, directory: Path, before: Packages, change: SystemChange, names: Sequence[str]) -> Resolved:
        """Download an update of the packages ``names`` (empty: all of them), and let rpm test it.

        dnf is held if possible.
        """
        options = [
            *release_options(self.dnf, self.root, change.release, directory),
            *(f"--exclude={name}" for name in sorted({*change.kept, *change.exclude})),
        ]
        fetching = [*options, "--refresh", f"--setopt=destdir={directory}"]
        security = ["--security"] if change.update == "security" else []
        removed = self.held.prepare(directory, [*fetching, *security], ["--sync", *(names or ["*"])])
        if removed is not None:
            return Resolved(self.preparation.downloads.read(directory), removed)
        command = ["upgrade", *security] if security else ["distro-sync", *names]
        self.dnf.run(*fetching, "--setopt=tsflags=test", *command)
        files = self.preparation.downloads.read(directory)
        return Resolved(files, self.preparation.downloads.replaced(files, before, [*options, *command]))


def _new_dependencies(resolved: Resolved, before: Packages) -> frozenset[str]:
    """Return the names of the packages that an update adds, without successors of installed ones."""
    return frozenset(
        file.package.name
        for file in resolved.files
        if file.package.name not in before and file.obsoletes.isdisjoint(before)
    )
