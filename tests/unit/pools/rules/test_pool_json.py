"""Nodes and sessions are decoded unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.pools.rules.node import NodeEvent, NodeState, PoolNode
from zkdeployment.pools.rules.snapshot import (
    FillingRecord,
    LeasedNode,
    NodesSpec,
    SessionRequest,
    TenantSession,
    read_properties,
)
from zkdeployment.pools.store.store import decode_record
from zkdeployment.zookeeper.nodes import Node, pack

PROPERTIES = st.sampled_from([(), read_properties(["arch=x86_64", "memory>=16"])])
TIMES = st.floats(0, 1e10)
NAMES = st.none() | st.text(max_size=5)


@given(
    st.builds(
        PoolNode,
        id=st.integers(1, 99),
        state=st.sampled_from(NodeState),
        created_at=TIMES,
        changed=TIMES,
        pool=NAMES,
        session=st.none() | st.integers(1, 99),
        hostname=NAMES,
        ipaddr=NAMES,
        comment=NAMES,
        reusable=st.booleans(),
        revoked=st.booleans(),
        begun=st.booleans(),
        host=NAMES,
        retired_at=st.none() | TIMES,
        data=st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2),
    )
)
def test_a_node_is_read_back_unchanged(node: PoolNode) -> None:
    value: Any = json.loads(json.dumps(node.to_json()))
    assert PoolNode.from_json(value, stamp=3) == node
    assert PoolNode.from_json(value, stamp=3).stamp == 3


@given(
    st.builds(
        TenantSession,
        id=st.integers(1, 99),
        tenant=st.integers(1, 9),
        specs=st.lists(st.builds(NodesSpec, st.text(max_size=3), st.integers(1, 9), PROPERTIES), max_size=2).map(
            tuple
        ),
        nodes=st.lists(st.integers(1, 99), max_size=3).map(tuple),
        created_at=TIMES,
        expires_at=TIMES,
        retired_at=st.none() | TIMES,
        requested_by=NAMES,
        retired_by=NAMES,
        warned_expiry=st.none() | TIMES,
        requested_at=st.none() | TIMES,
        begun_at=st.none() | TIMES,
        ssh_key=st.sampled_from([None, f"ssh-ed25519 {'A' * 68}", f"ssh-rsa {'B' * 99}\nssh-ed25519 {'A' * 68}"]),
        leased=st.lists(
            st.builds(LeasedNode, st.integers(1, 99), st.text(max_size=3), NAMES, NAMES), max_size=2
        ).map(tuple),
    )
)
def test_a_session_is_read_back_unchanged(session: TenantSession) -> None:
    value: Any = json.loads(json.dumps(session.to_json()))
    assert TenantSession.from_json(value) == session


def test_additions_of_a_newer_version_to_records_are_written_again() -> None:
    node = PoolNode(id=1, state=NodeState.READY, created_at=1, changed=2)
    stored = {**node.to_json(), "later": [1], "stamp": 9}
    read = PoolNode.from_json(stored, stamp=3)
    assert read == node
    assert read.to_json() == stored
    assert read.after(NodeEvent.RESERVED, 3, session=2).to_json()["later"] == [1]
    filling = FillingRecord(2, 5.0, "broken", {"flavour": "large"}, 4.0)
    stored = {**filling.to_json(), "later": [1]}
    assert FillingRecord.from_json(stored, stamp=3) == filling
    assert FillingRecord.from_json(stored, stamp=3).after_success().to_json()["later"] == [1]
    session = TenantSession(
        id=3,
        tenant=1,
        specs=(NodesSpec("web", 1),),
        nodes=(1,),
        created_at=1,
        expires_at=2,
        leased=(LeasedNode(1, "web", "n1", None),),
    )
    value = session.to_json()
    value["specs"][0]["later"] = value["leased"][0]["later"] = value["later"] = 1
    assert TenantSession.from_json(value) == session
    assert TenantSession.from_json(value).to_json() == value


@pytest.mark.parametrize("part", ["web", 3, None, [], {}])
def test_parts_that_are_not_records_are_errors(part: Any) -> None:
    value = {"id": 3, "tenant": 1, "nodes": [1], "created_at": 1, "expires_at": 2}
    with pytest.raises(ValueError, match="specs: "):
        TenantSession.from_json({**value, "specs": [part], "leased": []})
    with pytest.raises(ValueError, match="leased: "):
        TenantSession.from_json({**value, "specs": [], "leased": [part]})


@pytest.mark.parametrize(
    "fields",
    [
        {"hostname": 7},
        {"created_at": 1e300},
        {"created_at": -1.0},
        {"created_at": "yesterday"},
        {"data": [1]},
        {"pool": ["web"]},
        {"retired_at": {}},
        {"reusable": "no"},
        {"session": "x"},
    ],
)
def test_a_node_with_a_value_of_another_type_is_damaged(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        PoolNode.from_json({"id": 1, "state": "unused", "created_at": 1, "changed": 1, **fields})


@pytest.mark.parametrize(
    "fields", [{"expires_at": 1e300}, {"expires_at": "never"}, {"nodes": [{}]}, {"tenant": None}, {"specs": [7]}]
)
def test_a_session_with_a_value_of_another_type_is_damaged(fields: dict[str, Any]) -> None:
    session = {"id": 1, "tenant": 1, "specs": [], "nodes": [], "leased": [], "created_at": 1, "expires_at": 2}
    with pytest.raises(ValueError, match="expected"):
        TenantSession.from_json({**session, **fields})


def test_records_beyond_the_bounds_of_json_are_readable() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    value = {"id": 1, "state": "unused", "created_at": 1, "changed": 1, "comment": "a\ud800", "data": {"a": deep}}
    node = decode_record("/nodes/1", Node(pack(value), 3, 0, 0, 0, 0, 0.0, 0.0), PoolNode, stamp=3)
    assert node is not None
    assert (node.comment, node.stamp) == ("a?", 3)
    assert json.dumps(node.data).count("[") < 40


@pytest.mark.parametrize("keys", ["", 7, ["ssh-ed25519"], f'command="id" ssh-ed25519 {"A" * 68}'])
def test_a_session_whose_keys_are_not_public_keys_is_an_error(keys: Any) -> None:
    value = {"id": 3, "tenant": 1, "nodes": [], "created_at": 1, "expires_at": 2, "specs": [], "leased": []}
    with pytest.raises(ValueError, match="ssh_key: expected public keys"):
        TenantSession.from_json({**value, "ssh_key": keys})


@given(
    st.builds(
        SessionRequest,
        id=st.integers(1, 99),
        tenant=st.integers(1, 99),
        specs=st.lists(st.builds(NodesSpec, st.text(max_size=5), st.integers(1, 9))).map(tuple),
        created_at=TIMES,
        expires_at=TIMES,
        requested_by=NAMES,
        failures=st.integers(0, 3),
        ended_at=st.none() | TIMES,
        outcome=NAMES,
    )
)
def test_waiting_requests_are_read_as_they_were_written(request: SessionRequest) -> None:
    written = json.loads(json.dumps({**request.to_json(), "later": 1}))
    read = SessionRequest.from_json(written, stamp=4)
    assert (read, read.stamp) == (request, 4)
    assert read.to_json() == written
    with pytest.raises(ValueError, match="expected"):
        SessionRequest.from_json({**written, "outcome": 1})
