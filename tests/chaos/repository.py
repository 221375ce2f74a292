"""The sandbox's git repository: pushes, rewinds, and the tree of each revision."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.pushed import PushedTree, pushed_tree
from zkdeployment.base.cluster import INITIAL
from zkdeployment.base.errors import ProgramError
from zkdeployment.base.machine import process

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.base.host import Identity
    from zkdeployment.sandbox.fleet import Sandbox


class Repository:
    """The repository of a sandbox, with all commits."""

    def __init__(self, sandbox: Sandbox, identities: Sequence[Identity]) -> None:
        self._sandbox = sandbox
        self._identities = identities
        self.tree = cache(self._read)

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

    def _read(self, revision: str) -> PushedTree | None:
        """Return the tree of a revision; ``None`` if no valid tree was pushed as this revision."""
        try:
            text = "" if revision == INITIAL else self._git("show", f"{revision}:tree.zk")
        except ProgramError:
            return None
        return pushed_tree(text, self._identities)

    def _git(self, *words: str) -> str:
        tree = self._sandbox.layout.tree
        return process.run(["git", "--git-dir", str(tree), *words], timeout=60).check().stdout.strip()
