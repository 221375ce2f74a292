"""The page of locks: holders, their work, who waits, and what needs attention."""

from dataclasses import replace
from functools import partial

from support.builders import make_contender, make_host, make_role_lock, make_service_lock, make_user
from zkdeployment.base.lock import Contender, Lock, LockedWork, LockKind
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.service.users.user import Role
from zkdeployment.service.views.locks import lock_rows

NOW = 10_000.0
ANN = make_user("ann", Role.OPERATOR)
FLEET = FleetSnapshot(hosts=(make_host("h1", "r1"),))


def contender(number):
    return make_contender(f"h{number}", 9_940.0)


service = partial(make_service_lock, path="/shop/web")


def rows(*locks, user=ANN):
    return lock_rows(locks, FLEET, now=NOW, user=user)


def test_a_lock_shows_its_holder_the_work_and_the_first_hosts_that_wait():
    work = LockedWork("h1", "h1.example.com", "deploy /shop/web 0", 9_900.0)

    (row,) = rows(service(*map(contender, range(1, 7)), work=work))

    assert row.holder is not None
    assert (row.holder.name, row.holder.href) == ("h1.example.com (h1)", "/hosts/h1")
    assert (row.held_for, row.work, row.warning) == ("1 min", "deploy /shop/web 0", "")
    assert (len(row.waiting), row.more_waiting) == (3, 2)
    assert row.release == "/acts/release?lock=%2Fagent-locks%2Fshop%2Cweb&back=%2Flocks"


def test_work_that_lost_its_lock_and_absent_holders_are_warnings():
    lost = service(work=LockedWork("h2", "h2.example.com", "deploy /shop/web 0", 9_900.0))
    orphaned = make_role_lock(contender(9), role="web")

    found = {row.kind: row for row in rows(lost, orphaned)}

    assert found["service"].warning.startswith("h2.example.com lost the lock at deploy /shop/web 0, 1 min ago")
    assert found["service"].holder is None
    assert found["role"].warning.startswith("The holder is not registered.")


def test_a_kept_lock_shows_the_host_that_has_to_complete_its_step():
    kept = LockedWork("h1", "h1.example.com", "deploy /shop/web 0", 9_900.0, kept=True)
    absent = replace(kept, host_id="h9", host_name="h9.example.com")

    (row,) = rows(service(contender(2), contender(3), work=kept))
    (gone,) = rows(service(contender(2), work=absent))

    assert row.holder is not None
    assert (row.holder.name, row.warning, row.held_for) == ("h1.example.com (h1)", "", "1 min")
    assert row.work == "deploy /shop/web 0; the lock is kept for this host until the step is complete"
    assert [host.name for host in row.waiting] == ["h2.example.com (h2)", "h3.example.com (h3)"]
    assert row.release is not None
    assert gone.warning.startswith("The holder is not registered. The lock stays held until that host is back")


def test_a_syncer_is_not_a_host_and_viewers_cannot_release_locks():
    syncer = Contender("syncer on adm1", 9_000.0, "/hosts-lock/a")
    lock = Lock(LockKind.SYNCER, "/hosts-lock", "/hosts-lock", (syncer,))

    (row,) = rows(lock, user=replace(ANN, role=Role.VIEWER))

    assert row.holder is not None
    assert (row.holder.href, row.release) == ("", None)


def test_an_operator_with_paths_releases_only_the_locks_of_services_below_them():
    role = make_role_lock(contender(1), role="web")
    lock = service(contender(1))

    offered = {
        paths: [row.name for row in rows(lock, role, user=replace(ANN, paths=paths)) if row.release]
        for paths in ((), ("/shop",), ("/sho",))
    }

    assert offered == {(): ["/shop/web", "web"], ("/shop",): ["/shop/web"], ("/sho",): []}
    assert [row.release for row in rows(lock, user=None)] == [None]
