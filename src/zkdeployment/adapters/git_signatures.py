"""The gate for signed commits.

Git picks the verifying program by the signature's type and lets configuration name it, says "Good" about keys it
does not know, and judges a key's validity at the date that the commit gives itself. So all programs and files are
named on the command line, only SSH signatures count, and exit status, verdict and date all have to be right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.git_command import last_words
from zkdeployment.errors import SourceError

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.adapters.git_command import Git

#: How far the clock of whoever commits may be ahead, in seconds.
_TOLERANCE = 600

_VERDICTS = {
    "N": "it has no SSH signature",
    "U": "it is signed with a key that is not allowed",
    "B": "its signature is wrong",
}


def check_signature(git: Git, revision: str, allowed_signers: Path, *, now: float) -> None:
    """Raise ``SourceError`` unless a commit is signed with an SSH key of ``allowed_signers``.

    ``git`` has to run alone. ``now`` is in seconds since the epoch.
    """
    try:
        allowed_signers.open("rb").close()
    except OSError as error:
        raise SourceError(f"cannot read allowed-signers {allowed_signers}: {error.strerror}") from error
    options = _options(allowed_signers)
    log = ("log", "-1", "--no-show-signature", "--format=%G?%n%ct", "--end-of-options", revision)
    verdict, _, date = git.run(*options, *log).check().text.partition("\n")
    verified = git.run(*options, "verify-commit", "--end-of-options", revision)
    refusal = f"revision {revision} is not published"
    if verdict != "G" or verified.status:
        reason = _VERDICTS.get(verdict, f"its signature cannot be verified: {last_words(verified.words)}")
        raise SourceError(f"{refusal}: {reason} (allowed-signers is {allowed_signers})")
    if int(date) > now + _TOLERANCE:
        raise SourceError(f"{refusal}: its date is {int(date) - now:.0f} s in the future")


def _options(allowed_signers: Path) -> tuple[str, ...]:
    settings = {
        "gpg.format": "ssh",
        "gpg.ssh.program": "ssh-keygen",
        "gpg.ssh.allowedSignersFile": str(allowed_signers),
        "gpg.ssh.revocationFile": "",
        "gpg.program": "false",
        "gpg.openpgp.program": "false",
        "gpg.x509.program": "false",
    }
    return tuple(word for key, value in settings.items() for word in ("-c", f"{key}={value}"))
