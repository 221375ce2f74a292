"""Nodes and sessions in the form in which they are stored.

Unknown keys are ignored: processes of a newer version may run beside this one. A process that writes a record
again drops the keys that it does not know.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from zkdeployment.pools.filling_record import FillingRecord
from zkdeployment.pools.node import NodeState, PoolNode
from zkdeployment.pools.tenant_session import LeasedNode, NodesSpec, TenantSession

if TYPE_CHECKING:
    from collections.abc import Mapping


def node_to_json(node: PoolNode) -> dict[str, Any]:
    """Return a node as JSON; what is not set is left out."""
    value = {
        "id": node.id,
        "state": node.state.value,
        "created_at": node.created_at,
        "changed": node.changed,
        "pool": node.pool,
        "session": node.session,
        "hostname": node.hostname,
        "ipaddr": node.ipaddr,
        "comment": node.comment,
        "reusable": node.reusable,
        "host": node.host,
        "retired_at": node.retired_at,
        "data": dict(node.data),
    }
    return {key: item for key, item in value.items() if item is not None}


def node_from_json(value: Mapping[str, Any], stamp: int | None = None) -> PoolNode:
    """Return the node that ``node_to_json`` encoded; raises ``KeyError``, ``TypeError`` or ``ValueError``."""
    return PoolNode(**{**_known(PoolNode, value), "state": NodeState(value["state"])}, stamp=stamp)


def session_to_json(session: TenantSession) -> dict[str, Any]:
    """Return a session as JSON; what is not set is left out."""
    value = {
        "id": session.id,
        "tenant": session.tenant,
        "specs": [{"pool": spec.pool, "quantity": spec.quantity} for spec in session.specs],
        "nodes": list(session.nodes),
        "created_at": session.created_at,
        "expires_at": session.expires_at,
        "retired_at": session.retired_at,
        "leased": [
            {"id": node.id, "pool": node.pool, "hostname": node.hostname, "ipaddr": node.ipaddr}
            for node in session.leased
        ],
        "requested_by": session.requested_by,
        "retired_by": session.retired_by,
        "warned_expiry": session.warned_expiry,
    }
    return {key: item for key, item in value.items() if item is not None}


def session_from_json(value: Mapping[str, Any], stamp: int | None = None) -> TenantSession:
    """Return the session that ``session_to_json`` encoded; raises ``KeyError`` or ``TypeError``."""
    specs = tuple(NodesSpec(**_known(NodesSpec, spec)) for spec in value["specs"])
    leased = tuple(LeasedNode(**_known(LeasedNode, node)) for node in value["leased"])
    known = _known(TenantSession, value)
    return TenantSession(
        **{**known, "specs": specs, "nodes": tuple(value["nodes"]), "leased": leased}, stamp=stamp
    )


def filling_to_json(record: FillingRecord) -> dict[str, Any]:
    """Return the record of a pool's filling as JSON."""
    return {
        "failures": record.failures,
        "last_failure": record.last_failure,
        "reason": record.reason,
        "values": dict(record.values),
    }


def filling_from_json(value: Mapping[str, Any], stamp: int | None = None) -> FillingRecord:
    """Return the record that ``filling_to_json`` encoded; raises ``TypeError``."""
    return FillingRecord(**_known(FillingRecord, value), stamp=stamp)


def _known(
    kind: type[PoolNode | TenantSession | NodesSpec | LeasedNode | FillingRecord], value: Any
) -> dict[str, Any]:
    """Return the values of the fields of a record."""
    names = (field.name for field in fields(kind) if field.name != "stamp")
    return {name: value[name] for name in names if name in value}
