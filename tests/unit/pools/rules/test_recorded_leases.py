"""The leases that follow from the records of nodes and sessions."""

from dataclasses import replace

from support.builders import make_user
from support.pools.builders import make_node
from zkdeployment.base.host import Host, Identity
from zkdeployment.pools.documents import NodePool, PoolConfiguration, RoleMechanism
from zkdeployment.pools.rules.host_lease import RecordedLease
from zkdeployment.pools.rules.node import NodeState
from zkdeployment.pools.rules.snapshot import NodesSpec, PoolSnapshot, TenantSession
from zkdeployment.pools.rules.work import PoolFacts, PoolSources, recorded_leases
from zkdeployment.service.users.user import Role, User

WEB = NodePool("web", RoleMechanism("spare", "ci"))
TENANT = make_user("t7", Role.TENANT, id=7, ssh_key="ssh-ed25519 AAAA")
SESSION = TenantSession(id=9, tenant=7, specs=(NodesSpec("web", 1),), nodes=(1,), created_at=1, expires_at=100)


def leases(
    state: NodeState,
    *,
    pool: str | None = "web",
    idle: str | None = "spare",
    tenant: User = TENANT,
    ssh_key: str | None = None,
) -> dict[str, RecordedLease]:
    node = make_node(1, state, pool=pool, session=9, reusable=True, host="h1")
    machine = make_node(2, state, pool=pool)
    hosts = {} if idle is None else {"h1": Host(Identity("h1", "h1", "evil"), idle_role=idle)}
    sources = PoolSources(PoolConfiguration({"web": WEB}), {tenant.id: tenant}, hosts)
    return recorded_leases(
        PoolFacts(sources, PoolSnapshot({1: node, 2: machine}, {9: replace(SESSION, ssh_key=ssh_key)}), 50.0)
    )


def test_a_node_of_a_pool_has_the_leased_role_and_a_lent_one_the_key_of_its_tenant():
    assert leases(NodeState.READY) == {"h1": RecordedLease("ci")}
    assert leases(NodeState.DEPLOYED) == {"h1": RecordedLease("ci", ("ssh-ed25519 AAAA",), 9)}
    for state in (NodeState.CONTEXTUALIZING, NodeState.DEPROVISIONING, NodeState.FAILED):
        assert leases(state) == {"h1": RecordedLease("ci")}
    keyless = make_user("t7", Role.TENANT, id=7)
    assert leases(NodeState.DEPLOYED, tenant=keyless) == {"h1": RecordedLease("ci", (), 9)}


def test_an_unused_host_has_an_idle_role_of_the_document_only():
    assert leases(NodeState.UNUSED, pool=None) == {"h1": RecordedLease("spare")}
    assert leases(NodeState.UNUSED, pool=None, idle="evil") == {}
    assert leases(NodeState.UNUSED, pool=None, idle=None) == {}


def test_a_node_of_an_unknown_pool_has_no_recorded_lease():
    assert leases(NodeState.READY, pool="gone") == {}


def test_a_lent_host_has_all_keys_of_its_tenant_or_in_their_place_those_of_its_session():
    several = replace(TENANT, ssh_key="ssh-ed25519 AAAA\nssh-ed25519 BBBB")
    both = ("ssh-ed25519 AAAA", "ssh-ed25519 BBBB")
    assert leases(NodeState.DEPLOYED, tenant=several) == {"h1": RecordedLease("ci", both, 9)}
    own = "ssh-ed25519 CCCC"
    assert leases(NodeState.DEPLOYED, tenant=several, ssh_key=own) == {"h1": RecordedLease("ci", (own,), 9)}
    keyless = replace(TENANT, ssh_key=None)
    assert leases(NodeState.DEPLOYED, tenant=keyless, ssh_key=own) == {"h1": RecordedLease("ci", (own,), 9)}
    other = replace(TENANT, id=8)
    assert leases(NodeState.DEPLOYED, tenant=other, ssh_key=own) == {"h1": RecordedLease("ci", (), 9)}
