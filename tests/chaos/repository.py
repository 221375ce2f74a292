"""The sandbox's git repository: pushes, rewinds, and the tree of each revision."""

from __future__ import annotations

import contextlib
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from simulation.repository import Commit
from zkdeployment.adapters import process
from zkdeployment.errors import ProgramError, TreeError
from zkdeployment.model.cluster import INITIAL
from zkdeployment.model.host import Identity

if TYPE_CHECKING:
    from zkdeployment.model.deployment import DesiredState
    from zkdeployment.sandbox.fleet import Sandbox


class Repository:
    """The repository of a sandbox; implements ``chaos.checks.Trees`` for all that was ever committed to it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._commit = cache(self._read)

    @property
    def tip(self) -> str:
        """The revision of the branch's tip."""
        return self._git("rev-parse", "main")

    def history(self) -> list[str]:
        """Return the revisions that lead to the tip, newest first."""
        return self._git("rev-list", "main").split()

    def push(self, text: str, strategy: str | None) -> str:
        """Commit a tree file and a strategy on the tip, and return the revision."""
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "tree.zk").write_text(text, encoding="utf-8")
            if strategy is not None:
                (Path(directory) / "strategy.yaml").write_text(strategy, encoding="utf-8")
            return self._sandbox.push(Path(directory), "a push")

    def rewind(self, revision: str) -> None:
        """Set the branch back to a revision."""
        self._git("update-ref", "refs/heads/main", revision)

    def wanted(self, revision: str, host: str) -> DesiredState | None:
        """Return what a host is to run at a revision; ``None`` if it is none of a valid tree."""
        with contextlib.suppress(ProgramError, TreeError):
            return self._commit(revision).wanted(Identity(host, f"{host}.sandbox"))
        return None

    def has_revision(self, revision: str) -> bool:
        """Whether a revision was pushed."""
        with contextlib.suppress(ProgramError):
            return bool(self._commit(revision))
        return False

    def has_service(self, revision: str, path: str) -> bool:
        """Whether any host is to run a service at a revision."""
        with contextlib.suppress(ProgramError, TreeError):
            targets = self._commit(revision).targets
            return any(entry.path == path for entries in targets.values() for entry in entries)
        return False

    def _read(self, revision: str) -> Commit:
        text = "" if revision == INITIAL else self._git("show", f"{revision}:tree.zk")
        return Commit(revision, text, None, 0, frozenset(), 0.0)

    def _git(self, *words: str) -> str:
        tree = self._sandbox.layout.tree
        return process.run(["git", "--git-dir", str(tree), *words], timeout=60).check().stdout.strip()
