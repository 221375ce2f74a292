"""Sessions of tenants: the leased nodes, the lifetime, the end, and the warnings before the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

from zkdeployment.base.public_keys import split_ssh_keys, ssh_keys_problem
from zkdeployment.base.records import APART, OMITTED, Key, Record, invalid, no_keys
from zkdeployment.pools.rules.node import LATEST, NodeEvent, OptionalTime, Time
from zkdeployment.pools.rules.properties import NodeProperty, read_properties

if TYPE_CHECKING:
    from zkdeployment.pools.rules.node import PoolNode
    from zkdeployment.service.users.user import TenantLimits, User


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

    def is_expired(self, now: float) -> bool:
        """Whether an active session has reached its end."""
        return self.is_active and self.expires_at <= now


def admitted_keys(session: TenantSession, tenant: User | None) -> tuple[str, ...]:
    """Return the public keys that the nodes of a session admit: its own, or those of its tenant.

    A tenant that is not registered (``None``) has no access, independent of the session.
    """
    return () if tenant is None else split_ssh_keys(session.ssh_key or tenant.ssh_key)


def effective_limits(user: User, defaults: TenantLimits) -> TenantLimits:
    """Return the limits of a tenant: its own limits, and the defaults for missing ones."""
    return replace(
        defaults,
        node_quota=defaults.node_quota if user.node_quota is None else user.node_quota,
        session_lifetime=defaults.session_lifetime if user.session_lifetime is None else user.session_lifetime,
        session_lifetime_max=defaults.session_lifetime_max
        if user.session_lifetime_max is None
        else user.session_lifetime_max,
    )


def new_expiry(
    session: TenantSession, limits: TenantLimits, *, until: float | None = None, delta: float = 0.0, is_admin: bool
) -> float:
    """Return when a session ends after a change: at ``until``, or ``delta`` seconds later than before.

    No session ends before it was created. The latest end is the longest lifetime after the creation, unless
    an admin changes it.
    """
    wanted = max(session.expires_at + delta if until is None else until, session.created_at)
    return min(wanted, LATEST if is_admin else session.created_at + limits.session_lifetime_max)


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
