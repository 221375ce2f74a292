"""The record of accepted approvals: what is read back, and what counts as damaged."""

from __future__ import annotations

import json

import pytest

from zkdeployment.adapters.host_files.accepted_file import AcceptedFile
from zkdeployment.intents.approvals import NOTHING_ACCEPTED, AcceptanceRecord

COMING = AcceptanceRecord({"shop": "a"}, {"shop": "b"}, "r2", 7)


def test_a_record_is_read_as_it_was_written(tmp_path):
    file = AcceptedFile(tmp_path / "mirror" / ".tree.accepted")
    assert file.read_accepted() is None
    for record in (
        COMING,
        AcceptanceRecord(None, {}, "r1", 1),
        AcceptanceRecord(NOTHING_ACCEPTED, {"shop": "b"}, 1, 1),
        AcceptanceRecord({"shop": "b"}),
    ):
        file.write_accepted(record)
        assert file.read_accepted() == record


@pytest.mark.parametrize(
    "damage", [{"accepted": {"shop": 1}}, {"coming": None}, {"revision": None}, {"sequence": "7"}, {"more": 1}]
)
def test_a_damaged_record_accepts_nothing(tmp_path, damage):
    path = tmp_path / ".tree.accepted"
    file = AcceptedFile(path)
    file.write_accepted(COMING)
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    assert file.read_accepted() == AcceptanceRecord(NOTHING_ACCEPTED)
