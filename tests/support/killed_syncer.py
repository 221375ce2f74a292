"""A syncer that is killed at one of its writes, to ZooKeeper or to its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.machine import files
from zkdeployment.publishing.store import builder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from support.publishing import Publishing


class Killed(BaseException):
    """The syncer was killed at a write."""


class KilledSyncer:
    """Runs a syncer with transactions of at most ``limit`` operations until it reaches ``place``.

    A place is ``before`` or ``after``, a colon, and a write with its number, such as ``before:commit@2``. Writes
    are ``commit``, and the replacement of a file of the syncer, named by its suffix (``signed``). ``reached`` are
    all writes that were begun.
    """

    def __init__(self, publishing: Publishing, monkeypatch: pytest.MonkeyPatch, place: str, limit: int) -> None:
        self._publishing = publishing
        self._monkeypatch = monkeypatch
        self._place = place
        self._limit = limit
        self._is_dead = False
        self.reached: list[str] = []

    def run(self) -> None:
        """Run one cycle, which ends without an error if it never reaches the place."""
        with self._monkeypatch.context() as patch:
            patch.setattr(builder, "OPERATIONS_LIMIT", self._limit)
            replace = files.replace

            def replace_or_die(file: Path, content: bytes, *, mode: int = 0o644, sync: bool = True) -> None:
                if not file.name.startswith(".tree."):
                    replace(file, content, mode=mode, sync=sync)
                    return
                write = file.suffix[1:]
                self._reach(f"before:{write}")
                replace(file, content, mode=mode, sync=sync)
                self._reach(f"after:{write}")

            patch.setattr(files, "replace", replace_or_die)
            try:
                with self._publishing.syncer(reach=self._reach) as syncer:
                    syncer.sync()
            except Killed:
                pass

    def _reach(self, place: str) -> None:
        if not self._is_dead:
            if place.startswith("before:"):
                write = place.removeprefix("before:")
                self.reached.append(f"{write}@{1 + sum(one.startswith(f'{write}@') for one in self.reached)}")
                place = f"before:{self.reached[-1]}"
            else:
                write = place.removeprefix("after:")
                place = f"after:{[one for one in self.reached if one.startswith(f'{write}@')][-1]}"
            self._is_dead = place == self._place
        if self._is_dead:
            raise Killed  # a dead process does not write, in any of its threads
