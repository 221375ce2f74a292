"""The key with which the syncer signs publications (a ``PublicationSigner``)."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConfigurationError, ProgramError, RefusedError
from zkdeployment.base.machine import process
from zkdeployment.base.machine.files import check_private
from zkdeployment.publishing.keys.ssh_signatures import sign_text, verify_text_by
from zkdeployment.publishing.signing.statement import NAMESPACE, SignedStatement

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from zkdeployment.publishing.settings import SyncSettings

#: Seconds for reading the key.
_TIMEOUT = 30.0

#: The name of the key in the list of allowed signers that holds this key alone.
_NAME = "publisher"


@dataclass(frozen=True, slots=True)
class _ExpectedSignature:
    """An ssh-keygen that waits for the text to sign."""

    text: Future[str]
    signature: Future[str]


class PublishKey:
    """An SSH private key without a passphrase; raises ``ConfigurationError`` for any other file.

    ``namespace`` is that of the signatures, ``option`` the key in the configuration that names the file.
    """

    def __init__(self, file: Path, namespace: str = NAMESPACE, option: str = "publish-key") -> None:
        self._file = file
        self._namespace = namespace
        self._public = _public_key(file, option)
        self._threads = ThreadPoolExecutor(2, "publish-key")  # an abandoned signature does not delay others
        self._expected: _ExpectedSignature | None = None

    def expect(self) -> None:
        if self._expected is None:
            self._expected = self._begin()

    def abandon(self) -> None:
        expected, self._expected = self._expected, None
        if expected is not None:
            expected.text.cancel()

    def start(self, text: str) -> Callable[[], str]:
        expected, self._expected = self._expected or self._begin(), None
        expected.text.set_result(text)
        return expected.signature.result

    def _begin(self) -> _ExpectedSignature:
        text: Future[str] = Future()
        return _ExpectedSignature(text, self._threads.submit(sign_text, self._file, self._namespace, text.result))

    def made(self, statement: SignedStatement) -> bool:
        keys = f"{_NAME} {self._public}\n".encode()
        try:
            verify_text_by(_NAME, keys, self._namespace, statement.text, statement.signature)
        except RefusedError:
            return False
        return True


def _public_key(file: Path, option: str) -> str:
    """Return the public key of a private key; the empty passphrase prevents a prompt of ssh-keygen."""
    try:
        check_private(file)
        read = process.run(["ssh-keygen", "-y", "-P", "", "-f", str(file)], timeout=_TIMEOUT)
    except (OSError, ProgramError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(f"{option}: cannot read {file}: {reason}") from error
    if read.status:
        reason = read.stderr.strip().rpartition("\n")[2]
        raise ConfigurationError(
            f"{option}: cannot use {file}: expected an SSH private key without a passphrase that only its owner"
            f" can read, found another file ({reason}); make one with 'ssh-keygen -t ed25519 -N \"\" -f FILE'"
        )
    return read.stdout.strip()


def publication_signer(sync: SyncSettings | None) -> PublishKey | None:
    """Return the key that signs publications, ``None`` without one.

    Raises ``ConfigurationError`` unless the file is an SSH private key that can be used.
    """
    key = None if sync is None else sync.publish_key
    return None if key is None else PublishKey(key)
