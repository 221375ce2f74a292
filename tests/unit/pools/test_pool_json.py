"""Nodes and sessions are read as they were written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.pools.filling_record import FillingRecord
from zkdeployment.pools.node import NodeState, PoolNode
from zkdeployment.pools.pool_json import (
    filling_from_json,
    filling_to_json,
    node_from_json,
    node_to_json,
    session_from_json,
    session_to_json,
)
from zkdeployment.pools.tenant_session import LeasedNode, NodesSpec, TenantSession

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
        host=NAMES,
        retired_at=st.none() | TIMES,
        data=st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2),
    )
)
def test_a_node_is_read_as_it_was_written(node: PoolNode) -> None:
    value: Any = json.loads(json.dumps(node_to_json(node)))
    assert node_from_json(value, 3) == node
    assert node_from_json(value, 3).stamp == 3


@given(
    st.builds(
        TenantSession,
        id=st.integers(1, 99),
        tenant=st.integers(1, 9),
        specs=st.lists(st.builds(NodesSpec, st.text(max_size=3), st.integers(1, 9)), max_size=2).map(tuple),
        nodes=st.lists(st.integers(1, 99), max_size=3).map(tuple),
        created_at=TIMES,
        expires_at=TIMES,
        retired_at=st.none() | TIMES,
        requested_by=NAMES,
        retired_by=NAMES,
        warned_expiry=st.none() | TIMES,
        leased=st.lists(
            st.builds(LeasedNode, st.integers(1, 99), st.text(max_size=3), NAMES, NAMES), max_size=2
        ).map(tuple),
    )
)
def test_a_session_is_read_as_it_was_written(session: TenantSession) -> None:
    value: Any = json.loads(json.dumps(session_to_json(session)))
    assert session_from_json(value) == session


def test_what_a_newer_version_adds_to_records_is_ignored() -> None:
    node = PoolNode(id=1, state=NodeState.READY, created_at=1, changed=2)
    assert node_from_json({**node_to_json(node), "later": [1], "stamp": 9}, 3) == node
    filling = FillingRecord(2, 5.0, "broken", {"flavour": "large"})
    assert filling_from_json({**filling_to_json(filling), "later": [1]}, 3) == filling
    session = TenantSession(
        id=3,
        tenant=1,
        specs=(NodesSpec("web", 1),),
        nodes=(1,),
        created_at=1,
        expires_at=2,
        leased=(LeasedNode(1, "web", "n1", None),),
    )
    value = session_to_json(session)
    value["specs"][0]["later"] = value["leased"][0]["later"] = value["later"] = 1
    assert session_from_json(value) == session


@pytest.mark.parametrize("part", ["web", 3, None, [], {}])
def test_parts_that_are_no_records_are_errors(part: Any) -> None:
    value = {"id": 3, "tenant": 1, "nodes": [1], "created_at": 1, "expires_at": 2}
    with pytest.raises(TypeError):
        session_from_json({**value, "specs": [part], "leased": []})
    with pytest.raises(TypeError):
        session_from_json({**value, "specs": [], "leased": [part]})
