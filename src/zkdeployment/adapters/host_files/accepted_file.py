"""The file in which a syncer records what it accepted of intents (implements ``ports.memory.ApprovalMemory``)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.errors import HostFilesError
from zkdeployment.intents.approvals import NOTHING_ACCEPTED, AcceptanceRecord
from zkdeployment.log import get_logger
from zkdeployment.model.cluster import is_revision
from zkdeployment.model.publication import is_sequence

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LARGEST = 64 << 20


class AcceptedFile:
    """A file with one JSON object, replaced atomically.

    The object has fingerprints by subject. While a publication is being written, it has two such objects instead,
    ``accepted`` and ``coming``, and the ``revision`` and the ``sequence`` of the publication.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def read_accepted(self) -> AcceptanceRecord | None:
        try:
            content = durable.read(self._file, _LARGEST)
            value = None if content is None else json.loads(content)
        except (OSError, ValueError, RecursionError) as error:
            return self._unknown(error.strerror if isinstance(error, OSError) else "not JSON")
        if content is None:
            return None
        if _are_fingerprints(value):
            return AcceptanceRecord(value)
        return _coming_record(value) or self._unknown("not a record of approvals")

    def write_accepted(self, record: AcceptanceRecord) -> None:
        accepted = None if record.accepted is None else dict(record.accepted)
        value: Mapping[str, object] | None = accepted
        if record.coming is not None:
            coming, revision = dict(record.coming), record.revision
            value = {"accepted": accepted, "coming": coming, "revision": revision, "sequence": record.sequence}
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            durable.replace(self._file, json.dumps(value, sort_keys=True).encode())
        except OSError as error:
            raise HostFilesError(f"cannot write {self._file}: {error.strerror}") from error

    def _unknown(self, reason: str | None) -> AcceptanceRecord:
        get_logger().warning("host-file-unreadable", file=str(self._file), reason=reason)
        return AcceptanceRecord(NOTHING_ACCEPTED)


def _coming_record(value: object) -> AcceptanceRecord | None:
    """Return the record in the file while a publication is being written; ``None`` for another value."""
    if not isinstance(value, dict) or value.keys() != {"accepted", "coming", "revision", "sequence"}:
        return None
    accepted, coming, revision, sequence = (value[key] for key in ("accepted", "coming", "revision", "sequence"))
    are_approvals = (accepted is None or _are_fingerprints(accepted)) and _are_fingerprints(coming)
    if not are_approvals or not is_revision(revision) or not is_sequence(sequence):
        return None
    return AcceptanceRecord(accepted, coming, revision, sequence)


def _are_fingerprints(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
