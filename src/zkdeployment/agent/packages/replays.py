"""Transaction files that dnf replays, in the formats of dnf 4 and dnf 5.

dnf refuses to replay a file if the transaction would do anything else. Both formats are lists of packages with
actions; dnf refuses other versions of the format than these.

- dnf 4 (dnf-transaction-json(5), version 0) installs from repositories. The RPM files become one.
- dnf 5 (``dnf5 replay``, version 1) installs the RPM files that the transaction file names.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Protocol

from zkdeployment.agent.packages import installed_packages
from zkdeployment.base.machine import files as durable
from zkdeployment.base.packages import Action, Item
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from zkdeployment.agent.packages.installed_packages import RpmFile
    from zkdeployment.base.inventory import Package

#: The name of the repository that is made of the downloaded files.
_REPOSITORY = "zkdeployment-prepared"


@dataclass(frozen=True)
class Replay:
    """The arguments that make dnf replay a transaction file, and the ``generation`` of dnf that reads the file.

    ``alone``: dnf needs no other repositories than those that the arguments name.
    """

    arguments: Sequence[str]
    alone: bool
    generation: int


class Replays(Protocol):
    """Writes the transaction files of one generation of dnf.

    The names ``wanted`` are marked as installed by the user, other new packages as dependencies. The methods raise
    ``PackageError`` or ``OSError``.
    """

    @property
    def generation(self) -> int:
        """The major version of dnf."""

    @property
    def can_use_files(self) -> bool:
        """Whether dnf can install RPM files at their exact version."""

    def of_downloads(
        self, changes: Collection[Item], files: Collection[RpmFile], directory: Path, *, wanted: Collection[str]
    ) -> Replay:
        """Write the file of a transaction whose RPM files dnf downloaded to ``directory`` and checked."""

    def of_cache(
        self, changes: Collection[Item], cached: Collection[RpmFile], directory: Path, *, trusted: bool
    ) -> Replay:
        """Write to ``directory`` the file of a transaction that restores packages, from cached RPM files.

        Packages that are not ``cached`` come from the configured repositories. ``trusted``: dnf checks the
        signatures of the cached files.
        """


class Dnf4Replays:
    """Implements ``Replays`` for dnf 4. Without createrepo_c, it has only the configured repositories."""

    generation: Final = 4

    @property
    def can_use_files(self) -> bool:
        return installed_packages.can_make_repository()

    def of_downloads(
        self, changes: Collection[Item], files: Collection[RpmFile], directory: Path, *, wanted: Collection[str]
    ) -> Replay:
        # The signatures were checked after the download, which takes one process for each file. dnf still compares
        # the files with the repository's checksums, and rpm with the files' own.
        unchecked, replay = ["--nogpgcheck"], self._write(changes, directory, wanted)
        if not files:
            return Replay([*unchecked, *replay], alone=True, generation=4)
        if not self.can_use_files:  # dnf has the packages in its cache of the configured repositories
            cache = ["--cacheonly", f"--setopt=destdir={directory}"]
            return Replay([*unchecked, *cache, *replay], alone=False, generation=4)
        # With its own cache, neither an emptied cache nor a changed repository matters.
        repository = installed_packages.make_repository(directory, _REPOSITORY, signed=False)
        cache = [f"--setopt=cachedir={directory / 'cache'}"]
        return Replay([*unchecked, *repository, *cache, *replay], alone=True, generation=4)

    def of_cache(
        self, changes: Collection[Item], cached: Collection[RpmFile], directory: Path, *, trusted: bool
    ) -> Replay:
        replay = self._write(changes, directory, {item.name for item in changes})
        sources: Sequence[str] = ()
        usable = cached if self.can_use_files else ()
        if usable:
            place = next(iter(usable)).path.parent
            name = f"zkdeployment-{place.name}"
            sources = [*installed_packages.make_repository(place, name, signed=trusted), "--refresh"]
        return Replay([*sources, *replay], alone=_are_complete(usable, changes), generation=4)

    def _write(self, changes: Collection[Item], directory: Path, wanted: Collection[str]) -> Sequence[str]:
        # dnf compares no versions here: the action "Upgrade" may also be a downgrade.
        actions = {Action.CHANGE: ("Upgrade", "Upgraded"), Action.REINSTALL: ("Reinstall", "Reinstalled")}
        rows = []
        for item in changes:
            new_action, old_action = actions.get(item.action, ("Install", "Removed"))
            if item.after is not None:
                reason = "user" if _is_wanted(item, wanted) else "dependency"
                rows.append(_row(new_action, item.after, reason=reason, repo_id=""))
            if item.before is not None:
                rows.append(_row(old_action, item.before, reason="user", repo_id="@System"))
        plan = directory / "plan.json"
        durable.replace(plan, json.dumps({"version": "0.0", "rpms": rows}, indent=1).encode())
        return ["history", "replay", str(plan)]


class Dnf5Replays:
    """Implements ``Replays`` for dnf 5."""

    generation: Final = 5
    can_use_files: Final = True

    def of_downloads(
        self, changes: Collection[Item], files: Collection[RpmFile], directory: Path, *, wanted: Collection[str]
    ) -> Replay:
        return self._write(changes, files, directory, wanted, trusted=all(file.trusted for file in files))

    def of_cache(
        self, changes: Collection[Item], cached: Collection[RpmFile], directory: Path, *, trusted: bool
    ) -> Replay:
        return self._write(changes, cached, directory, {item.name for item in changes}, trusted=trusted)

    def _write(
        self,
        changes: Collection[Item],
        files: Collection[RpmFile],
        directory: Path,
        wanted: Collection[str],
        *,
        trusted: bool,
    ) -> Replay:
        paths = {file.package: str(file.path) for file in files}
        actions = {Action.CHANGE: ("Upgrade", "Replaced"), Action.REINSTALL: ("Reinstall", "Replaced")}
        rows = []
        for item in changes:
            new_action, old_action = actions.get(item.action, ("Install", "Remove"))
            if item.after is not None:
                reason = "User" if _is_wanted(item, wanted) else "Dependency"
                place = {"package_path": paths[item.after]} if item.after in paths else {}
                rows.append(_row(new_action, item.after, reason=reason, repo_id="", **place))
            if item.before is not None:
                rows.append(_row(old_action, item.before, reason="User", repo_id="@System"))
        content = json.dumps({"version": "1.0", "rpms": rows}, indent=1)
        durable.replace(directory / "transaction.json", content.encode())
        arguments = [f"--setopt=localpkg_gpgcheck={int(trusted)}", "replay", str(directory)]
        return Replay(arguments, alone=_are_complete(files, changes), generation=5)


def _row(action: str, package: Package, **others: str) -> Mapping[str, str]:
    return {"action": action, "nevra": package.nevra, **others}


def _is_wanted(item: Item, wanted: Collection[str]) -> bool:
    return item.name in wanted or item.action is Action.REINSTALL


def _are_complete(files: Collection[RpmFile], changes: Collection[Item]) -> bool:
    """Whether the files hold all packages that the changes install."""
    return {item.after for item in changes if item.after is not None} <= {file.package for file in files}
