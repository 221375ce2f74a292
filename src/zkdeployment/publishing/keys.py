"""SSH keys: the list of the publishers' keys, signatures by ``ssh-keygen -Y``, and the syncer's own key."""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConfigurationError, HostFilesError, ProgramError, RefusedError, UntrustedError
from zkdeployment.base.machine import process
from zkdeployment.base.machine.files import check_private
from zkdeployment.base.text import printable
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.signing.statement import NAMESPACE, SignedStatement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from zkdeployment.publishing.settings import SyncSettings

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

    The owner of a key of several names, or of a pattern, has the one given as ``name`` if it matches. Raises
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


#: The first field of a line: names and patterns, separated by commas, in quotation marks if they contain blanks.
_PRINCIPALS = re.compile(r'\s*(?:"([^"]*)"|([^\s#"]\S*))\s')

#: A pattern of names.
_PATTERN = re.compile(r"[*?]")

#: An option of a line in the list: the namespaces of the signatures that the key may make.
#: The namespace of the signatures of leases, so that no signature is valid both for a lease and for a publication.
LEASES = "zkdeployment-lease"

_NAMESPACES = re.compile(r'\s+(?:(?:[^"\s]|"[^"]*")*,)?namespaces="([^"]*)"', re.IGNORECASE)

#: An option of a line in the list: the key signs certificates of keys.
_AUTHORITY = re.compile(r"\bcert-authority\b", re.IGNORECASE)


#: An option of a line in the list: the key is not valid from a date on.
_EXPIRY = re.compile(rb"\bvalid-before=", re.IGNORECASE)

#: Seconds for which a verified statement is not verified again if keys expire.
_KNOWN = 60.0

#: The type and the beginning of a public key.
_PUBLIC_KEY = re.compile(r"\s(?:sk-)?(?:ssh|ecdsa)-\S+\s+AAAA")


@dataclass(frozen=True, slots=True)
class _ListedKey:
    """A line of the list: its names and patterns, without excluded ones, and its options with the key."""

    names: tuple[str, ...]
    key: str

    @property
    def name(self) -> str | None:
        """A name by which signatures of the key are verified; ``None`` if ssh-keygen has to find the name.

        ssh-keygen finds the names of certificates, which name their owners, and of keys for which the file has
        only patterns.
        """
        names = () if _AUTHORITY.search(self.key) else self.names
        return next((name for name in names if not _PATTERN.search(name)), None)

    @property
    def namespaces(self) -> str | None:
        """The patterns of the namespaces of signatures that the key may make; ``None`` without a limit."""
        option = _NAMESPACES.match(self.key)
        return None if option is None else option[1]

    def may_sign(self, namespace: str) -> bool:
        """Whether the key may make signatures of a namespace; patterns match as in ssh-keygen."""
        if self.namespaces is None:
            return True
        patterns = self.namespaces.split(",")
        matching = [each for each in patterns if _matches(each.removeprefix("!"), namespace)]
        return bool(matching) and not any(each.startswith("!") for each in matching)


def check_keys(file: Path, *namespaces: str) -> None:
    """Raise ``ConfigurationError`` if a list of publishers cannot be read or has no key for these namespaces."""
    listed = [each for each in _listed_keys(read_keys(file)) if _PUBLIC_KEY.search(each.key)]
    if not listed:
        raise ConfigurationError(
            f'publishers: there is no key in {file}: expected lines NAME namespaces="{NAMESPACE}" KEYTYPE KEY'
        )
    if not any(each.may_sign(namespace) for each in listed for namespace in namespaces):
        found = dict.fromkeys(f'namespaces="{each.namespaces}"' for each in listed)
        raise ConfigurationError(
            f"publishers: no key in {file} may make the signatures that are verified with it: expected"
            f" {_limits(namespaces)} before a key, found {printable(' and '.join(found))}; correct the list"
        )


def unlimited_keys(file: Path) -> list[str]:
    """Return the names of the keys in a list of publishers that may sign publications and leases alike.

    Empty for an unreadable file, which its reader reports.
    """
    return [each.names[0] for each in _readable_keys(file) if each.namespaces is None]


def useless_keys(file: Path, *namespaces: str) -> list[str]:
    """Return the names of the keys that may not sign for any of these namespaces; empty for an unreadable file."""
    return [
        each.names[0]
        for each in _readable_keys(file)
        if not any(each.may_sign(namespace) for namespace in namespaces)
    ]


def has_key(file: Path, namespace: str) -> bool:
    """Whether a key in a list of publishers may make signatures of a namespace."""
    return any(each.may_sign(namespace) for each in _readable_keys(file))


@dataclass
class PublisherKeysFile:
    """A file in the format of ``ssh-keygen``'s allowed signers, which is read for each verification.

    The last valid statement is remembered with the content of the file, and not verified again, or only after a
    minute if keys expire. ``namespace`` is the namespace of the signatures, and ``refusal`` the message about a
    statement that no key signed.
    """

    file: Path
    namespace: str = NAMESPACE
    refusal: str = "the publication is not signed by one of the publishers of this host"
    _verified: tuple[bytes, SignedStatement] | None = None
    _known_until: float = 0.0  # monotonic

    def verify(self, signed: SignedStatement) -> None:
        keys = self._read()
        now = time.monotonic()
        if self._verified == (keys, signed) and now < self._known_until:
            return
        listed = _listed_keys(keys)
        if not listed:
            raise HostFilesError(f"publishers {self.file} has no keys: expected lines NAME KEYTYPE KEY")
        reasons = []
        for name in sorted(dict.fromkeys(each.name for each in listed), key=lambda name: name is None):
            try:
                verify_text_by(name, keys, self.namespace, signed.text, signed.signature)
            except RefusedError as error:
                reasons.append(str(error))
            except ProgramError as error:
                raise HostFilesError(f"cannot verify signatures: {error}; install ssh-keygen") from error
            else:
                self._verified = keys, signed
                self._known_until = now + _KNOWN if _EXPIRY.search(keys) else math.inf
                return
        raise UntrustedError(f"{self.refusal} ({self.file}): {reasons[0]}")

    def _read(self) -> bytes:
        try:
            return self.file.read_bytes()
        except OSError as error:
            raise HostFilesError(f"cannot read publishers {self.file}: {error.strerror}") from error


def _limits(namespaces: Iterable[str]) -> str:
    return " or ".join(f'namespaces="{namespace}"' for namespace in namespaces)


def _matches(pattern: str, namespace: str) -> bool:
    """Whether a pattern of ssh-keygen, in which only ``*`` and ``?`` are special, matches a whole namespace."""
    special = {"*": ".*", "?": "."}
    expression = "".join(special.get(character) or re.escape(character) for character in pattern)
    return re.fullmatch(expression, namespace) is not None


def _readable_keys(file: Path) -> list[_ListedKey]:
    try:
        return _listed_keys(file.read_bytes())
    except OSError:
        return []


def _listed_keys(keys: bytes) -> list[_ListedKey]:
    """Return the keys of a list, without keys that have no name."""
    listed = []
    for line in keys.decode("utf-8", errors="replace").splitlines():
        if (match := _PRINCIPALS.match(line)) is not None:
            patterns = (match[1] or match[2] or "").split(",")
            names = tuple(name for name in patterns if name and not name.startswith("!"))
            if names:
                listed.append(_ListedKey(names, line[match.end() - 1 :]))
    return listed


#: Seconds for reading the key.

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
