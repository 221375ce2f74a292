"""Verification of signed commits.

Git chooses the verifying program by the signature's type, lets configuration name that program, reports "Good" for
unknown keys, and judges a key's validity at the date in the commit. Therefore all programs and files are named on
the command line, only one kind of signature is accepted, and exit status, verdict and date are all checked.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.durations import seconds_ahead
from zkdeployment.base.errors import ProgramError, RevisionError, SourceError
from zkdeployment.base.machine import process
from zkdeployment.publishing.ports import shorten
from zkdeployment.publishing.sources.git.command import Git, failure_cause

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_NOT_ALLOWED = "it is signed with a key that is not allowed"
_VERDICTS = {
    "B": "its signature is wrong",
    "E": _NOT_ALLOWED,
    "R": "its key was revoked",
    "U": _NOT_ALLOWED,
    "X": "its signature has expired",
    "Y": "its key has expired",
}

#: The key ring holds only allowed keys, so each key is trusted; gpg must not use the network.
_GPG_CONFIGURATION = "trust-model always\nno-autostart\nno-auto-key-retrieve\n"


def check_signature(git: Git, revision: str, allowed_signers: Path, *, now: float) -> str:
    """Return the name and the fingerprint of the key that signed a commit.

    Raises ``RevisionError`` unless the key is one of ``allowed_signers``: a file of SSH keys in ssh-keygen's
    format, or of OpenPGP keys as ``gpg --export`` writes them. ``git`` has to run alone. ``now`` is in seconds
    since the epoch.
    """
    try:
        keys = allowed_signers.read_bytes()
    except OSError as error:
        raise SourceError(f"cannot read allowed-signers {allowed_signers}: {error.strerror}") from error
    openpgp = _is_openpgp(keys)
    with _openpgp(git, allowed_signers) if openpgp else _ssh(git, allowed_signers) as verifying:
        form = "--format=%G?%n%ct%n%GF%n%GS"
        log = ("log", "-1", "--no-show-signature", form, "--end-of-options", revision)
        log_output = verifying.run(*log)
        verified = verifying.run("verify-commit", "--end-of-options", revision)
    refusal = f"revision {revision} is not published"
    # With a signature of the other kind, the missing verifying program may end git by SIGPIPE.
    verdict, date, fingerprint, name = ("N", "", "", "") if log_output.status else _fields(log_output.output)
    if verdict != "G" or verified.status:
        reason = _VERDICTS.get(verdict, f"its signature cannot be verified: {failure_cause(verified.messages)}")
        if verdict == "N":
            reason = f"it has no {'OpenPGP' if openpgp else 'SSH'} signature"
        raise RevisionError(f"{refusal}: {reason} (allowed-signers is {allowed_signers})")
    if ahead := seconds_ahead(int(date), now):
        raise RevisionError(f"{refusal}: its date is {ahead:.0f} s in the future")
    return f"{shorten(name.strip())} {fingerprint}"


def _fields(output: bytes) -> tuple[str, str, str, str]:
    verdict, date, fingerprint, name = output.decode("utf-8", "replace").split("\n", 3)
    return verdict, date, fingerprint, name


def _is_openpgp(keys: bytes) -> bool:
    """Whether these are OpenPGP keys, armoured or binary; no text starts with the high bit of a packet."""
    return keys.lstrip().startswith(b"-----BEGIN PGP ") or bool(keys[:1] and keys[0] & 0x80)


@contextmanager
def _ssh(git: Git, keys: Path) -> Iterator[Git]:
    """Yield a git that verifies SSH signatures only."""
    yield _verifying(
        git,
        {
            "gpg.format": "ssh",
            "gpg.ssh.program": "ssh-keygen",
            "gpg.ssh.allowedSignersFile": str(keys),
            "gpg.ssh.revocationFile": "",
            "gpg.program": "false",
            "gpg.openpgp.program": "false",
            "gpg.x509.program": "false",
        },
    )


@contextmanager
def _openpgp(git: Git, keys: Path) -> Iterator[Git]:
    """Yield a git that verifies OpenPGP signatures only, with a key ring of the allowed keys."""
    with tempfile.TemporaryDirectory(prefix="zkdeployment-") as home:
        (Path(home) / "gpg.conf").write_text(_GPG_CONFIGURATION, encoding="ascii")
        argv = ["gpg", "--homedir", home, "--batch", "--no-tty", "--quiet", "--import", "--", str(keys)]
        try:
            process.run(argv, timeout=git.timeout).check()
        except ProgramError as error:
            raise SourceError(f"cannot use the OpenPGP keys of allowed-signers {keys}: {error}") from error
        settings = {
            "gpg.format": "openpgp",
            "gpg.program": "gpg",
            "gpg.openpgp.program": "gpg",
            "gpg.ssh.program": "false",
            "gpg.x509.program": "false",
        }
        yield replace(_verifying(git, settings), variables={"GNUPGHOME": home})


def _verifying(git: Git, settings: Mapping[str, str]) -> Git:
    options = tuple(word for key, value in settings.items() for word in ("-c", f"{key}={value}"))
    return replace(git, options=(*git.options, *options))
