"""Checkouts of Subversion repositories: a working copy, at a revision or at ``HEAD``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.adapters import process
from zkdeployment.errors import CheckoutError, ProgramError, without_passwords

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.model.checkout import Checkout

#: What says that the repository was reached, so that asking again is of no use.
_ANSWERED = ("E160006", "E160013", "E170000", "E180001", "E215004")


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
        argv = ["svn", verb, "--non-interactive", *quiet, *words]
        # Nothing of ours but where svn finds itself, its user's keys and its settings; ssh must not ask either.
        inherited = {name: os.environ[name] for name in ("HOME", "PATH", "SSH_AUTH_SOCK") if name in os.environ}
        environment = {**inherited, "LANG": "C.UTF-8", "SVN_SSH": "ssh -o BatchMode=yes"}
        try:
            done = process.run(argv, env=environment, timeout=self.timeout)
        except ProgramError as error:
            raise CheckoutError(str(error)) from error
        if done.status:
            failure = CheckoutError(f"svn {verb} failed: {_last_words(done.stderr)}")
            failure.retry_helps = not any(code in done.stderr for code in _ANSWERED)
            raise failure


def _last_words(said: str) -> str:
    """Return svn's first complaint without its prefix and number: ``svn: E170000: URL '…' doesn't exist``."""
    lines = [line.removeprefix("svn: ") for line in said.splitlines() if line.startswith("svn: ")]
    words = [line.partition(": ")[2] or line for line in lines if line.startswith(("E", "W"))]
    return without_passwords("; ".join(words or lines) or "it said nothing")
