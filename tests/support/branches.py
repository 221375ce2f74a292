"""A bare repository as a server has it, with a clone in which people work, for tests of acts as commits."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

from support.repository import Repository
from zkdeployment.intents.verification import GitApprovals
from zkdeployment.publishing.acts.commits import Author
from zkdeployment.publishing.sources.git.act_commits import TreeCommits
from zkdeployment.publishing.sources.git.source import GitSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Branch:
    """The branch ``main`` of a bare repository, and a clone with one person."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bare = directory / "server.git"
        run = ["git", "init", "--quiet", "--bare", "--initial-branch=main", str(self.bare)]
        subprocess.run(run, check=True, env=os.environ | {"GIT_CONFIG_GLOBAL": os.devnull})
        self.clone = Repository(directory / "clone")
        self.clone.git("remote", "add", "origin", str(self.bare))

    def push(self, files: dict[str, str | bytes | None], *options: str, message: str = "a change") -> str:
        """Commit files on top of the branch and push them; return the revision."""
        if self.tip() is not None:
            self.clone.git("pull", "--quiet", "--ff-only", "origin", "main")
        revision = self.clone.commit(files, *options, message=message)
        self.clone.git("push", "--quiet", "origin", "main")
        return revision

    def tip(self) -> str | None:
        """Return the tip of the branch; ``None`` while the repository is empty."""
        return self.ask("for-each-ref", "--format=%(objectname)", "refs/heads/main") or None

    def ask(self, *arguments: str) -> str:
        """Run git in the bare repository."""
        run = ["git", "--git-dir", str(self.bare), *arguments]
        return subprocess.run(run, check=True, capture_output=True, text=True, errors="replace").stdout.strip()

    def files(self, revision: str = "main") -> dict[str, str]:
        """Return the files of a revision, subdirectories included, by path."""
        names = self.ask("ls-tree", "-r", "--name-only", revision).splitlines()
        return {name: self.ask("show", f"{revision}:{name}") + "\n" for name in names}

    def hook(self, name: str, script: str) -> None:
        """Install a hook of the server."""
        hook = self.bare / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{script}\n")
        hook.chmod(0o755)

    def commits(
        self,
        name: str = "acts",
        *,
        allowed_signers: Path | None = None,
        signing_key: Path | None = None,
        approvers: Path | None = None,
        rules: Path | None = None,
        reach: Callable[[str], None] = lambda _place: None,
    ) -> TreeCommits:
        """Return the branch as a place for commits, with a mirror of its own."""
        mirror = self.directory / name / "mirror"
        source = GitSource(str(self.bare), mirror, branch="main", gap=0, allowed_signers=allowed_signers)
        approvals = None
        if approvers is not None:
            approvals = GitApprovals(lambda: source.reader, approvers, allowed_signers, time.time, rules)
        return TreeCommits(
            source, Author("zkdeployment", "zkdeployment@server"), signing_key, approvals, reach=reach
        )
