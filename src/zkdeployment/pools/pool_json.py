"""Nodes, sessions and requests in the form in which they are stored.

Processes of a newer version may run beside this one: unknown keys are kept, and written again unchanged.
"""

from __future__ import annotations

from dataclasses import fields
from types import NoneType
from typing import TYPE_CHECKING, Any, cast

from zkdeployment.json_bounds import readable
from zkdeployment.pools.filling_record import FillingRecord
from zkdeployment.pools.node import NodeState, PoolNode
from zkdeployment.pools.public_keys import ssh_keys_problem
from zkdeployment.pools.requests.properties import read_properties
from zkdeployment.pools.requests.waiting_request import WaitingRequest
from zkdeployment.pools.tenant_session import LATEST, LeasedNode, NodesSpec, TenantSession
from zkdeployment.unknown_keys import unknown_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_TEXT = (str, NoneType)
_TIME = (int, float)

_OPTIONAL_TIMES = (
    "retired_at",
    "warned_expiry",
    "below_since",
    "requested_at",
    "begun_at",
    "waiting_until",
    "ended_at",
)

#: The types that the fields of all records have in JSON, by name.
_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("id", "tenant", "quantity", "failures"), (int,)),
    **dict.fromkeys(("state", "reason"), (str,)),
    **dict.fromkeys(
        ("pool", "hostname", "ipaddr", "comment", "host", "requested_by", "retired_by", "ssh_key", "outcome"),
        _TEXT,
    ),
    **dict.fromkeys(("created_at", "changed", "expires_at", "last_failure"), _TIME),
    **dict.fromkeys(_OPTIONAL_TIMES, (*_TIME, NoneType)),
    **dict.fromkeys(("specs", "nodes", "leased", "keys", "properties"), (list,)),
    **dict.fromkeys(("data", "values"), (dict,)),
    **dict.fromkeys(("session", "level"), (int, NoneType)),
    **dict.fromkeys(("reusable", "revoked", "begun"), (bool,)),
}

_TIMES = frozenset({"created_at", "changed", "expires_at", "last_failure", *_OPTIONAL_TIMES})


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
        "revoked": node.revoked or None,
        "begun": node.begun or None,
        "host": node.host,
        "keys": list(node.keys) or None,
        "retired_at": node.retired_at,
        "data": dict(node.data),
    }
    return {**node.unknown, **_set(value)}


def node_from_json(value: Mapping[str, Any], stamp: int | None = None) -> PoolNode:
    """Return the node that ``node_to_json`` encoded; raises ``KeyError``, ``TypeError`` or ``ValueError``."""
    keys = tuple(str(key) for key in value.get("keys", ()))
    return PoolNode(**{**_known(PoolNode, value), "state": NodeState(value["state"]), "keys": keys}, stamp=stamp)


def session_to_json(session: TenantSession) -> dict[str, Any]:
    """Return a session as JSON; what is not set is left out."""
    value = {
        "id": session.id,
        "tenant": session.tenant,
        "specs": _specs_to_json(session.specs),
        "nodes": list(session.nodes),
        "created_at": session.created_at,
        "expires_at": session.expires_at,
        "retired_at": session.retired_at,
        "leased": [
            {
                **node.unknown,
                "id": node.id,
                "pool": node.pool,
                "hostname": node.hostname,
                "ipaddr": node.ipaddr,
            }
            for node in session.leased
        ],
        "requested_by": session.requested_by,
        "retired_by": session.retired_by,
        "warned_expiry": session.warned_expiry,
        "ssh_key": session.ssh_key,
        "requested_at": session.requested_at,
        "begun_at": session.begun_at,
        "waiting_until": session.waiting_until,
        "failures": session.failures or None,
    }
    return {**session.unknown, **_set(value)}


def session_from_json(value: Mapping[str, Any], stamp: int | None = None) -> TenantSession:
    """Return the session that ``session_to_json`` encoded; raises as ``node_from_json`` does."""
    leased = tuple(LeasedNode(**_known(LeasedNode, node)) for node in value["leased"])
    known = _known(TenantSession, value)
    return TenantSession(
        **{**known, "specs": _specs(value), "nodes": tuple(map(int, value["nodes"])), "leased": leased},
        stamp=stamp,
    )


def request_to_json(request: WaitingRequest) -> dict[str, Any]:
    """Return a request that waits as JSON; what is not set is left out."""
    value = {
        "id": request.id,
        "tenant": request.tenant,
        "specs": _specs_to_json(request.specs),
        "created_at": request.created_at,
        "expires_at": request.expires_at,
        "requested_by": request.requested_by,
        "ssh_key": request.ssh_key,
        "failures": request.failures or None,
        "ended_at": request.ended_at,
        "outcome": request.outcome,
    }
    return {**request.unknown, **_set(value)}


def request_from_json(value: Mapping[str, Any], stamp: int | None = None) -> WaitingRequest:
    """Return the request that ``request_to_json`` encoded; raises ``KeyError`` or ``TypeError``."""
    return WaitingRequest(**{**_known(WaitingRequest, value), "specs": _specs(value)}, stamp=stamp)


def _specs_to_json(specs: Iterable[NodesSpec]) -> list[dict[str, Any]]:
    return [
        {
            **spec.unknown,
            "pool": spec.pool,
            "quantity": spec.quantity,
            **({"properties": [*map(str, spec.properties)]} if spec.properties else {}),
        }
        for spec in specs
    ]


def _specs(value: Mapping[str, Any]) -> tuple[NodesSpec, ...]:
    return tuple(map(_spec, value["specs"]))


def _spec(value: Any) -> NodesSpec:
    known = _known(NodesSpec, value)
    return NodesSpec(**{**known, "properties": read_properties(known.get("properties", ()))})


def filling_to_json(record: FillingRecord) -> dict[str, Any]:
    """Return the record of a pool's filling as JSON."""
    return {
        **record.unknown,
        "failures": record.failures,
        "last_failure": record.last_failure,
        "reason": record.reason,
        "values": dict(record.values),
        **({} if record.below_since is None else {"below_since": record.below_since}),
        **({} if record.level is None else {"level": record.level}),
    }


def filling_from_json(value: Mapping[str, Any], stamp: int | None = None) -> FillingRecord:
    """Return the record that ``filling_to_json`` encoded; raises ``TypeError``."""
    return FillingRecord(**_known(FillingRecord, value), stamp=stamp)


def _set(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if item is not None}


def _known(
    kind: type[PoolNode | TenantSession | NodesSpec | LeasedNode | FillingRecord | WaitingRequest], value: Any
) -> dict[str, Any]:
    """Return the values of the fields of a record, of which one has the keys that no field has."""
    names = {field.name for field in fields(kind)} - {"stamp", "unknown"}
    known = {name: readable(value[name]) for name in names if name in value}
    for name, item in known.items():
        _check(name, item)
    return {**known, "unknown": unknown_keys(value, names)}


def _check(name: str, item: Any) -> None:
    """Raise ``TypeError`` unless a record may have a value in a field: one bad value would break all lists."""
    is_valid = isinstance(item, _TYPES[name])
    if is_valid and name in _TIMES and item is not None:
        is_valid = 0 <= cast("float", item) <= LATEST
    if is_valid and name == "ssh_key" and item is not None:
        is_valid = ssh_keys_problem(cast("str", item)) is None
    if not is_valid:
        raise TypeError(f"{name} is {ascii(item)[:100]}")
