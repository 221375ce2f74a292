"""A package transaction that is ready to be committed, and the parts that it is made of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.adapters.packages import local_repository, replay
from zkdeployment.adapters.packages.journal import Entry
from zkdeployment.errors import PackageError
from zkdeployment.model.names import NameKind, name_problem

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from zkdeployment.adapters.packages.rpmdb import RpmFile
    from zkdeployment.model.inventory import Packages
    from zkdeployment.model.plan import PackageChange
    from zkdeployment.planning.packages import Item

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
    durable.replace(transaction.plan, replay.document(transaction.items, wanted=transaction.wanted))
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
    if not local_repository.is_possible():
        return ["--cacheonly", f"--setopt=destdir={directory}"], False
    cache = f"--setopt=cachedir={directory / 'cache'}"
    return [*local_repository.make(directory, _REPOSITORY, signed=False), cache], True


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
