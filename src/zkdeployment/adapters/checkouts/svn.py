"""Checkouts of Subversion repositories: a working copy, at a revision or at ``HEAD``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.adapters.svn.command import Svn, SvnError
from zkdeployment.errors import CheckoutError

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.model.checkout import Checkout


@dataclass(frozen=True, slots=True)
class SvnCheckouts:
    """A ``VersionControl``; each run of svn may take ``timeout`` seconds."""

    timeout: float = 600

    def check_out(self, checkout: Checkout, directory: Path) -> None:
        """Check out; the directory is looked for in the repository as it was at that revision."""
        peg = f"{checkout.url}@{checkout.revision}"
        self._run("checkout", "--revision", checkout.revision, peg, str(directory))

    def update(self, checkout: Checkout, directory: Path) -> None:
        """Free a working copy whose svn was killed; update it over what was changed here, what is new stays."""
        copy = f"{directory}@"
        self._run("cleanup", copy)
        self._run("revert", "--recursive", copy)
        self._run("update", "--revision", checkout.revision, "--accept", "theirs-full", "--force", copy)
        self._run("revert", "--recursive", copy)  # what was in the way of new files

    def _run(self, verb: str, *words: str) -> None:
        quiet = () if verb == "cleanup" else ("--quiet",)
        try:
            Svn(self.timeout).run(verb, *quiet, *words)
        except SvnError as error:
            failure = CheckoutError(str(error))
            failure.retry_helps = error.retry_helps
            raise failure from error
