"""Signing of commits with the key in a file: an SSH private key, or an OpenPGP secret key.

All programs are named, and neither the user's configuration nor the user's key ring is used.
"""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.adapters import process
from zkdeployment.errors import ConfigurationError, ProgramError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zkdeployment.adapters.git.command import Git


@contextlib.contextmanager
def signing(git: Git, key: Path | None) -> Iterator[tuple[Git, tuple[str, ...]]]:
    """Yield a git and the options with which it signs commits; without a ``key`` it does not sign.

    Raises ``ConfigurationError`` if the key cannot be used.
    """
    if key is None:
        yield git, ("--no-gpg-sign",)
        return
    try:
        text = key.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"signing-key: cannot read {key}: {error.strerror}") from error
    with _openpgp(git, key) if _is_openpgp(text) else _ssh(git, key) as ready:
        yield ready, ("-S",)


def _is_openpgp(key: bytes) -> bool:
    return key.lstrip().startswith(b"-----BEGIN PGP ") or bool(key[:1] and key[0] & 0x80)


@contextlib.contextmanager
def _ssh(git: Git, key: Path) -> Iterator[Git]:
    settings = {"gpg.format": "ssh", "gpg.ssh.program": "ssh-keygen", "user.signingKey": str(key)}
    yield replace(git, settings={**git.settings, **settings})


@contextlib.contextmanager
def _openpgp(git: Git, key: Path) -> Iterator[Git]:
    """Yield a git that signs with a key ring of its own, which holds this key alone."""
    with tempfile.TemporaryDirectory(prefix="zkd-") as home:
        gpg = ["gpg", "--homedir", home, "--batch", "--no-tty", "--quiet"]
        try:
            process.run([*gpg, "--import", "--", str(key)], timeout=git.timeout).check()
            listing = (
                process.run([*gpg, "--with-colons", "--list-secret-keys"], timeout=git.timeout).check().stdout
            )
            prints = [line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr:")]
            if not prints:
                raise ConfigurationError(f"signing-key: {key} holds no secret OpenPGP key")
            settings = {
                "gpg.format": "openpgp",
                "gpg.program": "gpg",
                "gpg.openpgp.program": "gpg",
                "user.signingKey": prints[0],
            }
            variables = {**git.variables, "GNUPGHOME": home}
            yield replace(git, settings={**git.settings, **settings}, variables=variables)
        except ProgramError as error:
            raise ConfigurationError(f"signing-key: cannot use the OpenPGP key {key}: {error}") from error
        finally:
            with contextlib.suppress(ProgramError):  # without an agent there is nothing to end
                process.run(["gpgconf", "--homedir", home, "--kill", "all"], timeout=10)
