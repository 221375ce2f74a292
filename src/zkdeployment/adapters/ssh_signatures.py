"""Signatures of texts by SSH keys, made and verified by ``ssh-keygen -Y``."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from zkdeployment.adapters import process
from zkdeployment.errors import ConfigurationError, ProgramError, RefusedError
from zkdeployment.intents.approvals import KeyOwner
from zkdeployment.printable import printable

#: Seconds for one run of ssh-keygen.
_TIMEOUT = 30.0

_FINGERPRINT = re.compile(r"\bSHA256:[A-Za-z0-9+/=]+")

#: Signatures are some hundred bytes; longer texts are not passed on.
_LONGEST = 16_384


def sign_text(key: Path, namespace: str, text: str) -> str:
    """Return the signature of a text by a private key, or by a public key whose private key an agent holds.

    Raises ``ConfigurationError`` if the key cannot be used.
    """
    try:
        return (
            process.run(
                ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", namespace], text=text, timeout=_TIMEOUT
            )
            .check()
            .stdout
        )
    except ProgramError as error:
        raise ConfigurationError(
            f"cannot sign with {key}: {error}; expected an SSH private key without a passphrase, or a public key"
            " whose private key ssh-agent holds"
        ) from error


def verify_text(allowed: Path, namespace: str, text: str, signature: str) -> KeyOwner:
    """Return who signed a text; ``allowed`` is a file of keys in ssh-keygen's format of allowed signers.

    Raises ``RefusedError`` with the reason if the signature is not valid or made by another key, and
    ``ConfigurationError`` if the file cannot be read.
    """
    try:
        allowed.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read the keys in {allowed}: {error.strerror}") from error
    if len(signature) > _LONGEST:
        raise RefusedError("its signature is too long to be one")
    with tempfile.TemporaryDirectory(prefix="zkdeployment-") as directory:
        file = Path(directory) / "signature"
        file.write_text(signature if signature.endswith("\n") else f"{signature}\n", encoding="utf-8")
        found = _run("-Y", "find-principals", "-s", str(file), "-f", str(allowed))
        names = found.stdout.split() if found.status == 0 else []
        if not names:
            raise RefusedError(f"its signature is not by one of the keys in {allowed}")
        name = names[0].split(",")[0]
        verified = _run(
            "-Y", "verify", "-f", str(allowed), "-I", name, "-n", namespace, "-s", str(file), text=text
        )
    fingerprint = _FINGERPRINT.search(verified.stdout)
    if verified.status != 0 or fingerprint is None:
        raise RefusedError(f"its signature by {printable(name)} is not valid for this subject and content")
    return KeyOwner(printable(name), fingerprint.group())


def verify_text_by(name: str, keys: bytes, namespace: str, text: str, signature: str) -> None:
    """Return if a key that ``keys``, in ssh-keygen's format of allowed signers, lists for ``name`` signed a text.

    Runs one process. Raises ``RefusedError`` with the reason if not, ``ProgramError`` if ssh-keygen cannot be run.
    """
    if len(signature) > _LONGEST:
        raise RefusedError("its signature is too long to be one")
    with tempfile.TemporaryDirectory(prefix="zkdeployment-") as directory:
        allowed, file = Path(directory) / "allowed", Path(directory) / "signature"
        allowed.write_bytes(keys)
        file.write_text(signature, encoding="utf-8")
        verified = _run(
            "-Y", "verify", "-f", str(allowed), "-I", name, "-n", namespace, "-s", str(file), text=text
        )
    if verified.status != 0:
        reason = (verified.stderr or verified.stdout).partition("\n")[0]
        raise RefusedError(f"its signature is not valid: {printable(reason)}")


def _run(*arguments: str, text: str | None = None) -> process.Completed:
    return process.run(["ssh-keygen", *arguments], text=text, timeout=_TIMEOUT)
