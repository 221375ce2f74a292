"""The sandbox's git repository: a bare repository, and a mirror from which its branch is pushed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.machine import process

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_AUTHOR = {
    "GIT_AUTHOR_NAME": "Sandbox",
    "GIT_AUTHOR_EMAIL": "sandbox@example.com",
    "GIT_COMMITTER_NAME": "Sandbox",
    "GIT_COMMITTER_EMAIL": "sandbox@example.com",
}


@dataclass(frozen=True, slots=True)
class Branch:
    """The branch ``name`` of the repository ``bare``; pushes come from the repository ``mirror``."""

    bare: Path
    mirror: Path
    name: str = "main"

    @property
    def url(self) -> str:
        """The URL to clone."""
        return str(self.bare)

    def create(self) -> None:
        """Create both repositories, without a commit."""
        for directory in (self.bare, self.mirror):
            self._git("init", "--quiet", "--bare", f"--initial-branch={self.name}", str(directory))

    def push(self, directory: Path, message: str) -> str:
        """Make the files of ``directory`` the branch's content and return its revision.

        A ``.git`` directory is ignored. Without changes there is no commit. Raises ``ProgramError`` with git's
        message if the push is rejected.
        """
        if not directory.is_dir():
            raise ConfigurationError(f"expected a directory of tree files, found no directory {directory}")
        # Other users may push to the repository, so its tip is fetched each time.
        self._at_mirror("fetch", "--quiet", "--prune", self.url, f"+refs/heads/*:{_TIPS}*")
        tip = self._at_mirror("for-each-ref", "--format=%(objectname)", f"{_TIPS}{self.name}")
        tree = self._content(directory)
        if tip and tree == self._at_mirror("rev-parse", f"{tip}^{{tree}}"):
            return tip
        parents = ["-p", tip] if tip else []
        revision = self._at_mirror("commit-tree", tree, *parents, "-m", message)
        self._at_mirror("push", "--quiet", self.url, f"{revision}:refs/heads/{self.name}")
        return revision

    def _content(self, directory: Path) -> str:
        index = self.mirror / "content.index"
        index.unlink(missing_ok=True)
        variables = {"GIT_WORK_TREE": str(directory.resolve()), "GIT_INDEX_FILE": str(index)}
        self._at_mirror(
            "-c", "core.bare=false", "add", "--all", "--force", ".", cwd=directory, environment=variables
        )
        return self._at_mirror("write-tree", environment=variables)

    def _at_mirror(
        self, *arguments: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> str:
        variables = {"GIT_DIR": str(self.mirror)} | dict(environment or {})
        return self._git(*arguments, cwd=cwd, environment=variables)

    def _git(self, *arguments: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        isolated = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
        env = kept | isolated | _AUTHOR | dict(environment or {})
        return process.run(["git", *arguments], cwd=cwd, env=env, timeout=120).check().stdout.strip()


#: The prefix of the mirror's references to the tips of the repository.
_TIPS = "refs/tips/"
