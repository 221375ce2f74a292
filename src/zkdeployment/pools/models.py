"""Tenants, sessions, pools and nodes as requests and responses, which are those of Duffy 3."""

import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    IPvAnyAddress,
    SecretStr,
    WithJsonSchema,
    model_validator,
)

from zkdeployment.base.act import sanitize
from zkdeployment.base.durations import DURATION_PATTERN, LONGEST_DURATION, given_seconds, signed_duration
from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.base.public_keys import ssh_keys_problem
from zkdeployment.pools.acts.sessions import SessionDetails
from zkdeployment.pools.documents import NodePool
from zkdeployment.pools.rules.node import NodeState, PoolNode
from zkdeployment.pools.rules.results import PlaybookRun
from zkdeployment.pools.rules.snapshot import (
    MOST_PROPERTIES,
    LeasedNode,
    NodesSpec,
    effective_limits,
    read_properties,
)
from zkdeployment.service.users.user import IssuedKey, TenantLimits, User


class LeasingBody(BaseModel):
    """A body with these keys; requests may contain others, as in Duffy."""

    model_config = ConfigDict(extra="ignore")


class GetResult(LeasingBody):
    """An answer that shows something."""

    action: Literal["get"] = "get"


class PostResult(LeasingBody):
    """An answer that shows what was created."""

    action: Literal["post"] = "post"


class PutResult(LeasingBody):
    """An answer that shows what was changed."""

    action: Literal["put"] = "put"


def read_duration(given: object) -> float:
    """Return the seconds of a duration in a request; raises ``ValueError``."""
    seconds = given_seconds(given)
    if seconds is None:
        raise ValueError("expected seconds, or a duration such as 6h or 1h30m, of at most 100 years")
    return seconds


def read_signed_duration(given: object) -> float:
    """Return the seconds of a duration with a sign in a request; raises ``ValueError``."""
    seconds = signed_duration(given) if isinstance(given, str) else None
    if seconds is None:
        raise ValueError("expected a duration with a sign, such as +1h30m or -20m, of at most 100 years")
    return seconds


#: A time that a session or a tenant may have, in seconds.
Lifetime = Annotated[
    float,
    BeforeValidator(read_duration),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_DURATION},
                {"type": "string", "pattern": DURATION_PATTERN},
            ]
        }
    ),
]

#: A duration by which a time changes, in seconds.
Delta = Annotated[
    float,
    BeforeValidator(read_signed_duration),
    WithJsonSchema({"type": "string", "pattern": "^[+-]", "examples": ["+1h30m", "-20m"]}),
]


def time_of(seconds: float) -> datetime:
    """Return a time in seconds since the epoch as answers show it."""
    return datetime.fromtimestamp(seconds, UTC)


def optional_time(seconds: float | None) -> datetime | None:
    """Return a time that may be missing."""
    return None if seconds is None else time_of(seconds)


#: The text that answers show in place of keys, as in Duffy.
_HIDDEN = "**********"

_ABOUT_KEYS = "The public keys with which the tenant logs in to nodes: at most 10, one in each line."


def _ssh_keys(given: SecretStr) -> SecretStr:
    problem = ssh_keys_problem(given.get_secret_value())
    if problem is not None:
        raise ValueError(problem)
    return given


def _user_name(given: str) -> str:
    problem = name_problem(NameKind.USER, given)
    if problem is not None:
        raise ValueError(problem)
    return given


PublicKeys = Annotated[SecretStr, AfterValidator(_ssh_keys)]
Quota = Annotated[int, Field(gt=0, le=1_000_000)]


class _TenantValues(LeasingBody):
    """The part of a tenant that all answers show."""

    id: int
    name: str
    is_admin: bool
    node_quota: int | None
    session_lifetime: int | float | None
    session_lifetime_max: int | float | None
    created_at: datetime
    retired_at: datetime | None
    active: bool
    effective_node_quota: int
    effective_session_lifetime: float
    effective_session_lifetime_max: float


class TenantBody(_TenantValues):
    """A tenant; `effective_*` are its own limits, or those of the pools; lifetimes are in seconds."""

    ssh_key: str | None = Field(description="Asterisks, if the tenant has a key.")

    @classmethod
    def of(cls, user: User, defaults: TenantLimits) -> "TenantBody":
        """Return a tenant."""
        return cls(**_values(user, defaults))


class NewTenantBody(_TenantValues):
    """A new tenant with its API key, which is shown only once."""

    ssh_key: str
    api_key: str

    @classmethod
    def created(cls, issued: IssuedKey, defaults: TenantLimits) -> "NewTenantBody":
        """Return a new tenant with its key."""
        values = _values(issued.user, defaults) | {"ssh_key": issued.user.ssh_key}
        return cls(**values, api_key=issued.key)


class ChangedTenantBody(TenantBody):
    """A tenant after a change; a new API key is shown only if the service made it."""

    api_key: str | None = Field(description="The key that the service made, or asterisks.")

    @classmethod
    def changed(cls, user: User, defaults: TenantLimits, key: str | None) -> "ChangedTenantBody":
        """Return a tenant after a change, with its new key if there is one."""
        return cls(**_values(user, defaults), api_key=key or _HIDDEN)

    @classmethod
    def retired(cls, user: User, defaults: TenantLimits) -> "ChangedTenantBody":
        """Return a tenant that was retired, or not retired."""
        return cls(**_values(user, defaults), api_key=None)


def _values(user: User, defaults: TenantLimits) -> dict[str, Any]:
    limits = effective_limits(user, defaults)
    return {
        "id": user.id,
        "name": user.name,
        "is_admin": user.is_admin,
        "ssh_key": None if user.ssh_key is None else _HIDDEN,
        "node_quota": user.node_quota,
        "session_lifetime": _seconds(user.session_lifetime),
        "session_lifetime_max": _seconds(user.session_lifetime_max),
        "created_at": time_of(user.created_at),
        "retired_at": optional_time(user.retired_at),
        "active": not user.is_retired,
        "effective_node_quota": limits.node_quota,
        "effective_session_lifetime": limits.session_lifetime,
        "effective_session_lifetime_max": limits.session_lifetime_max,
    }


def _seconds(seconds: float | None) -> int | float | None:
    """Return whole seconds without a fraction, as Duffy shows them."""
    return int(seconds) if seconds is not None and seconds == int(seconds) else seconds


class TenantOrder(LeasingBody):
    """A tenant that is to be added."""

    name: Annotated[str, AfterValidator(_user_name)]
    is_admin: bool | None = None
    ssh_key: PublicKeys = Field(description=_ABOUT_KEYS)
    node_quota: Quota | None = None
    session_lifetime: Lifetime | None = None
    session_lifetime_max: Lifetime | None = None


class TenantChange(LeasingBody):
    """Other values of a tenant, or its retirement (`active: false`); a limit of null is the pools' limit again."""

    active: bool | None = None
    ssh_key: PublicKeys | None = Field(None, description=_ABOUT_KEYS)
    api_key: UUID | Literal["reset"] | None = None
    node_quota: Quota | None = None
    session_lifetime: Lifetime | None = None
    session_lifetime_max: Lifetime | None = None

    @model_validator(mode="after")
    def _has_one_purpose(self) -> "TenantChange":
        """Refuse an empty change, and a change that retires the tenant and also has other values."""
        values = self.model_fields_set - {"active"}
        if not values and self.active is None:
            known = ", ".join(sorted(set(TenantChange.model_fields)))
            raise ValueError(f"expected at least one of {known}")
        if values and self.active is not None:
            raise ValueError("expected either active or other values, found both")
        return self

    def limits(self) -> dict[str, Any]:
        """Return the limits in the request, which may be null."""
        names = {"node_quota", "session_lifetime", "session_lifetime_max"} & self.model_fields_set
        return {name: getattr(self, name) for name in names}


class TenantsResult(GetResult):
    """Tenants by id, retired ones included."""

    tenants: list[TenantBody]


class TenantResult(GetResult):
    """A tenant."""

    tenant: TenantBody


class NewTenantResult(PostResult):
    """The new tenant."""

    tenant: NewTenantBody


class ChangedTenantResult(PutResult):
    """The changed tenant."""

    tenant: ChangedTenantBody


def _written_properties(given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(str, read_properties(given)))


#: Properties that the nodes of a request must have, in their written form.
Properties = Annotated[tuple[str, ...], AfterValidator(_written_properties)]


class NodesSpecBody(LeasingBody):
    """A number of nodes of a pool."""

    quantity: int = Field(ge=1)
    pool: str
    properties: Properties | None = Field(
        None,
        description="What the nodes must have: NAME=VALUE, NAME>=NUMBER or NAME<=NUMBER.",
        max_length=MOST_PROPERTIES,
    )

    def to_spec(self) -> NodesSpec:
        """Return the part of the request."""
        return NodesSpec(self.pool, self.quantity, read_properties(self.properties or ()))


class SessionOrder(LeasingBody):
    """A session that is requested; only admins request sessions of other tenants, by their id."""

    tenant_id: int | None = None
    nodes_specs: list[NodesSpecBody] = Field(max_length=100)
    ssh_key: PublicKeys | None = Field(
        None,
        description="The public keys that the nodes admit instead of the tenant's: at most 10, one in each line.",
    )


def _written_time(given: object) -> object:
    """Refuse a number, also as text, because it would be taken for seconds since 1970."""
    if not isinstance(given, str | datetime) or (
        isinstance(given, str) and given.strip().lstrip("+-.").isdecimal()
    ):
        raise ValueError("expected a time such as 2027-01-31T18:00:00Z, or a duration with a sign such as +1h30m")
    return given


def _utc(given: datetime) -> datetime:
    return given.replace(tzinfo=UTC) if given.tzinfo is None else given


class SessionUpdate(LeasingBody):
    """The end of a session (`active: false`), or another time of its end: a time, or a duration with a sign."""

    active: bool | None = None
    expires_at: Delta | Annotated[datetime, BeforeValidator(_written_time), AfterValidator(_utc)] | None = Field(
        None, union_mode="left_to_right"
    )


class SessionNodeBody(LeasingBody):
    """A node of a session; `state` is null after the end of the session."""

    id: int
    state: str | None
    hostname: str | None
    ipaddr: str | None
    comment: str | None
    pool: str | None
    reusable: bool
    data: dict[str, Any]

    @classmethod
    def of(cls, node: PoolNode) -> "SessionNodeBody":
        """Return a node of an active session."""
        return cls(
            id=node.id,
            state=node.state.value,
            hostname=node.hostname,
            ipaddr=node.ipaddr,
            comment=node.comment,
            pool=node.pool,
            reusable=node.reusable,
            data=dict(node.data),
        )

    @classmethod
    def after_session(cls, leased: LeasedNode, node: PoolNode | None) -> "SessionNodeBody":
        """Return a node that a session had: the machine may have another name by now, or be gone."""
        return cls(
            id=leased.id,
            state=None,
            hostname=leased.hostname,
            ipaddr=leased.ipaddr,
            comment=None if node is None else node.comment,
            pool=leased.pool,
            reusable=node is not None and node.reusable,
            data={} if node is None else dict(node.data),
        )


class SessionBody(LeasingBody):
    """A session; `data` has the request that it was made for."""

    id: int
    tenant: TenantBody
    data: dict[str, Any]
    nodes: list[SessionNodeBody]
    created_at: datetime
    expires_at: datetime | None
    retired_at: datetime | None
    active: bool

    @classmethod
    def of(cls, details: SessionDetails, tenant: TenantBody) -> "SessionBody":
        """Return a session of a tenant."""
        session, nodes = details.session, {node.id: node for node in details.nodes}
        shown = [
            SessionNodeBody.of(nodes[leased.id])
            if session.is_active and leased.id in nodes
            else SessionNodeBody.after_session(leased, nodes.get(leased.id))
            for leased in session.leased
        ]
        specs = [
            {
                "quantity": spec.quantity,
                "pool": spec.pool,
                **({"properties": [*map(str, spec.properties)]} if spec.properties else {}),
            }
            for spec in session.specs
        ]
        return cls(
            id=session.id,
            tenant=tenant,
            data={"nodes_specs": specs},
            nodes=shown,
            created_at=time_of(session.created_at),
            expires_at=time_of(session.expires_at),
            retired_at=optional_time(session.retired_at),
            active=session.is_active,
        )


class SessionsResult(GetResult):
    """The active sessions: a tenant's own, for admins all."""

    sessions: list[SessionBody]


class SessionResult(GetResult):
    """A session."""

    session: SessionBody


class NewSessionResult(PostResult):
    """The new session."""

    session: SessionBody


class ChangedSessionResult(PutResult):
    """The session after the change."""

    session: SessionBody


#: The most bytes of the data of a new node: all nodes are read together.
_LONGEST_DATA = 64 << 10


class ListedPool(LeasingBody):
    """A pool, and how many nodes it keeps ready."""

    name: str
    fill_level: int = Field(serialization_alias="fill-level")

    @classmethod
    def of(cls, pool: NodePool) -> "ListedPool":
        """Return a pool that has a level."""
        return cls(name=pool.name, fill_level=pool.fill_level or 0)


class PoolLevels(LeasingBody):
    """The number of nodes of a pool in each state."""

    provisioning: int
    ready: int
    contextualizing: int
    deployed: int
    deprovisioning: int

    @classmethod
    def of(cls, pool: NodePool, nodes: Iterable[PoolNode]) -> "PoolLevels":
        """Return the numbers of a pool."""
        own = [node for node in nodes if node.pool == pool.name]
        states = Counter(node.state for node in own)
        return cls(
            provisioning=states[NodeState.PROVISIONING],
            ready=sum(node.is_ready for node in own),
            contextualizing=states[NodeState.CONTEXTUALIZING],
            deployed=states[NodeState.DEPLOYED],
            deprovisioning=states[NodeState.DEPROVISIONING],
        )


class ShownPool(ListedPool):
    """A pool with the number of its nodes in each state, and how many of them one tenant may have."""

    levels: PoolLevels
    node_quota: int | None = Field(None, serialization_alias="node-quota")


class PoolsResult(GetResult):
    """The pools that lend nodes."""

    pools: list[ListedPool]


class PoolResult(GetResult):
    """A pool."""

    pool: ShownPool


class NodeBody(LeasingBody):
    """A node; `data` has the result of its provisioning, the last request that took it, and its failure."""

    id: int
    state: str
    hostname: str | None
    ipaddr: str | None
    comment: str | None
    pool: str | None
    reusable: bool
    data: dict[str, Any]
    created_at: datetime
    retired_at: datetime | None
    active: bool

    @classmethod
    def of(cls, node: PoolNode) -> "NodeBody":
        """Return a node."""
        return cls(
            id=node.id,
            state=node.state.value,
            hostname=node.hostname,
            ipaddr=node.ipaddr,
            comment=node.comment,
            pool=node.pool,
            reusable=node.reusable,
            data=dict(node.data),
            created_at=time_of(node.created_at),
            retired_at=optional_time(node.retired_at),
            active=node.is_active,
        )


def _host_name(given: str) -> str:
    problem = name_problem(NameKind.HOST_NAME, given)
    if problem is not None:
        raise ValueError(problem)
    return given


def _storable(given: dict[str, Any]) -> dict[str, Any]:
    length = len(json.dumps(given))
    if length > _LONGEST_DATA:
        raise ValueError(f"expected at most {_LONGEST_DATA} bytes of JSON, found {length}")
    return given


class NewNodeBody(LeasingBody):
    """A machine that becomes an unused node."""

    hostname: Annotated[str, AfterValidator(_host_name)]
    ipaddr: IPvAnyAddress
    comment: Annotated[str, Field(max_length=1000), AfterValidator(sanitize)] | None = None
    pool: str | None = Field(None, description="Has no effect: a node belongs to the pool that takes it.")
    reusable: bool = True
    data: Annotated[dict[str, Any], AfterValidator(_storable)] = Field(default_factory=dict)


class NodesResult(GetResult):
    """All nodes that are not done."""

    nodes: list[NodeBody]


class NodeResult(GetResult):
    """A node."""

    node: NodeBody


class NewNodeResult(PostResult):
    """The new node."""

    node: NodeBody


class PlaybookRunBody(LeasingBody):
    """A run of a playbook; `nodes` are the ids of all its nodes, `output` is the end of what Ansible printed."""

    id: int
    pool: str
    playbook: str
    nodes: list[int]
    begun: datetime
    seconds: float
    succeeded: bool
    output: str

    @classmethod
    def of(cls, run: PlaybookRun) -> "PlaybookRunBody":
        """Return a run."""
        return cls(**{**run.to_json(), "begun": time_of(run.begun)})


class NodeLogResult(GetResult):
    """The runs of playbooks for a node."""

    runs: list[PlaybookRunBody]
