import pytest

from support.builders import make_host, make_known_host
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import KnownHost
from zkdeployment.fleet.views.maintenance import check_departure, host_id_of
from zkdeployment.fleet.views.snapshot import FleetSnapshot

NAMESAKE = Host(Identity("h9", "app3"))
WORKER = Assignment("/demo/worker", 1, "worker", "worker")
OFF = Assignment("/demo/off", 0, "worker", "worker")
REFUSED = "the tree deploys /demo/worker to {}; remove it there, or use --force"


@pytest.mark.parametrize(
    ("target", "role", "others", "refused"),
    [
        ("h3", None, (), True),
        ("app3", None, (), True),
        ("web", "web", (), True),
        ("app3", "web", (), False),
        ("web", "web", (make_host(1, role="web"),), False),
        ("app3", None, (NAMESAKE,), False),
        ("h3", None, (NAMESAKE,), True),
        ("h1", None, (make_host(1),), False),
    ],
)
def test_a_host_that_alone_serves_a_target_of_the_tree_is_not_forgotten(target, role, others, refused):
    snapshot = FleetSnapshot(hosts=others, absent=(make_known_host(3, role=role),))
    targets = {target: (WORKER, OFF)}

    if refused:
        with pytest.raises(RefusedError) as refusal:
            check_departure(snapshot, targets, ["h3"])
        assert str(refusal.value) == REFUSED.format(target)
    else:
        check_departure(snapshot, targets, ["h3"])


def test_hosts_that_serve_a_role_together_are_not_forgotten_together():
    snapshot = FleetSnapshot(absent=(make_known_host(3, role="web"), make_known_host(4, role="web")))
    targets = {"web": (WORKER,)}

    check_departure(snapshot, targets, ["h3"])
    with pytest.raises(RefusedError):
        check_departure(snapshot, targets, ["h3", "h4"])


def test_a_host_is_named_by_its_id_or_by_a_name_that_only_it_has():
    known = (make_known_host(3), make_known_host(4))

    assert [host_id_of(known, name) for name in ("h3", "app4", "h9")] == ["h3", "h4", "h9"]
    assert host_id_of((*known, KnownHost(Identity("app4", "x"))), "app4") == "app4"


def test_a_name_that_several_hosts_have_is_refused_with_their_ids():
    known = (KnownHost(Identity("h5", "app4")), make_known_host(4), make_known_host(3))

    with pytest.raises(RefusedError, match="2 hosts are called app4: h4, h5; expected one of these ids"):
        host_id_of(known, "app4")
