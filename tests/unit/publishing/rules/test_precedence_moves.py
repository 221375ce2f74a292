"""Warnings about services with ``undeploy = 'last'`` that move to hosts for which no host can wait."""

from zkdeployment.base.deployment import Assignment
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import Inventory, KnownHost
from zkdeployment.publishing.rules.convergence import PublicationSnapshot
from zkdeployment.publishing.rules.precedence import move_warnings, order_of_known_hosts

HERE = [Host(Identity(name, f"{name}.example")) for name in ("a", "b")]
ABSENT = [KnownHost(Identity("gone", "gone.example"), Inventory())]
LEASABLE = Host(Identity("lent", "lent.example", "web"), idle_role="idle")


def targets(*names, n=1):
    return {name: (Assignment("/db", n, "foo", "foo", version="1", undeploys_last=True),) for name in names}


def warnings(before, after):
    snapshot = PublicationSnapshot(None, hosts=[*HERE, LEASABLE], absent=ABSENT)
    order = order_of_known_hosts(before, after, snapshot, None)
    return [str(problem) for problem in move_warnings(before, after, order, snapshot)]


def test_a_service_that_moves_to_absent_hosts_stays_where_it_is():
    (warning,) = warnings(targets("a"), targets("gone"))
    assert warning == (
        "/db: warning: undeploy = 'last': the service moves to gone.example (gone), of which none is registered,"
        " so a.example (a) keeps it, and waits, until one of them has it; start such a host, or choose another one"
    )
    assert warnings(targets("a"), targets("gone", "b")) == []


def test_a_service_that_moves_to_hosts_that_can_be_leased_or_to_unknown_ones_is_undeployed_at_once():
    for target, hosts in (("web", "lent.example (lent)"), ("new", "a target without a known host")):
        (warning,) = warnings(targets("a", "b"), targets("b", target))
        assert f"moves to {hosts}, for which no host waits, so a.example (a) undeploys it at once;" in warning


def test_a_service_that_only_gains_or_only_loses_hosts_moves_nowhere():
    assert warnings(targets("a"), targets("a", "gone")) == []
    assert warnings(targets("a", "b"), targets("b")) == []
    assert warnings(targets("a", n=2), targets("a")) == []
