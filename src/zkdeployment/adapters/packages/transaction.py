"""A package transaction that is ready to be committed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.adapters.packages.journal import Entry

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from zkdeployment.adapters.packages.rpmdb import RpmFile
    from zkdeployment.model.inventory import Packages
    from zkdeployment.planning.packages import Item


@dataclass(frozen=True, slots=True)
class DnfTransaction:
    """A prepared transaction. ``directory`` holds its downloads and its transaction file."""

    before: Packages
    after: Packages
    reversible: bool = True
    items: tuple[Item, ...] = ()
    directory: Path = Path()
    files: tuple[RpmFile, ...] = ()
    entry: Entry = field(default_factory=lambda: Entry(frozenset(), {}, trusted=True))
    managed: frozenset[str] = frozenset()

    @property
    def plan(self) -> Path:
        """The transaction file, for dnf to replay."""
        return self.directory / "plan.json"

    @property
    def words(self) -> Sequence[str]:
        """The arguments that make dnf replay it from the downloaded files, without a look at any repository."""
        only_goes = all(item.after is None for item in self.items)
        files = ["--disablerepo=*"] if only_goes else ["--cacheonly", f"--setopt=destdir={self.directory}"]
        return [*files, "history", "replay", str(self.plan)]


def entry(changes: Collection[Item], before: Packages, *, trusted: bool) -> Entry:
    """Return the journal's entry for these changes of the packages ``before``."""
    names = frozenset(item.name for item in changes)
    return Entry(names, {name: before[name] for name in names & before.keys()}, trusted)
