"""Real Subversion repositories for tests."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Subversion:
    """A repository at ``directory`` with a working copy beside it; it is reached as ``file://``."""

    def __init__(self, directory: Path) -> None:
        self.url = f"file://{directory}"
        self._copy = directory.with_name(f"{directory.name}-copy")
        subprocess.run(["svnadmin", "create", str(directory)], check=True)
        self._svn("checkout", "--quiet", self.url, str(self._copy))

    def commit(self, files: dict[str, str], *, executable: tuple[str, ...] = ()) -> int:
        """Commit files and return the revision; ``executable`` are those that get the mode for it."""
        for name, content in files.items():
            file = self._copy / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        self._svn("add", "--quiet", "--force", str(self._copy))
        for name in executable:
            self._svn("propset", "--quiet", "svn:executable", "yes", str(self._copy / name))
        self._svn("commit", "--quiet", "-m", "a change", str(self._copy))
        self._svn("update", "--quiet", str(self._copy))
        return int(self._svn("info", "--show-item", "revision", str(self._copy)))

    def _svn(self, *words: str) -> str:
        done = subprocess.run(["svn", *words, "--non-interactive"], check=True, capture_output=True, text=True)
        return done.stdout.strip()
