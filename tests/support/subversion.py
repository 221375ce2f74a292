"""Real Subversion repositories for tests."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Subversion:
    """A repository at ``directory`` with a ``file://`` URL, and a working copy beside it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = f"file://{directory}"
        self.copy = directory.with_name(f"{directory.name}-copy")
        subprocess.run(["svnadmin", "create", str(directory)], check=True)
        self.svn("checkout", "--quiet", self.url, str(self.copy))

    def commit(
        self,
        files: dict[str, str | bytes | None],
        *,
        message: str = "a change",
        executable: tuple[str, ...] = (),
    ) -> int:
        """Commit files (``None`` removes a file), those in ``executable`` as executable; return the revision."""
        for name, content in files.items():
            file = self.copy / name
            if content is None:
                self.svn("delete", "--quiet", str(file))
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.svn("add", "--quiet", "--force", str(self.copy))
        for name in executable:
            self.svn("propset", "--quiet", "svn:executable", "yes", str(self.copy / name))
        self.svn("commit", "--quiet", "-m", message, str(self.copy))
        self.svn("update", "--quiet", str(self.copy))
        return int(self.svn("info", "--show-item", "revision", str(self.copy)))

    def svn(self, *arguments: str) -> str:
        """Run svn and return its output."""
        done = subprocess.run(
            ["svn", *arguments, "--non-interactive"],
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | {"LANG": "C.UTF-8"},
        )
        return done.stdout.strip()
