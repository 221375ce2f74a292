"""The page of a service: its versions over time, the queue of its lock, and the services and hosts that wait."""

from dataclasses import replace

from zkdeployment.base.deployment import Assignment, HostResult
from zkdeployment.base.lock import Contender, Lock, LockedWork, LockKind
from zkdeployment.base.publication import Origin
from zkdeployment.fleet.views.status import FleetStatus, HostState, HostStatus
from zkdeployment.publishing.records import PublicationRecord, ServiceVersion
from zkdeployment.service.views.service import lock_queue, service_order, version_chart
from zkdeployment.service.views.services import ServiceHosts

WEB = Assignment("/shop/web", 1, "shop-web", "shop-web", version="1.3", after=("/shop/db",))
DB = Assignment("/shop/db", 1, "shop-db", "shop-db", version="7")
SERVICE = ServiceHosts("/shop/web", "shop-web", {"w0": WEB, "w1": WEB})
NOW = 1000.0


def record(sequence, time, version, *results, path="/shop/web"):
    return PublicationRecord(
        f"r{sequence}",
        time,
        sequence,
        origin=Origin("ann", f"Web {version}", time),
        versions=(ServiceVersion(path, version),),
        results={result.host_id: result for result in results},
    )


def done(host, time, error=None):
    return HostResult(host, host, time, 1.0, error)


def test_versions_over_time_have_the_times_for_which_they_were_wanted_and_deployed():
    records = [
        record(3, 900.0, "1.3", done("w0", 950.0), done("w1", 960.0, "boom")),
        record(2, 800.0, "9", path="/shop/db"),
        record(1, 500.0, "1.2", done("w0", 510.0), done("w1", 600.0), done("other", 990.0)),
    ]

    found = version_chart(records, SERVICE, NOW)

    newest, former = found.spans
    assert (newest.version, newest.deployed, newest.failed) == ("1.3", "on 1 host, the last after 50 s", 1)
    assert (newest.left, newest.width, newest.deployed_left, newest.deployed_width) == (80.0, 20.0, 90.0, 10.0)
    assert (former.version, former.deployed) == ("1.2", "on 2 hosts, the last after 1 min")
    assert (former.left, former.width, former.deployed_left, former.deployed_width) == (0.0, 80.0, 2.0, 88.0)
    assert (newest.subject, newest.publication) == ("Web 1.3", "/history/3")


def test_a_version_that_no_host_has_and_a_removed_service_are_named():
    removed, wanted = version_chart([record(2, 900.0, ""), record(1, 500.0, "1")], SERVICE, NOW).spans

    assert (removed.version, removed.deployed, wanted.deployed_width) == ("not deployed", "on no host yet", 0.0)
    assert version_chart([record(1, 500.0, "1", path="/shop/db")], SERVICE, NOW) is None


def test_a_version_whose_hosts_the_history_only_counts_is_not_called_undeployed():
    counted = [
        replace(each, left_out=9_000) for each in (record(2, 900.0, "2"), record(1, 500.0, "1", done("w0", 510.0)))
    ]

    newest, former = version_chart(counted, SERVICE, NOW).spans

    assert newest.deployed == "the history only counts the hosts"
    assert former.deployed == "on 1 host or more, the last after 10 s"


def lock(*contenders, work=None):
    return Lock(LockKind.SERVICE, "/shop/web", "/locks/web", contenders, work)


def test_the_queue_of_the_lock_has_its_holder_and_the_waiting_hosts_in_order():
    contenders = [Contender(f"w{number}", 900.0 + number, f"n{number}", f"w{number}") for number in range(20)]
    work = LockedWork("w0", "w0", "deploy /shop/web 0", 940.0)

    found = lock_queue([lock(*contenders, work=work)], "/shop/web", NOW)

    assert [(place.name, place.is_holder) for place in found.places[:3]] == [
        ("w0", True),
        ("w1", False),
        ("w2", False),
    ]
    assert (found.places[0].href, found.places[0].waited, found.work) == ("/hosts/w0", "1 min", work.step)
    assert (len(found.places), found.more) == (12, 8)


def test_a_service_without_a_held_lock_has_no_queue():
    assert lock_queue([lock()], "/shop/web", NOW) is None
    assert lock_queue([lock(Contender("w0", 1.0, "n"))], "/shop/db", NOW) is None


def test_services_before_and_after_and_hosts_that_wait_now_are_named():
    hosts = (
        HostStatus("d0", "d0", HostState.DEPLOYING),
        HostStatus("w0", "w0", HostState.BEHIND, step="waits for /shop/db on d0"),
        HostStatus("w1", "w1", HostState.BEHIND, step="waits for /shop/db2 on d0"),
    )
    status = FleetStatus(None, None, hosts, False, (), "")
    targets = {"web": (WEB,), "db": (DB,)}

    web = service_order(SERVICE, targets, status)
    db = service_order(ServiceHosts("/shop/db", "shop-db", {"d0": DB}), targets, status)

    assert [(each.path, each.href) for each in web.before] == [("/shop/db", "/services/shop/db")]
    assert (web.after, web.waiting) == ((), ())
    assert [(each.path, each.left) for each in db.after] == [("/shop/web", "1 host")]
    assert [each.text for each in db.waiting] == ["w0"]


def test_only_some_of_many_neighbours_are_named():
    paths = tuple(f"/shop/{number:02}" for number in range(50))
    web = replace(WEB, after=paths)
    others = tuple(Assignment(path, 1, "x", "x", after=("/shop/web",)) for path in paths)

    found = service_order(
        ServiceHosts("/shop/web", "shop-web", {"w0": web}),
        {"web": (web,), "others": others},
        FleetStatus(None, None, (), False, (), ""),
    )

    assert (len(found.before), found.more_before, len(found.after), found.more_after) == (20, 30, 20, 30)
