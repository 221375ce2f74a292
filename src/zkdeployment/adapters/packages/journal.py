"""The transaction under way, on disk, so that an agent that died in the middle can go back."""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.adapters.packages import rpmdb
from zkdeployment.errors import PackageError
from zkdeployment.model.inventory import Package

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.model.inventory import Packages


@dataclass(frozen=True, slots=True)
class Entry:
    """What to go back to: of all ``names`` that the transaction touches, the packages ``before``.

    ``trusted``: the kept files of those packages are all signed with keys the host trusts. Otherwise they came
    from a repository that asks for no signatures, and are put back without.
    """

    names: frozenset[str]
    before: Packages
    trusted: bool

    def of(self, installed: Packages) -> Packages:
        """Return those of the installed packages that the transaction touches."""
        return {name: packages for name, packages in installed.items() if name in self.names}


class Journal:
    """One file that exists from just before a transaction until its end is known to be good."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def open(self, entry: Entry) -> None:
        """Note a transaction that is about to start."""
        before = [astuple(package) for packages in entry.before.values() for package in packages]
        noted = {"names": sorted(entry.names), "before": sorted(before), "trusted": entry.trusted}
        durable.replace(self._file, json.dumps(noted).encode(), mode=0o600)

    def read(self) -> Entry | None:
        """Return the transaction that was not closed, if there is one; ``PackageError`` if it cannot be read."""
        try:
            noted = json.loads(self._file.read_text(encoding="utf-8"))
            before = rpmdb.by_name(Package(*fields) for fields in noted["before"])
            return Entry(frozenset(noted["names"]), before, noted["trusted"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PackageError(
                f"cannot read {self._file}, which says how to undo an interrupted package transaction: {error}; "
                "see to the packages by hand and remove the file",
                changed=True,
            ) from error

    @property
    def advice(self) -> str:
        """What an operator can do when going back failed."""
        return (
            f"{self._file} lists the packages as they were and is tried again with the next deployment: make those"
            " packages available to dnf and resume, or put the packages in order by hand and remove the file"
        )

    def close(self) -> None:
        """Forget the transaction: it is done, or undone."""
        durable.remove(self._file)
