"""The history of an intent: its instances, also of documents that were removed."""

import json
from dataclasses import replace

import pytest

from support.intents import GROUP, begun, recorded
from zkdeployment.base.errors import NotFoundError, RefusedError
from zkdeployment.intents.documents.values import IntentState
from zkdeployment.intents.rules.instances import (
    KEPT_INSTANCES,
    InstanceEvent,
    InstanceEventKind,
    InstanceHistory,
    approved_event,
    history_from_json,
    intent_history,
    merged_history,
)

EVENT = InstanceEvent(
    InstanceEventKind.INSTANTIATED, 7, 7.0, "ann", "r7", "go", "sha256:1", "jane", "reviewed", True
)
OLD = InstanceHistory(5, 500.0, 900.0, "ann", (EVENT,))


def test_the_history_has_the_instances_of_the_record_and_of_removed_documents_newest_first():
    record = recorded(GROUP, IntentState.INSTANTIATED, replace(begun(7), events=(EVENT,)))
    found = intent_history(GROUP.subject, record, [OLD])
    assert [(one.id, one.events) for one in found] == [(7, (EVENT,)), (5, (EVENT,))]
    assert intent_history(GROUP.subject, None, [OLD]) == (OLD,)
    assert intent_history(GROUP.subject, recorded(GROUP, IntentState.CREATED), ()) == ()
    with pytest.raises(NotFoundError, match="no publication has an intent p1/store/v1/shop, and none had one"):
        intent_history(GROUP.subject, None, ())


def test_the_history_is_bounded_and_omits_damaged_events():
    many = [replace(OLD, id=number) for number in range(1, KEPT_INSTANCES + 6)]
    assert [one.id for one in merged_history(many, [replace(OLD, id=3)])] == list(range(6, KEPT_INSTANCES + 6))
    written = json.loads(json.dumps([OLD.to_json(), {"id": 1}, 7, OLD.to_json() | {"terminated": "x"}]))
    assert (history_from_json(written), history_from_json({"a": 1})) == ((OLD,), ())


def test_a_rollback_needs_a_recorded_and_approved_content():
    ended = replace(EVENT, kind=InstanceEventKind.TERMINATED, content="sha256:2")
    updated = replace(EVENT, kind=InstanceEventKind.UPDATED, content="sha256:3")
    assert approved_event(7, (EVENT, updated, ended)) == updated
    with pytest.raises(RefusedError, match="nothing is known of the content of instance 7"):
        approved_event(7, ())
    with pytest.raises(RefusedError, match="the content of instance 7 was never approved"):
        approved_event(7, (replace(EVENT, approved_by=None),))
