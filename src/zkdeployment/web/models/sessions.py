"""Sessions of tenants, as requests and responses."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from zkdeployment.acts.pools.sessions import SessionDetails
from zkdeployment.pools.node import PoolNode
from zkdeployment.pools.requests.properties import MOST_PROPERTIES, read_properties
from zkdeployment.pools.tenant_session import LeasedNode, NodesSpec
from zkdeployment.web.models.leasing import (
    Delta,
    GetResult,
    LeasingBody,
    PostResult,
    PutResult,
    optional_time,
    time_of,
)
from zkdeployment.web.models.tenants import PublicKeys, TenantBody


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
    """Refuse a number, also as text: it would read as seconds since 1970."""
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
