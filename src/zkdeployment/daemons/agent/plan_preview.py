"""Previews the plan of a host for operators."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.daemons.agent.plans import make_plan
from zkdeployment.daemons.watermark import Watermark
from zkdeployment.errors import RefusedError
from zkdeployment.model.cluster import INITIAL, ClusterState
from zkdeployment.model.plan import Plan
from zkdeployment.planning.planner import is_settled
from zkdeployment.pools.lease import Lease, first_record

if TYPE_CHECKING:
    from zkdeployment.daemons.agent.agent_adapters import AgentAdapters
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.host import Identity


def preview(adapters: AgentAdapters, identity: Identity, *, leasable: bool) -> tuple[Revision, Plan]:
    """Return the cluster version and the plan an agent would execute for it, without changing anything.

    ``leasable``: whether leases decide the role of the host, which has that of its ``identity`` without a lease.
    Raises ``RefusedError`` if the fleet is stopped or held.
    """
    published = adapters.fleet.published()
    if adapters.trusted is None:
        Watermark(adapters.run).check(published)
    cluster = adapters.fleet.cluster()
    if cluster is None or cluster.revision is None:
        state = ClusterState.STOPPED if cluster is None else cluster.state
        raise RefusedError(f"nothing starts: the cluster is {state.value}")
    revision = cluster.revision
    version = adapters.run.read_version(identity)
    has_role = True
    if leasable and identity.role is not None:
        lease = adapters.lease(identity, remembers=False) or Lease(identity.role, 0)
        record = first_record(adapters.run.read_lease(), identity.role, has_version=version is not None)
        has_role = record.is_reached and record.lease.role == lease.role
        identity = replace(identity, role=lease.role)
    if adapters.trusted is not None:
        adapters.trusted.published(identity, revision)
    has_revision = revision == version and has_role
    reached = adapters.run.read_sequence(version)
    is_new = published.revision == revision and published.effective_since > reached
    lacking = adapters.run.read_lacking()
    is_resumed = bool(lacking) and not lacking.keys() <= adapters.fleet.stopped_groups()
    if revision == INITIAL or (has_revision and not (is_new or is_resumed)):
        return revision, Plan()
    if adapters.trusted is None:
        wanted = adapters.fleet.wanted(identity, revision)
    else:
        wanted = adapters.trusted.targets(identity, revision).wanted
    has_order = published.revision == revision and not leasable
    made = make_plan(adapters, identity, wanted, published.effective_since if has_order else 0)
    return revision, Plan() if has_revision and not lacking and is_settled(made) else made
