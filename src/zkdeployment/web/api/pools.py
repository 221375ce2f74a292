"""``/api/v1/pools`` and ``/api/v1/nodes``: the pools that lend nodes, and all nodes, as in Duffy 3."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path

from zkdeployment.acts.pools.nodes import add_node, find_node, node_runs
from zkdeployment.model.user import Right, User
from zkdeployment.pools.node_changes import NewPoolNode
from zkdeployment.web.access.rights import PoolReader, require
from zkdeployment.web.acts import new_act
from zkdeployment.web.dependencies import ConnectedAdapters
from zkdeployment.web.error_responses import ERRORS
from zkdeployment.web.models.pools import (
    ListedPool,
    NewNodeBody,
    NewNodeResult,
    NodeBody,
    NodeLogResult,
    NodeResult,
    NodesResult,
    PlaybookRunBody,
    PoolLevels,
    PoolResult,
    PoolsResult,
    ShownPool,
)
from zkdeployment.web.pool_acts import lending_pool

router = APIRouter(prefix="/api/v1", responses=ERRORS)

PoolManager = Annotated[User, Depends(require(Right.MANAGE_POOLS))]


@router.get("/pools", tags=["pools"])
def list_pools(adapters: ConnectedAdapters, _user: PoolReader) -> PoolsResult:
    """Return the pools that have a level; the others lend no nodes."""
    pools = sorted(adapters.pools.store.configuration().pools.items())
    return PoolsResult(pools=[ListedPool.of(pool) for _, pool in pools if pool.fill_level is not None])


@router.get("/pools/{name}", tags=["pools"], response_model_exclude_none=True)
def show_pool(
    adapters: ConnectedAdapters, _user: PoolReader, name: Annotated[str, Path(description="The name of a pool.")]
) -> PoolResult:
    """Return a pool with the number of its nodes in each state; 422 for a pool without a level."""
    pool = lending_pool(adapters.pools.store.configuration(), name)
    levels = PoolLevels.of(pool, adapters.pools.store.read().nodes.values())
    shown = ShownPool(name=pool.name, fill_level=pool.fill_level or 0, levels=levels, node_quota=pool.node_quota)
    return PoolResult(pool=shown)


@router.get("/nodes", tags=["nodes"])
def list_nodes(adapters: ConnectedAdapters, _user: PoolReader) -> NodesResult:
    """Return all nodes that are not done."""
    nodes = adapters.pools.store.read().nodes
    return NodesResult(nodes=[NodeBody.of(node) for _, node in sorted(nodes.items())])


@router.get("/nodes/{number}", tags=["nodes"])
def show_node(
    adapters: ConnectedAdapters, _user: PoolReader, number: Annotated[int, Path(description="The id of a node.")]
) -> NodeResult:
    """Return a node, which may be done."""
    return NodeResult(node=NodeBody.of(find_node(number, adapters.pools)))


@router.get("/nodes/{number}/log", tags=["nodes"])
def show_node_log(
    adapters: ConnectedAdapters, _user: PoolManager, number: Annotated[int, Path(description="The id of a node.")]
) -> NodeLogResult:
    """Return the runs of playbooks for a node with the end of their output, the last run last. Only admins may."""
    return NodeLogResult(runs=[PlaybookRunBody.of(run) for run in node_runs(number, adapters.pools)])


@router.post("/nodes", tags=["nodes"], status_code=201)
def create_node(adapters: ConnectedAdapters, user: PoolManager, body: NewNodeBody) -> NewNodeResult:
    """Add a machine as an unused node; 409 if a node has its name or its address."""
    new = NewPoolNode(
        hostname=body.hostname,
        ipaddr=str(body.ipaddr),
        comment=body.comment,
        reusable=body.reusable,
        data=body.data,
    )
    node = add_node(new, adapters.pools, new_act(adapters, user, f"add node {new.hostname}", ""))
    return NewNodeResult(node=NodeBody.of(node))
