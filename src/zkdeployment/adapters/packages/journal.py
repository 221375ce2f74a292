"""The journal of the running transaction, so that a restarted agent can roll back an interrupted transaction."""

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
