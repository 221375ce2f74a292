"""Nodes and sessions are read as they were written."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.pools.node import NodeState, PoolNode
from zkdeployment.pools.pool_json import node_from_json, node_to_json, session_from_json, session_to_json
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
