"""The record of the forms that a syncer accepted: valid and damaged records."""

from __future__ import annotations

import json

import pytest

from zkdeployment.base.publication import LeftService
from zkdeployment.intents.daemon import accepted_file
from zkdeployment.intents.rules.approvals import NOTHING_ACCEPTED, Acceptance, AcceptanceRecord, AcceptedInstance

LEFT = (LeftService("/a", None, ("p", "s", "v", "g"), "r1", "sha256:1"), LeftService("/b", "h1", ("p", "c"), "r1"))
INSTANCES = {"shop": AcceptedInstance(3, is_running=True), "old": AcceptedInstance(0, is_running=False)}
LAST = Acceptance({"shop": "a"}, (), "r1", 6, {})
COMING = AcceptanceRecord(LAST, Acceptance({"shop": "b"}, LEFT, "r2", 7, INSTANCES))


def test_a_record_is_read_back_unchanged(tmp_path):
    file = accepted_file(tmp_path / "mirror" / ".tree.accepted")
    assert file.load() is None
    for record in (
        COMING,
        AcceptanceRecord(None, Acceptance({}, (), 1, 1, {})),
        AcceptanceRecord(COMING.coming, None),
    ):
        file.save(record)
        assert file.load() == record


@pytest.mark.parametrize(
    "damage",
    [
        {"approvals": {"shop": 1}},
        {"approvals": None},
        {"left": 1},
        {"left": [{"path": "/a"}]},
        {"revision": []},
        {"sequence": "7"},
        {"instances": {"shop": {"number": "3", "is_running": True}}},
    ],
)
def test_a_damaged_record_accepts_nothing(tmp_path, damage):
    path = tmp_path / ".tree.accepted"
    file = accepted_file(path)
    file.save(COMING)
    value = json.loads(path.read_text())
    path.write_text(json.dumps(value | {"coming": value["coming"] | damage}))
    assert file.load() == AcceptanceRecord(NOTHING_ACCEPTED, None)


@pytest.mark.parametrize("key", ["approvals", "left", "revision", "sequence", "instances"])
def test_a_record_without_one_of_its_keys_accepts_nothing(tmp_path, key):
    path = tmp_path / ".tree.accepted"
    file = accepted_file(path)
    file.save(COMING)
    value = json.loads(path.read_text())
    del value["coming"][key]
    path.write_text(json.dumps(value))
    assert file.load() == AcceptanceRecord(NOTHING_ACCEPTED, None)


@pytest.mark.parametrize("content", ["[]", "7", "{", "{}", '{"shop": "a"}', '{"last": null}'])
def test_a_file_with_other_content_accepts_no_document(tmp_path, content):
    path = tmp_path / ".tree.accepted"
    path.write_text(content)
    assert accepted_file(path).load() == AcceptanceRecord(NOTHING_ACCEPTED, None)
