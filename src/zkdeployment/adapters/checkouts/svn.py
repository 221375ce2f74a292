"""Checks out Subversion repositories: a working copy at a revision or at ``HEAD``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.adapters.svn.command import Svn, SvnError
from zkdeployment.errors import CheckoutError

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.model.checkout import Checkout


@dataclass(frozen=True)
class SvnCheckouts:
    """Implements ``VersionControl``; each run of svn is limited to ``timeout`` seconds."""

    timeout: float = 600

    def check_out(self, checkout: Checkout, directory: Path) -> None:
        """The URL is looked up in the repository as of the revision."""
        peg = f"{checkout.url}@{checkout.revision}"
        self._run("checkout", "--revision", checkout.revision, peg, str(directory))

    def update(self, checkout: Checkout, directory: Path) -> None:
        """Unlock a working copy whose svn was killed, then update it; local changes are lost, new files stay."""
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
