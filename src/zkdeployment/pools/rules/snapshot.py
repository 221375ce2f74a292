"""A snapshot of all pools, the changes of one transaction, and their form in storage.

Processes of a newer version may run beside this one: unknown keys are kept, and written again unchanged.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields, replace
from types import NoneType
from typing import TYPE_CHECKING, Any, cast

from zkdeployment.base.json_values import readable
from zkdeployment.base.public_keys import ssh_keys_problem
from zkdeployment.base.records import no_keys, unknown_keys
from zkdeployment.pools.documents.values import PoolConfiguration
from zkdeployment.pools.rules.node import NodeState, PoolNode, shortened
from zkdeployment.pools.rules.properties import read_properties
from zkdeployment.pools.rules.tenant_session import LATEST, LeasedNode, NodesSpec, TenantSession, wanted_nodes
from zkdeployment.pools.rules.waiting_request import WaitingRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class FillingRecord:
    """The filling of a pool.

    ``failures`` is the number of failures of provisioning in a row, ``last_failure`` the time of the last one in
    seconds since the epoch, and ``reason`` the reason of that failure. ``values`` are the values of the pool when
    it was last filled. They are needed to deprovision nodes when the pool has left the document, or has another
    mechanism there. ``below_since`` is when a worker first found the pool below its level; ``None`` for a pool at
    its level. ``level`` is the level in force of a pool whose level depends on the time. ``stamp`` is the version
    of the record when it was read, ``None`` for a new one; ``unknown`` are the keys of the record that this
    version does not know.
    """

    failures: int = 0
    last_failure: float = 0.0
    reason: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    below_since: float | None = None
    level: int | None = None
    stamp: int | None = field(default=None, compare=False)
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)

    def after_failure(self, reason: str, begun: float, now: float) -> FillingRecord:
        """Return the record after a failure of nodes that were chosen at ``begun``.

        Failures of nodes that were chosen before the last failure belong to the same attempt and are not counted.
        """
        failures = self.failures + (begun >= self.last_failure or not self.failures)
        return replace(self, failures=failures, last_failure=now, reason=shortened(reason))

    def seen_at(self, now: float) -> FillingRecord:
        """Return the record without a failure in the future of this process.

        Such a failure was recorded by a worker whose clock is ahead, and would delay the filling by the
        difference.
        """
        below = None if self.below_since is None else min(self.below_since, now)
        return replace(self, last_failure=min(self.last_failure, now), below_since=below)

    def after_success(self) -> FillingRecord:
        """Return the record after nodes were provisioned, or after an operator requested another attempt."""
        return replace(self, failures=0, last_failure=0.0, reason="")


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
    """Return a node as JSON, without unset values."""
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
    """Return a session as JSON, without unset values."""
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
    """Return a request that waits as JSON, without unset values."""
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
    """Return the values of the fields of a record; the field ``unknown`` gets all other keys."""
    names = {field.name for field in fields(kind)} - {"stamp", "unknown"}
    known = {name: readable(value[name]) for name in names if name in value}
    for name, item in known.items():
        _check(name, item)
    return {**known, "unknown": unknown_keys(value, names)}


def _check(name: str, item: Any) -> None:
    """Raise ``TypeError`` if a field may not have a value, because one bad value would break all lists."""
    is_valid = isinstance(item, _TYPES[name])
    if is_valid and name in _TIMES and item is not None:
        is_valid = 0 <= cast("float", item) <= LATEST
    if is_valid and name == "ssh_key" and item is not None:
        is_valid = ssh_keys_problem(cast("str", item)) is None
    if not is_valid:
        raise TypeError(f"{name} is {ascii(item)[:100]}")


#  The most nodes of a session, a step or a task, because one transaction writes the records of all its nodes.
MOST_NODES = 200


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """The nodes that are not done, and the active sessions, by id.

    ``claimed`` are the ids of the nodes on which any process works, ``own_claims`` those on which this process
    works. ``tenants`` are the versions of the guards of tenants, by id: a guard changes with each session of the
    tenant that begins or ends. ``filling`` has the records about the filling of pools, by name. ``hosts`` are the
    ids of the nodes that are hosts of this fleet, by the ids of the hosts, also of nodes that are done.
    ``workers`` are the names of the workers that run. ``waiting`` are the requests that wait for nodes, and those
    whose wait ended recently, by id.
    """

    nodes: Mapping[int, PoolNode] = field(default_factory=dict)
    sessions: Mapping[int, TenantSession] = field(default_factory=dict)
    claimed: frozenset[int] = frozenset()
    tenants: Mapping[int, int] = field(default_factory=dict)
    own_claims: frozenset[int] = frozenset()
    filling: Mapping[str, FillingRecord] = field(default_factory=dict)
    hosts: Mapping[str, int] = field(default_factory=dict)
    workers: tuple[str, ...] = ()
    waiting: Mapping[int, WaitingRequest] = field(default_factory=dict)

    def held(self, tenant: int) -> int:
        """Return the number of nodes in a tenant's active sessions."""
        return sum(len(session.nodes) for session in self.sessions.values() if session.tenant == tenant)

    def held_by_pool(self, tenant: int) -> Counter[str]:
        """Return the numbers of nodes in a tenant's active sessions, by pool."""
        own = (session for session in self.sessions.values() if session.tenant == tenant)
        return sum((wanted_nodes(session.specs) for session in own), Counter())


@dataclass(frozen=True, slots=True)
class PoolChange:
    """Changes that are written in one transaction.

    ``nodes`` and ``sessions`` are written unchanged; new ones have no stamp. ``deleted`` nodes, which could not be
    made, and ``dropped`` sessions, which did not begin, are removed without a record. ``claimed`` are the ids of
    nodes on which this process begins work, ``released`` those that it has finished. ``filling`` are the new
    records of pools, by name: two processes never fill a pool at the same time, because both write its record.
    ``waiting`` are requests that are written, ``answered`` those whose record is removed.
    """

    nodes: tuple[PoolNode, ...] = ()
    sessions: tuple[TenantSession, ...] = ()
    deleted: tuple[PoolNode, ...] = ()
    dropped: tuple[TenantSession, ...] = ()
    claimed: frozenset[int] = frozenset()
    released: frozenset[int] = frozenset()
    filling: Mapping[str, FillingRecord] = field(default_factory=dict)
    waiting: tuple[WaitingRequest, ...] = ()
    answered: tuple[WaitingRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolHistory:
    """Sessions that ended and nodes that are done, in the order of their ids."""

    sessions: tuple[TenantSession, ...] = ()
    nodes: tuple[PoolNode, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolReading:
    """The published pools and what they hold.

    ``ended`` are the sessions that were active in the reading before this one and have ended since, by id.
    ``tenants`` are the names of all users, by id.
    """

    configuration: PoolConfiguration = PoolConfiguration()  # noqa: RUF009  it cannot be changed
    snapshot: PoolSnapshot = PoolSnapshot()
    ended: Mapping[int, TenantSession] = field(default_factory=dict)
    tenants: Mapping[int, str] = field(default_factory=dict)
