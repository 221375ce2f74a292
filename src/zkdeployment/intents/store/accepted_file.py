"""The file in which a syncer records its acceptances."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from zkdeployment.base.cluster import is_revision
from zkdeployment.base.machine.files import JsonFile, log_damage
from zkdeployment.base.publication import is_sequence
from zkdeployment.intents.rules.approvals import Acceptance, AcceptanceRecord, AcceptedInstance
from zkdeployment.publishing.left_service import LeftService

if TYPE_CHECKING:
    from pathlib import Path

_LARGEST = 64 << 20


def accepted_file(file: Path) -> JsonFile[AcceptanceRecord]:
    """Return the file with the forms that were accepted with the ``last`` publication and with the ``coming`` one.

    The latter is written at that moment. A damaged file is logged, and has accepted nothing. Without a file, the
    syncer never published an intent.
    """
    return JsonFile(
        file, _record, _record_to_json, expected="a record of approvals", limit=_LARGEST, damaged=_accept_nothing
    )


def _accept_nothing(file: Path, reason: str) -> AcceptanceRecord:
    log_damage(file, reason)
    return AcceptanceRecord(Acceptance())


def _record_to_json(record: AcceptanceRecord) -> dict[str, Any]:
    return {"last": _to_json(record.last), "coming": _to_json(record.coming)}


def _to_json(acceptance: Acceptance | None) -> dict[str, Any] | None:
    if acceptance is None:
        return None
    return {
        "approvals": dict(acceptance.approvals),
        "left": None if acceptance.left is None else [one.to_json() for one in acceptance.left],
        "revision": acceptance.revision,
        "sequence": acceptance.sequence,
        "instances": {subject: asdict(instance) for subject, instance in acceptance.instances.items()},
    }


def _record(value: Any) -> AcceptanceRecord:
    """Return the record of JSON; raises ``ValueError`` and others for another value."""
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
    return Acceptance(
        approvals, None if left is None else tuple(map(LeftService.from_json, left)), revision, sequence, instances
    )


def _instance(value: Any) -> AcceptedInstance:
    number, is_running = value["number"], value["is_running"]
    if not (number == 0 or is_sequence(number)) or not isinstance(is_running, bool):
        raise ValueError("expected an instance")
    return AcceptedInstance(number, is_running)
