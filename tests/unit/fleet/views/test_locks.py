from dataclasses import replace
from functools import partial

import pytest

from support.builders import make_contender, make_role_lock, make_service_lock
from support.builders import make_host as host
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.lock import Contender, Lock, LockedWork, LockKind
from zkdeployment.fleet.views.locks import by_urgency, find_lock, lock_views, plan_release
from zkdeployment.fleet.views.snapshot import FleetSnapshot

NOW = 1000.0
SYNCER = Lock(LockKind.SYNCER, "/hosts-lock", "/hosts-lock", (Contender("syncer on s1", 990.0, "/hosts-lock/a"),))


def fleet(*hosts):
    return FleetSnapshot(hosts=hosts)


def who(host_id, since=900.0):
    return make_contender(host_id, since)


service = partial(make_service_lock, path="/shop/web")
role = partial(make_role_lock, role="web")


def at_work(host_id):
    return LockedWork(host_id, f"{host_id}.example.com", "deploy /shop/web 0", 940.0)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("/shop/web", LockKind.SERVICE),
        ("/agent-locks/shop,web", LockKind.SERVICE),
        ("web", LockKind.ROLE),
        ("/roles/web", LockKind.ROLE),
        ("/role-locks/web", LockKind.ROLE),
        ("/hosts-lock", LockKind.SYNCER),
    ],
)
def test_a_lock_is_found_by_its_customary_names(name, kind):
    assert find_lock([service(who("h1")), role(who("h1")), SYNCER], name).kind is kind


@pytest.mark.parametrize("name", ["", "/", "/web", "h1"])
def test_a_lock_without_contenders_is_not_found(name):
    with pytest.raises(RefusedError, match="there is no lock"):
        find_lock([service(who("h1")), role(who("h1")), SYNCER], name)


@pytest.mark.parametrize(
    ("lock", "hosts", "node", "objection"),
    [
        (service(who("h1"), who("h2")), [host("h1", deploying="r2")], "/node/h1", None),
        (
            service(who("h1"), work=at_work("h1")),
            [],
            "/node/h1",
            "h1.example.com (h1) has worked under the lock for 1 min: deploy /shop/web 0",
        ),
        (service(who("h2"), work=at_work("h1")), [host("h2")], "/zkdeployment/busy/shop,web", None),
        (service(work=at_work("h1")), [host("h1")], "/zkdeployment/busy/shop,web", None),
        (
            service(who("h2"), work=at_work("h1")),
            [host("h1", deploying="r2")],
            "/zkdeployment/busy/shop,web",
            "h1.example.com is registered and deploying: its script may still run",
        ),
        (role(who("h1"), who("h2")), [host("h2", deploying="r2")], "/node/h1", None),
        (role(who("h1")), [host("h1", error="broke")], "/node/h1", None),
        (
            role(who("h1")),
            [host("h1", deploying="r2")],
            "/node/h1",
            "h1.example.com (h1) is registered and deploying r2",
        ),
        (SYNCER, [], "/hosts-lock/a", "a syncer with a live session holds the lock and may be publishing"),
    ],
)
def test_a_release_names_the_node_to_remove_and_an_objection(lock, hosts, node, objection):
    planned = plan_release(lock, fleet(*hosts), now=NOW)
    assert (planned.node, planned.objection) == (node, objection)


def kept(host_id):
    return replace(at_work(host_id), kept=True)


def test_the_host_for_which_a_lock_is_kept_is_its_holder_even_if_another_is_first_in_the_queue():
    lock = service(who("h2"), who("h3"), work=kept("h1"))
    assert lock.holder == Contender("h1.example.com (h1)", 940.0, "/zkdeployment/busy/shop,web", "h1")
    assert [contender.host_id for contender in lock.waiting] == ["h2", "h3"]
    assert (lock.abandoned_work, lock.since) == (None, 940.0)
    (document,) = (view.to_json() for view in lock_views([lock], fleet(host("h2"))))
    assert (document["kept"], document["left"], document["holder"]["registered"]) == (True, False, False)
    assert document["work"]["kept"] is True


def test_a_host_that_works_under_a_kept_lock_and_in_the_queue_does_not_wait_for_itself():
    assert [one.host_id for one in service(who("h2"), who("h1"), work=kept("h1")).waiting] == ["h2"]


@pytest.mark.parametrize(
    ("hosts", "objection"),
    [
        ([], None),
        ([host("h1")], None),
        ([host("h1", deploying="r2")], "h1.example.com (h1) is registered and deploying r2"),
    ],
)
def test_a_kept_lock_is_released_without_force_unless_its_host_works(hosts, objection):
    planned = plan_release(service(who("h2"), work=kept("h1")), fleet(*hosts), now=NOW)
    assert (planned.node, planned.owner) == ("/zkdeployment/busy/shop,web", "h1.example.com (h1)")
    assert planned.objection == objection


def test_a_lock_without_a_holder_cannot_be_released():
    with pytest.raises(RefusedError, match="the lock of role web has no holder"):
        plan_release(role(), fleet(), now=NOW)


def test_locks_of_absent_holders_come_first_then_the_oldest():
    fine, older = service(who("h1", 800.0)), role(who("h1", 700.0))
    orphaned, left = role(who("h9", 950.0)), service(who("h2"), work=at_work("h3"))
    absent, present = service(who("h1", 700.0), work=kept("h9")), service(who("h1"), work=kept("h2"))
    assert by_urgency([fine, present, orphaned, absent, older, left], fleet(host("h1"), host("h2"))) == [
        left,
        absent,
        orphaned,
        older,
        fine,
        present,
    ]


def test_locks_as_json():
    locks = [service(who("h1"), who("h2"), work=at_work("h1"))]
    (document,) = (view.to_json() for view in lock_views(locks, fleet(host("h1"))))
    assert document == {
        "kind": "service",
        "name": "/shop/web",
        "path": "/agent-locks/shop,web",
        "holder": {"identity": "h1.example.com (h1)", "host": "h1", "since": 900.0, "registered": True},
        "waiting": [{"identity": "h2.example.com (h2)", "host": "h2", "since": 900.0, "registered": False}],
        "work": {"host": "h1", "name": "h1.example.com", "step": "deploy /shop/web 0", "since": 940.0},
        "left": False,
        "kept": False,
    }
    assert lock_views([SYNCER], fleet())[0].to_json()["holder"]["registered"] is None
