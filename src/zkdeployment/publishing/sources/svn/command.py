"""Runs svn without prompts, with a minimal environment and a time limit."""

from __future__ import annotations

import os
from dataclasses import dataclass

from zkdeployment.base.errors import ProgramError, SourceError, without_passwords
from zkdeployment.base.machine import process

#: Error codes of svn after which a retry does not help, because the repository responded.
_ANSWERED = ("E160006", "E160013", "E170000", "E170001", "E180001", "E200009", "E205000", "E215004")

_INHERITED = ("HOME", "PATH", "SSH_AUTH_SOCK")

#: ssh without prompts, with time limits for silent servers.
_SSH = "ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=15"


class SvnError(SourceError):
    """A failure of svn, with the output of svn."""


@dataclass(frozen=True)
class Svn:
    """Runs svn with a time limit in seconds."""

    timeout: float = 60

    def run(self, verb: str, *arguments: str) -> str:
        """Return the output of svn; raises ``SvnError`` if svn fails."""
        # svn needs these variables to find its programs, the user's keys and its settings.
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment = {**inherited, "LANG": "C.UTF-8", "SVN_SSH": os.environ.get("SVN_SSH", _SSH)}
        try:
            argv = ["svn", verb, "--non-interactive", *arguments]
            done = process.run(argv, env=environment, timeout=self.timeout)
        except ProgramError as error:
            raise SvnError(without_passwords(str(error))) from error
        if done.status:
            failure = SvnError(f"svn {verb} failed: {_error_messages(done.stderr)}")
            failure.retry_helps = not any(code in done.stderr for code in _ANSWERED)
            raise failure
        return done.stdout


def _error_messages(output: str) -> str:
    """Return svn's errors without prefix and number, such as those of ``svn: E170000: URL '…' doesn't exist``."""
    errors = [line.removeprefix("svn: ") for line in output.splitlines() if line.startswith("svn: ")]
    lines = [line.removeprefix("warning: ") for line in errors]
    messages = [line.partition(": ")[2] or line for line in lines if line.startswith(("E", "W"))]
    return without_passwords("; ".join(messages or lines) or "no output")
