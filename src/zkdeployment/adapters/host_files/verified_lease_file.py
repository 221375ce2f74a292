"""The file that records the last verified lease of this host."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.errors import HostFilesError
from zkdeployment.pools.signed_lease import VerifiedLease

if TYPE_CHECKING:
    from pathlib import Path

_LARGEST = 4096


class VerifiedLeaseFile:
    """A file with one JSON object, ``{"number", "digest"}``, replaced atomically and durably.

    A file that cannot be read is an error: without it, old leases could not be told from new ones. The methods
    raise ``HostFilesError``.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def read_lease(self) -> VerifiedLease:
        """Return the last verified lease."""
        try:
            content = durable.read(self._file, _LARGEST)
            value = {} if content is None else json.loads(content)
        except (OSError, ValueError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
            raise HostFilesError(f"cannot read the last verified lease {self._file}: {reason}") from error
        match value:
            case {"number": int(number), "digest": str(digest)}:
                return VerifiedLease(number, digest)
            case _ if content is None:
                return VerifiedLease()
        raise HostFilesError(
            f"{self._file} is damaged: expected a number and a digest; remove it if you trust the present lease"
        )

    def write_lease(self, lease: VerifiedLease) -> None:
        """Record a verified lease."""
        content = json.dumps({"number": lease.number, "digest": lease.digest}).encode("ascii")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            durable.replace(self._file, content)
        except OSError as error:
            raise HostFilesError(f"cannot write {self._file}: {error.strerror}") from error
