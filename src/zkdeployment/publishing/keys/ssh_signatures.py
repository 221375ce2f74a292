"""Signatures of texts by SSH keys, made and verified by ``ssh-keygen -Y``."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConfigurationError, ProgramError, RefusedError
from zkdeployment.base.machine import process
from zkdeployment.base.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

#: Seconds for one run of ssh-keygen.
_TIMEOUT = 30.0

_FINGERPRINT = re.compile(r"\bSHA256:[A-Za-z0-9+/=]+")

#: Signatures have some hundred bytes; longer texts are not passed to ssh-keygen.
_LONGEST = 16_384


@dataclass(frozen=True, slots=True)
class KeyOwner:
    """The owner of a key that signed: the name in the file of allowed keys, and the fingerprint of the key."""

    name: str
    fingerprint: str

    def is_same(self, other: KeyOwner) -> bool:
        """Whether both are the same person: they have the same name or the same key."""
        return self.name == other.name or self.fingerprint == other.fingerprint


def sign_text(key: Path, namespace: str, text: str | Callable[[], str]) -> str:
    """Return the signature of a text by a private key, or by a public key whose private key an agent holds.

    ``text`` may be a function that returns the text. The function is called while ssh-keygen starts; an error that
    it raises ends ssh-keygen.

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


def verify_text(allowed: Path, namespace: str, text: str, signature: str, *, name: str | None = None) -> KeyOwner:
    """Return the signer of a text; ``allowed`` is a file of keys in ssh-keygen's format of allowed signers.

    If the key belongs to several names, or to a pattern, the owner gets ``name`` if that is one of them. Raises
    ``RefusedError`` with the reason if the signature is not valid or made by another key, and
    ``ConfigurationError`` if the file cannot be read.
    """
    keys = read_keys(allowed)
    names = _find_principals(keys, signature).names
    if not names:
        raise RefusedError(f"its signature is not by one of the keys in {allowed}")
    for each in names if name is None else dict.fromkeys((name, *names)):
        verified = _check(keys, signature, "verify", "-I", each, "-n", namespace, text=text)
        fingerprint = _FINGERPRINT.search(verified.stdout)
        if verified.status == 0 and fingerprint is not None:
            return KeyOwner(printable(each), fingerprint.group())
    raise RefusedError(f"its signature by {printable(names[0])} is not valid for this subject and content")


def read_keys(allowed: Path) -> bytes:
    """Return the content of a file of allowed signers; raises ``ConfigurationError`` if it cannot be read."""
    try:
        return allowed.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read the keys in {allowed}: {error.strerror}") from error


def verify_text_by(name: str | None, keys: bytes, namespace: str, text: str, signature: str) -> None:
    """Verify that a text was signed by a key that ``keys`` lists for ``name``.

    ``keys`` has ssh-keygen's format of allowed signers. Runs one process. Without a ``name``, one more process
    finds the names of the signature's key. Raises ``RefusedError`` with the reason if the signature is not valid,
    ``ProgramError`` if ssh-keygen cannot be run.
    """
    found = _Principals([name]) if name is not None else _find_principals(keys, signature)
    reason = found.reason
    for each in found.names:
        verified = _check(keys, signature, "verify", "-I", each, "-n", namespace, text=text)
        if verified.status == 0:
            return
        reason = _reason(verified)
    raise RefusedError(f"its signature is not valid: {printable(reason)}")


@dataclass(frozen=True, slots=True)
class _Principals:
    """The names for which the key of a signature is listed, or the ``reason`` why the key is not listed."""

    names: Sequence[str]
    reason: str = "no name matches its key"


def _find_principals(keys: bytes, signature: str) -> _Principals:
    found = _check(keys, signature, "find-principals")
    if found.status:
        return _Principals((), _reason(found))
    return _Principals([name for name in re.split("[\\n,]", found.stdout) if name and not name.startswith("!")])


def _reason(result: process.Completed) -> str:
    return (result.stderr or result.stdout).partition("\n")[0]


def _check(keys: bytes, signature: str, check: str, *options: str, text: str | None = None) -> process.Completed:
    """Return the result of a check by ssh-keygen, which reads the keys and the signature from memory.

    A full disk does not prevent the check.
    """
    if len(signature) > _LONGEST:
        raise RefusedError("its signature is too long to be one")
    ended = signature if signature.endswith("\n") else f"{signature}\n"
    with _in_memory(keys) as allowed, _in_memory(ended.encode("utf-8", errors="replace")) as signed:
        argv = ["ssh-keygen", "-Y", check, "-f", f"/dev/fd/{allowed}", "-s", f"/dev/fd/{signed}", *options]
        return process.run(argv, text=text, timeout=_TIMEOUT, pass_fds=(allowed, signed))


@contextlib.contextmanager
def _in_memory(content: bytes) -> Iterator[int]:
    """Yield the descriptor of a file in memory with this content; raises ``ProgramError`` without memory."""
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(os.fdopen(os.memfd_create("zkdeployment"), "wb", buffering=0))
            file.write(content)
        except OSError as error:
            raise ProgramError(f"cannot pass keys to ssh-keygen: {error.strerror}") from error
        yield file.fileno()
