"""The file of the publishers' keys, which verifies publications (implements ``ports.PublisherKeys``)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zkdeployment.adapters.ssh_signatures import verify_text_by
from zkdeployment.errors import HostFilesError, ProgramError, RefusedError, UntrustedError
from zkdeployment.signing.statement import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zkdeployment.signing.statement import SignedStatement

#: The first field of a line: names and patterns, separated by commas, in quotation marks if they contain blanks.
_PRINCIPALS = re.compile(r'\s*(?:"([^"]*)"|([^\s#"]\S*))\s')


#: An option of a line in the list: the namespaces of the signatures that the key may make.
_NAMESPACES = re.compile(r'\s(?:[^"\s]*,)?namespaces="[^"]+"', re.IGNORECASE)


def unlimited_keys(file: Path) -> list[str]:
    """Return the names of the keys in a list of publishers that may sign publications and leases alike.

    A file that cannot be read has none: its reader reports that.
    """
    try:
        lines = file.read_bytes().splitlines()
    except OSError:
        return []
    return [
        name
        for line in lines
        if not _NAMESPACES.search(line.decode(errors="replace"))
        for name in _principals(line)
    ]


class PublisherKeysFile:
    """A file in the format of ``ssh-keygen``'s allowed signers. It is read for each verification.

    The last statement that was valid is remembered with the content of the file, and not verified again.
    ``namespace`` is that of the signatures, and ``refusal`` the message about a statement that no key signed.
    """

    def __init__(
        self,
        file: Path,
        namespace: str = NAMESPACE,
        refusal: str = "the publication is not signed by one of the publishers of this host",
    ) -> None:
        self._file = file
        self._namespace = namespace
        self._refusal = refusal
        self._verified: tuple[bytes, SignedStatement] | None = None

    def verify(self, signed: SignedStatement) -> None:
        keys = self._read()
        if self._verified == (keys, signed):
            return
        names = list(dict.fromkeys(_principals(keys)))
        if not names:
            raise HostFilesError(f"publishers {self._file} has no keys: expected lines NAME KEYTYPE KEY")
        reasons = []
        for name in names:
            try:
                verify_text_by(name, keys, self._namespace, signed.text, signed.signature)
            except RefusedError as error:
                reasons.append(str(error))
            except ProgramError as error:
                raise HostFilesError(f"cannot verify signatures: {error}; install ssh-keygen") from error
            else:
                self._verified = keys, signed
                return
        raise UntrustedError(f"{self._refusal} ({self._file}): {reasons[0]}")

    def _read(self) -> bytes:
        try:
            return self._file.read_bytes()
        except OSError as error:
            raise HostFilesError(f"cannot read publishers {self._file}: {error.strerror}") from error


def _principals(keys: bytes) -> Iterator[str]:
    """Yield a name for each key: the first pattern of each line, which matches itself."""
    for line in keys.decode("utf-8", errors="replace").splitlines():
        if (match := _PRINCIPALS.match(line)) is not None:
            names = [name for name in (match[1] or match[2] or "").split(",") if name and not name.startswith("!")]
            yield from names[:1]
