"""Sessions of tenants, the requests before them, a snapshot of all pools, and the changes of one transaction."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

from zkdeployment.base.durations import seconds_ahead
from zkdeployment.base.machine.public_keys import split_ssh_keys, ssh_keys_problem
from zkdeployment.base.records import APART, OMITTED, Key, Record, invalid, no_keys
from zkdeployment.base.text import printable
from zkdeployment.base.values import dataclass
from zkdeployment.pools.documents import PoolConfiguration
from zkdeployment.pools.rules.node import (
    LATEST,
    PASSING_DATA,
    NodeEvent,
    NodeState,
    OptionalTime,
    PoolNode,
    Time,
    shortened,
)

if TYPE_CHECKING:
    from zkdeployment.service.users.user import TenantLimits, User


PropertyValue: TypeAlias = "str | int | float | bool"

#: The most properties in one part of a request.
MOST_PROPERTIES = 20

_WRITTEN = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_.-]{0,99})(?P<relation>>=|<=|=)(?P<value>[^\s\x00-\x1f].{0,199})"
)
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,9})?", re.ASCII)

#: The states of nodes whose properties are not known yet.
_UNKNOWN = frozenset({NodeState.UNUSED, NodeState.PROVISIONING})

#: The most values, and names of properties, that a message lists.
_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class NodeProperty:
    """A demand on a node: the name of a property, ``=``, ``>=`` or ``<=``, and a value in its written form."""

    name: str
    relation: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}{self.relation}{self.value}"

    def accepts(self, found: PropertyValue) -> bool:
        """Whether a node with this value meets the demand; texts that are numbers count as numbers for bounds."""
        if self.relation == "=":
            return self.value == _text(found) or _are_equal_numbers(self.value, found)
        bound, number = _number(self.value), _number(_text(found))
        if bound is None or number is None:
            return False
        return number >= bound if self.relation == ">=" else number <= bound


def read_property(text: str) -> NodeProperty:
    """Parse a demand, such as ``arch=x86_64`` or ``memory>=16``; raises ``ValueError``."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise ValueError(f"expected NAME=VALUE, NAME>=NUMBER or NAME<=NUMBER such as memory>=16, found {text!a}")
    if match["relation"] != "=" and _number(match["value"]) is None:
        raise ValueError(f"expected a number after {match['relation']} in {text!a}, found {match['value']!a}")
    return NodeProperty(match["name"], match["relation"], match["value"])


def read_properties(texts: Sequence[str]) -> tuple[NodeProperty, ...]:
    """Parse demands; raises ``ValueError``, also for too many demands."""
    if len(texts) > MOST_PROPERTIES:
        raise ValueError(f"expected at most {MOST_PROPERTIES} properties, found {len(texts)}")
    return tuple(map(read_property, texts))


def node_properties(node: PoolNode) -> Mapping[str, PropertyValue]:
    """Return the properties of a node.

    Properties are its ``hostname``, ``ipaddr`` and ``host``, the values in its data, and the result of
    provisioning; later sources override earlier ones. Lists and objects are not properties.
    """
    provision = node.data.get("provision")
    found = {
        "hostname": node.hostname,
        "ipaddr": node.ipaddr,
        "host": node.host,
        **{name: value for name, value in node.data.items() if name not in PASSING_DATA},
        **(provision if isinstance(provision, Mapping) else {}),
    }
    return {name: value for name, value in found.items() if isinstance(value, str | int | float)}


def meets(node: PoolNode, properties: Sequence[NodeProperty]) -> bool:
    """Whether a node meets all demands."""
    return not properties or _have(node_properties(node), properties)


def _have(found: Mapping[str, PropertyValue], properties: Sequence[NodeProperty]) -> bool:
    return all(wanted.name in found and wanted.accepts(found[wanted.name]) for wanted in properties)


def unknown_property(pool: str, properties: Iterable[NodeProperty], nodes: Iterable[PoolNode]) -> str | None:
    """Return the demanded property that no node of a pool has, with the existing ones; ``None``: all are known."""
    known = _known(pool, nodes)
    names = sorted({name for found in known for name in found})
    for wanted in properties:
        if known and wanted.name not in names:
            shown = _listed(names)
            return f"no node of the pool {pool} has the property {wanted.name!a}; the properties are: {shown}"
    return None


def unmet_demand(spec: NodesSpec, nodes: Collection[PoolNode]) -> str | None:
    """Return why too few nodes of a pool meet all demands of a part of a request; ``None`` if enough do.

    Nodes that are being provisioned may meet the demands, if any other node does.
    """
    known = _known(spec.pool, nodes)
    if not known or not spec.properties:
        return None
    for wanted in spec.properties:
        values = [found[wanted.name] for found in known if wanted.name in found]
        if not any(map(wanted.accepts, values)):
            shown = _listed(sorted({_text(value) for value in values}))
            return f"no node of the pool {spec.pool} has {wanted}; found: {shown}"
    fitting = sum(_have(found, spec.properties) for found in known)
    coming = sum(node.pool == spec.pool and node.state is NodeState.PROVISIONING for node in nodes)
    if fitting and fitting + coming >= spec.quantity:
        return None
    return f"{spec} requested, but the pool has {fitting} in all; request fewer nodes, or other properties"


def _known(pool: str, nodes: Iterable[PoolNode]) -> list[Mapping[str, PropertyValue]]:
    return [node_properties(node) for node in nodes if node.pool == pool and node.state not in _UNKNOWN]


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _MOST_SHOWN} more" if len(texts) > _MOST_SHOWN else ""
    return ", ".join(printable(text)[:100] for text in texts[:_MOST_SHOWN]) + more


def _text(value: PropertyValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


def _are_equal_numbers(text: str, found: PropertyValue) -> bool:
    """Whether a number in text form equals a found number; a found text is never a number."""
    return not isinstance(found, str | bool) and _number(text) == found


def _written(properties: Iterable[NodeProperty]) -> list[str]:
    return [*map(str, properties)]


def _public_keys(value: Any) -> str | None:
    """Return public keys that were stored; others would break all lists, and must not reach any node."""
    if value is None or (isinstance(value, str) and ssh_keys_problem(value) is None):
        return value
    raise invalid("public keys", value)


#: Public keys, one in each line.
PublicKeys: TypeAlias = Annotated[str | None, Key(read=_public_keys)]


@dataclass(frozen=True, slots=True)
class NodesSpec(Record):
    """A part of a request: a number of nodes of one pool that have all ``properties``."""

    pool: str
    quantity: int
    properties: Annotated[
        tuple[NodeProperty, ...], Key(omit=True, read=read_properties, write=_written, form=tuple[str, ...])
    ] = ()
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)

    def __str__(self) -> str:
        demands = " and ".join(map(str, self.properties))
        return f"{self.quantity} of {self.pool}" + (f" with {demands}" if demands else "")


def wanted_nodes(specs: Iterable[NodesSpec]) -> Counter[str]:
    """Return the number of nodes by pool; a pool may be named more than once."""
    wanted: Counter[str] = Counter()
    for spec in specs:
        wanted[spec.pool] += spec.quantity
    return wanted


@dataclass(frozen=True, slots=True)
class LeasedNode(Record):
    """The state of a node when a session reserved it; the node itself may get another name later."""

    id: int
    pool: str
    hostname: str | None = None
    ipaddr: str | None = None
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSession(Record):
    """The nodes that a tenant has leased by one request.

    ``tenant`` is the id of the user. ``leased`` records the nodes at the beginning. Times are in seconds since the
    epoch; ``retired_at`` is ``None`` while the session is active. ``requested_at`` is the time of the request, and
    ``begun_at`` the time when all nodes had the tenant's key; ``None``: not recorded, or not yet. ``requested_by``
    and ``retired_by`` are users of the service or operators (``USER@HOST``); ``retired_by`` is ``None`` after an
    expiry. ``warned_expiry`` is the expiry of which the tenant was warned last. ``ssh_key`` are the public keys
    that the nodes admit instead of the tenant's, one in each line; ``None``: the tenant's. ``waiting_until`` is
    the time until which the request could wait for nodes (``None``: not at all), ``failures`` the number of its
    earlier sessions whose nodes could not be prepared. ``stamp`` is the version of the session when it was read,
    ``None`` for a new one. ``unknown`` are the keys of the record that this version does not know.
    """

    omits_unset: ClassVar[bool] = True
    id: int
    tenant: int
    specs: tuple[NodesSpec, ...]
    nodes: tuple[int, ...]
    created_at: Time
    expires_at: Time
    retired_at: OptionalTime = None
    leased: tuple[LeasedNode, ...] = ()
    requested_by: str | None = None
    retired_by: str | None = None
    warned_expiry: OptionalTime = None
    ssh_key: PublicKeys = None
    requested_at: OptionalTime = None
    begun_at: OptionalTime = None
    waiting_until: OptionalTime = None
    failures: Annotated[int, OMITTED] = 0
    stamp: Annotated[int | None, APART] = field(default=None, compare=False)
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)

    @property
    def is_warned(self) -> bool:
        """Whether the tenant was warned of the present expiry."""
        return self.warned_expiry == self.expires_at

    @property
    def is_active(self) -> bool:
        """Whether the tenant has the nodes."""
        return self.retired_at is None

    def seen_at(self, now: float) -> TenantSession:
        """Return the session with its length, but not created in the future of this process.

        A process whose clock is ahead created such a session, which would last longer by the difference.
        """
        ahead = seconds_ahead(self.created_at, now)
        if not ahead:
            return self
        requested_at = None if self.requested_at is None else min(self.requested_at, now)
        return replace(self, created_at=now, expires_at=self.expires_at - ahead, requested_at=requested_at)

    def is_expired(self, now: float) -> bool:
        """Whether an active session has reached its end."""
        return self.is_active and self.expires_at <= now


def admitted_keys(session: TenantSession, tenant: User | None) -> tuple[str, ...]:
    """Return the public keys that the nodes of a session admit: its own, or those of its tenant.

    A tenant that is not registered (``None``) has no access, independent of the session.
    """
    return () if tenant is None else split_ssh_keys(session.ssh_key or tenant.ssh_key)


def new_expiry(
    session: TenantSession, limits: TenantLimits, *, until: float | None = None, delta: float = 0.0, is_admin: bool
) -> float:
    """Return when a session ends after a change: at ``until``, or ``delta`` seconds later than before.

    No session ends before it was created. Unless an admin changes it, the latest end is the longest lifetime after
    the creation, or the present end if that is later.
    """
    wanted = max(session.expires_at + delta if until is None else until, session.created_at)
    latest = max(session.created_at + limits.session_lifetime_max, session.expires_at)
    return min(wanted, LATEST if is_admin else latest)


def retire(
    session: TenantSession, nodes: Iterable[PoolNode], now: float, by: str | None = None
) -> tuple[TenantSession, tuple[PoolNode, ...]]:
    """Return a session after its end, without its keys, and its nodes, which have to be deprovisioned.

    ``by`` names the person who ended the session; ``None`` if it expired. A node that has failed no longer belongs
    to the session and stays unchanged.
    """
    released = tuple(
        node.after(NodeEvent.RELEASED, now)
        for node in nodes
        if node.id in session.nodes and node.session == session.id
    )
    end = min(session.expires_at, now)
    ended = replace(session, retired_at=now, retired_by=by, expires_at=end, ssh_key=None)
    return ended, released


#: Seconds before the end of a session at which its tenant is warned. Sessions that are shorter than twice that are
#: warned of after half of their time.
WARNING = 1800.0


def warning_time(session: TenantSession) -> float:
    """Return when the tenant of a session has to be warned."""
    return session.expires_at - min(WARNING, (session.expires_at - session.created_at) / 2)


def due_warnings(sessions: Iterable[TenantSession], now: float) -> tuple[TenantSession, ...]:
    """Return the sessions whose tenants have to be warned now, in their state after the warning."""
    return tuple(
        replace(session, warned_expiry=session.expires_at)
        for session in sessions
        if session.is_active and not session.is_warned and warning_time(session) <= now < session.expires_at
    )


def next_warning(sessions: Iterable[TenantSession], now: float) -> float | None:
    """Return when the next warning after ``now`` is due; ``None`` if no session waits for one."""
    times = (warning_time(session) for session in sessions if not session.is_warned)
    return min((time for time in times if time > now), default=None)


#: The shortest and the longest time in seconds that a request may wait.
SHORTEST_WAIT = 1.0
LONGEST_WAIT = 7 * 86400.0

#: Seconds for which the record of a request is kept after its wait has ended without a session.
KEPT = 3600.0

#: The number of failed sessions (whose nodes could not be prepared) after which a request ends.
_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest(Record):
    """A request of a tenant, which may wait for nodes until ``expires_at``; its session gets the same id.

    A request that may not wait expires when it is created; its id is 0 until nodes are ready for it.
    ``failures`` counts its sessions whose nodes could not be prepared. ``outcome`` is the reason why the wait
    ended without a session, at ``ended_at``; both are ``None`` while the request waits. ``ssh_key`` are the public
    keys for the session, one in each line; ``None``: those of the tenant. Times are in seconds since the epoch.
    ``stamp`` is the version of the record when it was read, ``None`` for a new one. ``unknown`` are the keys of
    the record that this version does not know.
    """

    omits_unset: ClassVar[bool] = True
    id: int
    tenant: int
    specs: tuple[NodesSpec, ...]
    created_at: Time
    expires_at: Time
    requested_by: str | None = None
    ssh_key: PublicKeys = None
    failures: Annotated[int, OMITTED] = 0
    ended_at: OptionalTime = None
    outcome: str | None = None
    stamp: Annotated[int | None, APART] = field(default=None, compare=False)
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)

    @property
    def may_wait(self) -> bool:
        """Whether the request waits if it gets no nodes at once."""
        return self.expires_at > self.created_at

    @property
    def is_waiting(self) -> bool:
        """Whether the request may still get nodes."""
        return self.ended_at is None

    @property
    def wanted(self) -> Counter[str]:
        """The number of nodes by pool."""
        return wanted_nodes(self.specs)

    def seen_at(self, now: float) -> SessionRequest:
        """Return the request with its time limit, but not created in the future of this process."""
        ahead = seconds_ahead(self.created_at, now)
        return replace(self, created_at=now, expires_at=self.expires_at - ahead) if ahead else self

    def ended(self, outcome: str, now: float) -> SessionRequest:
        """Return the request after its wait ended without a session; its keys are dropped."""
        return replace(self, outcome=outcome, ended_at=now, ssh_key=None)


def in_queue_again(session: TenantSession, reason: str, now: float) -> tuple[SessionRequest, ...]:
    """Return the request of a session whose nodes could not be prepared; empty if the request did not wait.

    The request keeps its age. After three such sessions it ends, because a request must not use up a whole pool.
    """
    if session.waiting_until is None:
        return ()
    request = SessionRequest(
        id=session.id,
        tenant=session.tenant,
        specs=session.specs,
        created_at=session.created_at if session.requested_at is None else session.requested_at,
        expires_at=session.waiting_until,
        requested_by=session.requested_by,
        ssh_key=session.ssh_key,
        failures=session.failures + 1,
    )
    return (request.ended(reason, now) if request.failures >= _TRIES else request,)


@dataclass(frozen=True, slots=True)
class FillingRecord(Record):
    """The filling of a pool.

    ``failures`` is the number of failures of provisioning in a row, ``last_failure`` the time of the last one in
    seconds since the epoch, and ``reason`` the reason of that failure. ``values`` are the values of the pool when
    it was last filled. They are needed to deprovision nodes when the pool has left the document, or has another
    mechanism there. ``below_since`` is when a worker first found the pool below its level; ``None`` for a pool at
    its level. ``level`` is the level in force of a pool whose level depends on the time. ``stamp`` is the version
    of the record when it was read, ``None`` for a new one; ``unknown`` are the keys of the record that this
    version does not know.
    """

    omits_unset: ClassVar[bool] = True
    failures: int = 0
    last_failure: Time = 0.0
    reason: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    below_since: OptionalTime = None
    level: int | None = None
    stamp: Annotated[int | None, APART] = field(default=None, compare=False)
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


#: The most nodes of a session, a step or a task, because one transaction writes the records of all its nodes.
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
    waiting: Mapping[int, SessionRequest] = field(default_factory=dict)

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
    waiting: tuple[SessionRequest, ...] = ()
    answered: tuple[SessionRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolReading:
    """The published pools and their content.

    ``ended`` are the sessions that were active in the reading before this one and have ended since, by id.
    ``tenants`` are the names of all users, by id.
    """

    configuration: PoolConfiguration = PoolConfiguration()
    snapshot: PoolSnapshot = PoolSnapshot()
    ended: Mapping[int, TenantSession] = field(default_factory=dict)
    tenants: Mapping[int, str] = field(default_factory=dict)

    @property
    def is_used(self) -> bool:
        """Whether there are published pools, or nodes or sessions of any pools."""
        return bool(self.configuration.pools or self.snapshot.nodes or self.snapshot.sessions)
