"""A package transaction that is ready to be committed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.adapters.packages import local_repository
from zkdeployment.adapters.packages.journal import Entry
from zkdeployment.errors import PackageError
from zkdeployment.model.names import NameKind, name_problem

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from zkdeployment.adapters.packages.rpmdb import RpmFile
    from zkdeployment.model.inventory import Packages
    from zkdeployment.model.plan import PackageChange
    from zkdeployment.planning.packages import Item

#: The name under which dnf sees the downloaded files as a repository.
_REPOSITORY = "zkdeployment-prepared"


@dataclass(frozen=True, slots=True)
class DnfTransaction:
    """A prepared transaction.

    ``directory`` holds its downloads and its transaction file. ``sources`` are the arguments that make dnf take
    packages from there, ``alone`` or with the configured repositories.
    """

    before: Packages
    after: Packages
    reversible: bool = True
    items: tuple[Item, ...] = ()
    directory: Path = Path()
    sources: Sequence[str] = ()
    alone: bool = True
    files: tuple[RpmFile, ...] = ()
    entry: Entry = field(default_factory=lambda: Entry(frozenset(), {}, trusted=True))
    managed: frozenset[str] = frozenset()
    preserve: frozenset[str] = frozenset()

    @property
    def plan(self) -> Path:
        """The transaction file, for dnf to replay."""
        return self.directory / "plan.json"

    @property
    def words(self) -> Sequence[str]:
        """The arguments that make dnf replay it from the downloaded files alone."""
        return [*self.sources, "history", "replay", str(self.plan)]


def make_sources(directory: Path) -> tuple[Sequence[str], bool]:
    """Return the arguments that make dnf take packages from the files in ``directory``, and whether these suffice.

    dnf reads a repository made of them, with a cache of its own beside it, so that neither an emptied cache nor
    a changed repository counts. dnf checked the signatures when it downloaded the files. Without createrepo_c dnf
    has to find the packages in its cache of the configured repositories.
    """
    if not any(directory.glob("*.rpm")):
        return [], True
    if not local_repository.is_possible():
        return ["--cacheonly", f"--setopt=destdir={directory}"], False
    cache = f"--setopt=cachedir={directory / 'cache'}"
    return [*local_repository.make(directory, _REPOSITORY, signed=False), cache], True


def entry(changes: Collection[Item], before: Packages, *, trusted: bool) -> Entry:
    """Return the journal's entry for these changes of the packages ``before``."""
    names = frozenset(item.name for item in changes)
    return Entry(names, {name: before[name] for name in names & before.keys()}, trusted)


def check_names(change: PackageChange) -> None:
    """Refuse what dnf could take for an option, a pattern, a path or a URL."""
    problems = [
        name_problem(NameKind.PACKAGE, name) for name in sorted({*change.want, *change.remove, *change.reinstall})
    ]
    problems += [
        name_problem(NameKind.VERSION, version) for version in change.want.values() if version is not None
    ]
    if found := [problem for problem in problems if problem is not None]:
        raise PackageError("; ".join(found))
