"""The file in which a syncer records its signatures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import is_revision
from zkdeployment.base.errors import HostFilesError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import files
from zkdeployment.base.publication import is_sequence
from zkdeployment.publishing.signing.standing import SigningRecord
from zkdeployment.publishing.signing.statement import is_digest

if TYPE_CHECKING:
    from pathlib import Path

_LARGEST = 4096


class SigningFile:
    """A file with one JSON object, with the values of ``SigningRecord`` as keys, replaced atomically."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read_signed(self) -> SigningRecord:
        """Return the record; an empty one if it is missing or corrupt."""
        try:
            content = files.read(self._file, _LARGEST)
            value = None if content is None else json.loads(content)
        except (OSError, ValueError, RecursionError) as error:
            return self._unknown(error.strerror if isinstance(error, OSError) else "not JSON")
        match value:
            case None:
                return SigningRecord()
            case {"reserved": reserved} if is_sequence(reserved):
                sequence, since, revision, left = map(value.get, ("sequence", "since", "revision", "left"))
                if is_sequence(sequence) and is_sequence(since) and is_revision(revision) and is_digest(left):
                    return SigningRecord(reserved, sequence, since, revision, left)
                return SigningRecord(reserved)
        return self._unknown("not a record of signatures")

    def write_signed(self, record: SigningRecord) -> None:
        """Replace the record; raises ``HostFilesError``."""
        value = {
            "reserved": record.reserved,
            "sequence": record.sequence,
            "since": record.since,
            "revision": record.revision,
            "left": record.left,
        }
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            files.replace(self._file, json.dumps(value).encode())
        except OSError as error:
            raise HostFilesError(f"cannot write {self._file}: {error.strerror}") from error

    def _unknown(self, reason: str | None) -> SigningRecord:
        get_logger().warning("host-file-unreadable", file=str(self._file), reason=reason)
        return SigningRecord()
