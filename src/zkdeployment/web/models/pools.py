"""Pools and their nodes, as requests and responses."""

import json
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, Field, IPvAnyAddress

from zkdeployment.documents.pools.values import NodePool
from zkdeployment.model.act import sanitize
from zkdeployment.model.names import NameKind, name_problem
from zkdeployment.pools.node import NodeState, PoolNode
from zkdeployment.pools.runs.playbook_run import PlaybookRun
from zkdeployment.web.models.leasing import GetResult, LeasingBody, PostResult, optional_time, time_of

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
