"""Checkouts of git and Subversion repositories: a work tree at a tag, a branch, a commit or a revision."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import is_commit
from zkdeployment.base.errors import CheckoutError
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.sources.git.command import DENIED, NOT_THERE, Git, GitError, failure_cause
from zkdeployment.publishing.sources.svn import Svn, SvnError

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.tree.checkout import Checkout


_ABBREVIATED = re.compile(r"[0-9a-f]{4,64}")


@dataclass(frozen=True)
class GitCheckouts:
    """Implements ``VersionControl``; each run of git is limited to ``timeout`` seconds."""

    timeout: float = 600

    def check_out(self, checkout: Checkout, directory: Path) -> None:
        """Clone all branches and tags, then check out the revision."""
        options = (
            "--quiet",
            "--no-checkout",
            "--no-local",
            "--no-recurse-submodules",
            "--template=",
            "--origin=origin",
        )
        _run(Git(timeout=self.timeout), "clone", *options, "--end-of-options", checkout.url, str(directory))
        self._switch(checkout, directory)

    def update(self, checkout: Checkout, directory: Path) -> None:
        """Fetch all branches and tags, then check out the revision, discarding local changes."""
        options = ("--quiet", "--force", "--prune", "--no-recurse-submodules", "--no-write-fetch-head")
        refs = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
        _run(self._git(directory), "fetch", *options, "--end-of-options", checkout.url, *refs)
        self._switch(checkout, directory)

    def _switch(self, checkout: Checkout, directory: Path) -> None:
        git = self._git(directory)
        commit = self._commit(git, checkout)
        _run(git, "checkout", "--quiet", "--force", "--detach", "--no-recurse-submodules", commit)

    def _commit(self, git: Git, checkout: Checkout) -> str:
        """Return the commit that a revision names.

        A full id always names the commit with this id. For other revisions tags take precedence over branches, and
        branches over abbreviated ids.
        """
        revision = checkout.revision
        if is_commit(revision.lower()):
            if _resolve(git, revision) == revision.lower():
                return revision.lower()
            raise CheckoutError(
                f"{checkout.url} has no commit {revision}, and a tag or a branch of this name does not count;"
                " correct the version in the tree"
            )
        names = [f"refs/tags/{revision}", f"refs/remotes/origin/{revision}"]
        if _ABBREVIATED.fullmatch(revision):
            names.append(revision)
        for name in names:
            if commit := _resolve(git, name):
                return commit
        raise CheckoutError(
            f"{checkout.url} has no tag, branch or commit {revision}; correct the version in the tree"
        )

    def _git(self, directory: Path) -> Git:
        options = (f"--git-dir={directory}/.git", f"--work-tree={directory}")
        return Git(directory=directory, options=options, timeout=self.timeout)


def _resolve(git: Git, name: str) -> str | None:
    """Return the id of the commit that git knows by this name; ``None`` without one."""
    result = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    return result.text if result.status == 0 else None


def _run(git: Git, *arguments: str) -> None:
    try:
        answer = git.run(*arguments)
    except GitError as error:
        raise CheckoutError(str(error)) from error
    if answer.status:
        failure = CheckoutError(f"git {arguments[0]} failed: {failure_cause(answer.messages)}")
        failure.retry_helps = not any(sign in answer.messages for sign in (*DENIED, *NOT_THERE))
        raise failure


@dataclass(frozen=True)
class SvnCheckouts:
    """Implements ``VersionControl``; each run of svn is limited to ``timeout`` seconds."""

    timeout: float = 600

    def check_out(self, checkout: Checkout, directory: Path) -> None:
        """Check out the URL as the repository had it at the revision."""
        peg = f"{checkout.url}@{checkout.revision}"
        self._run("checkout", "--revision", checkout.revision, peg, str(directory))

    def update(self, checkout: Checkout, directory: Path) -> None:
        """Unlock a working copy whose svn was killed, then update it; discard local changes, keep new files."""
        copy = f"{directory}@"
        self._run("cleanup", copy)
        self._run("revert", "--recursive", copy)
        self._run("update", "--revision", checkout.revision, "--accept", "theirs-full", "--force", copy)
        self._run("revert", "--recursive", copy)  # local files that had the names of new files

    def _run(self, verb: str, *arguments: str) -> None:
        quiet = () if verb == "cleanup" else ("--quiet",)
        try:
            Svn(self.timeout).run(verb, *quiet, *arguments)
        except SvnError as error:
            failure = CheckoutError(str(error))
            failure.retry_helps = error.retry_helps
            raise failure from error
