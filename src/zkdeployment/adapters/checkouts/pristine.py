"""Working copies that only the agent reads and writes, in ``ROOT/var/lib/zkdeployment/checkouts``.

A service's user may own ``/opt/PACKAGE`` with its repository, whose configuration names programs. Git and svn
therefore run on these copies only, in which nothing is built. ``PACKAGE/copy`` is the working copy,
``PACKAGE/files`` lists the files of its installed state, and ``PACKAGE/coming`` those of the next state.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.adapters.checkouts.leftovers import committed_files
from zkdeployment.adapters.file_owners import foreign_part
from zkdeployment.errors import CheckoutError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_LARGEST = 256 * 1024 * 1024


@dataclass(frozen=True)
class PristineCopies:
    """The working copies below the host's ``root``. Methods raise ``CheckoutError`` or ``OSError``."""

    root: Path

    def prepare(self, package: str, renew: Callable[[Path], None]) -> Path:
        """Return the working copy, made or updated by ``renew``; its files are those to be installed next."""
        directory = self._directory(package)
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.mkdir(exist_ok=True)
        if part := foreign_part(directory, self.root):
            raise CheckoutError(f"other users may change {part}: expected a directory of root; make it one")
        copy = working_copy(self.root, package)
        renew(copy)
        durable.replace(directory / "coming", json.dumps(sorted(committed_files(copy))).encode())
        return copy

    def installed_files(self, package: str) -> frozenset[str] | None:
        """Return the files of the installed state; ``None`` if they are not recorded."""
        return self._files(package, "files")

    def coming_files(self, package: str) -> frozenset[str]:
        """Return the files of the state that is being installed."""
        return self._files(package, "coming") or frozenset()

    def complete(self, package: str) -> None:
        """Record that the state to be installed is installed."""
        with contextlib.suppress(FileNotFoundError):
            (self._directory(package) / "coming").replace(self._directory(package) / "files")

    def remove(self, package: str) -> None:
        """Remove the working copy and what is known of it."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._directory(package))

    def _files(self, package: str, name: str) -> frozenset[str] | None:
        content = durable.read(self._directory(package) / name, _LARGEST)
        return None if content is None else frozenset(json.loads(content))

    def _directory(self, package: str) -> Path:
        return working_copy(self.root, package).parent


def working_copy(root: Path, package: str) -> Path:
    """Return the directory of the agent's own working copy of a checkout."""
    return root / "var/lib/zkdeployment/checkouts" / package / "copy"
