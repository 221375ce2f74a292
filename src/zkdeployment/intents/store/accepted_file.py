"""The file in which a syncer records its acceptances."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from zkdeployment.base.cluster import is_revision
from zkdeployment.base.errors import HostFilesError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import files
from zkdeployment.base.publication import is_sequence
from zkdeployment.intents.rules.approvals import Acceptance, AcceptanceRecord, AcceptedInstance
from zkdeployment.publishing.left_service import left_from_json, left_to_json

if TYPE_CHECKING:
    from pathlib import Path

_LARGEST = 64 << 20


class AcceptedFile:
    """A file with one JSON object, replaced atomically.

    The object has the acceptances with the ``last`` publication, and with the ``coming`` one while that is
    written.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def read_accepted(self) -> AcceptanceRecord | None:
        """Return the record; ``None`` if this syncer never published an intent. A corrupt record is empty."""
        try:
            content = files.read(self._file, _LARGEST)
            if content is None:
                return None
            return _record(json.loads(content))
        except OSError as error:
            return self._unknown(error.strerror)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return self._unknown("not a record of approvals")

    def write_accepted(self, record: AcceptanceRecord) -> None:
        """Replace the record; raises ``HostFilesError``."""
        value = {"last": _to_json(record.last), "coming": _to_json(record.coming)}
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            files.replace(self._file, json.dumps(value, sort_keys=True).encode())
        except OSError as error:
            raise HostFilesError(f"cannot write {self._file}: {error.strerror}") from error

    def _unknown(self, reason: str | None) -> AcceptanceRecord:
        get_logger().warning("host-file-unreadable", file=str(self._file), reason=reason)
        return AcceptanceRecord(Acceptance())


def _to_json(acceptance: Acceptance | None) -> dict[str, Any] | None:
    if acceptance is None:
        return None
    return {
        "approvals": dict(acceptance.approvals),
        "left": None if acceptance.left is None else left_to_json(acceptance.left),
        "revision": acceptance.revision,
        "sequence": acceptance.sequence,
        "instances": {subject: asdict(instance) for subject, instance in acceptance.instances.items()},
    }


def _record(value: Any) -> AcceptanceRecord:
    """Return the record that ``write_accepted`` encoded; raises ``ValueError`` and others for another value."""
    return AcceptanceRecord(_acceptance(value["last"]), _acceptance(value["coming"]))


def _acceptance(value: Any) -> Acceptance | None:
    if value is None:
        return None
    approvals, left = value["approvals"], value["left"]
    revision, sequence = value["revision"], value["sequence"]
    if not all(isinstance(each, str) for each in approvals.values()):
        raise TypeError("expected fingerprints")
    if not (revision is None or is_revision(revision)) or not (sequence == 0 or is_sequence(sequence)):
        raise ValueError("expected a publication")
    instances = {subject: _instance(one) for subject, one in value["instances"].items()}
    return Acceptance(approvals, None if left is None else left_from_json(left), revision, sequence, instances)


def _instance(value: Any) -> AcceptedInstance:
    number, is_running = value["number"], value["is_running"]
    if not (number == 0 or is_sequence(number)) or not isinstance(is_running, bool):
        raise ValueError("expected an instance")
    return AcceptedInstance(number, is_running)
