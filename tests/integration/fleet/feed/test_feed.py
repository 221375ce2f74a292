"""The cached fleet on a real ZooKeeper: its content, its cost, and faults of servers and the network."""

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient

from support.builders import make_package
from support.fleets.registered import write_services
from support.proxy import Proxy
from support.waiting import UNLIMITED, wait_until
from support.zookeeper import connected, renew_session, sent_requests, through, write_node
from zkdeployment.base.deployment import Assignment, Deployment
from zkdeployment.base.errors import ConfigurationError, UnreachableError
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Marker
from zkdeployment.fleet.events.event import EventBatch, EventKind
from zkdeployment.fleet.feed.feed import COALESCED, ZooKeeperFeed
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.fleet.views.instances import DownInstances
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import HostState
from zkdeployment.publishing.records import Refusal
from zkdeployment.publishing.store.hosts import write_inventory
from zkdeployment.publishing.store.requests import write_refusal
from zkdeployment.sandbox.zookeeper import ZooKeeperServer
from zkdeployment.zookeeper.session import Session

#: The time limits of a feed that soon notices an outage of ZooKeeper; those of the others outlast a busy machine.
IMPATIENT = {"session_timeout": 6.0, "call_timeout": 3.0}


@contextmanager
def following(connection: str, **options: float) -> Iterator[ZooKeeperFeed]:
    """Run a feed that has read the fleet once."""
    feed = ZooKeeperFeed(lambda: Session(connection, **{"session_timeout": 20.0, "call_timeout": 10.0} | options))
    feed.start()
    try:
        wait_until(lambda: _has_read(feed), "the first reading")
        yield feed
    finally:
        feed.close()


def _has_read(feed: ZooKeeperFeed) -> bool:
    try:
        return feed.snapshot().connected
    except UnreachableError:
        return False


def fleet_of(feed: ZooKeeperFeed) -> FleetSnapshot:
    return feed.snapshot().fleet


@pytest.fixture
def fleet_nodes(client: KazooClient) -> KazooClient:
    write_node(client, "/hosts", {"version": "r1"})
    write_node(client, "/hosts/h1", {"name": "h1.example", "version": "r1"}, ephemeral=True)
    write_node(client, "/zkdeployment/targets", {"version": "r1", "sequence": 7, "ordered": "r1"})
    return client


def test_the_feed_has_the_same_fleet_as_the_fleet_reader(zookeeper: str, fleet_nodes: KazooClient):
    write_node(fleet_nodes, "/hosts/h2", {"name": "h2.example", "version": "r0", "error": "boom"}, ephemeral=True)
    write_node(fleet_nodes, "/hosts", {"version": None})
    write_node(fleet_nodes, "/zkdeployment/targets/web%2Dserver", {})
    write_node(fleet_nodes, "/zkdeployment/stops/h2", {"host": "h2", "name": "h2", "step": "deploy", "time": 4})
    write_node(fleet_nodes, "/zkdeployment/request", {"id": "1", "by": "jim"})
    write_node(
        fleet_nodes, "/zkdeployment/history/0000000007", {"revision": "r1", "sequence": 7, "subject": "web"}
    )
    write_node(fleet_nodes, "/zkdeployment/out-of-service/h2", {"role": "web"})
    write_node(fleet_nodes, "/zkdeployment/syncer", {"by": "s1", "said": "fine", "interval": 60})
    with Session(zookeeper) as session, following(zookeeper) as feed:
        write_refusal(session, Refusal("r9", ("a problem",), 5.0))
        wait_until(lambda: fleet_of(feed).refusal, "the refusal")
        write_node(fleet_nodes, "/zkdeployment/history/0000000003", {"revision": "r0", "sequence": 3})
        write_inventory(session, KnownHost(Identity("h3", "h3.example"), Inventory(), 5.0, completed=3))
        report = {"by": "s1", "said": "fine", "interval": 60, "absent": {"h3": 9.0, "h4": None}}
        write_node(fleet_nodes, "/zkdeployment/syncer", report)
        wait_until(lambda: fleet_of(feed).completed and fleet_of(feed).disappeared, "the absent host")
        assert fleet_of(feed) == ZooKeeperFleetReader(session).snapshot()
        assert fleet_of(feed).publication.sequence == 7
        assert (fleet_of(feed).completed, fleet_of(feed).disappeared) == ({3: "r0"}, report["absent"])
        assert feed.snapshot().reading.sequence == 7
        assert feed.snapshot().reading.syncer == ZooKeeperFleetReader(session).syncer_report()


SHOP = json.dumps([Assignment("/shop", 1, "shop-1", "shop").to_json()]).encode()


def test_an_instance_that_disappears_is_down_for_the_feed_as_for_the_fleet_reader(
    zookeeper: str, fleet_nodes: KazooClient
):
    write_node(fleet_nodes, "/hosts/h2", {"name": "h2.example", "version": "r0"}, ephemeral=True)
    write_node(fleet_nodes, "/hosts/h3", {"name": "h3.example", "version": "r0"}, ephemeral=True)
    for host in ("h1", "h2", "h3"):
        fleet_nodes.create(f"/zkdeployment/targets/{host}", SHOP)
    fleet_nodes.create("/shop/providers", makepath=True)
    inventory = Inventory(markers=(Marker(Deployment("/shop", 0), "shop", "shop"),))
    with Session(zookeeper) as session, following(zookeeper) as feed:
        write_inventory(session, KnownHost(Identity("h2", "h2.example"), inventory, 5.0))
        write_inventory(session, KnownHost(Identity("h3", "h3.example"), Inventory(), 5.0))
        reader = ZooKeeperFleetReader(session)

        def down() -> str:
            return feed.snapshot().status.down.sentence

        def is_equal() -> bool:
            return feed.snapshot().reading.services == reader.services(reader.snapshot())

        first, last = (
            feed.recent_events().last,
            "2 of 2 instances are down: /shop 0 on h1.example, /shop 0 on h2.example",
        )
        wait_until(is_equal, "the targets")
        assert down() == ""
        for number in (1, 2):
            write_node(
                fleet_nodes,
                f"/shop/providers/{number}",
                {"host": f"h{number}", "deployment": "/shop 0"},
                ephemeral=True,
            )
        wait_until(lambda: len(feed.snapshot().reading.services.providers.get("/shop", ())) == 2, "both register")
        assert (down(), is_equal()) == ("", True)
        fleet_nodes.delete("/shop/providers/1")
        wait_until(lambda: down() == "1 of 2 instances is down: /shop 0 on h1.example", "the first one ends")
        fleet_nodes.delete("/shop/providers/2")
        wait_until(lambda: down() == last, "the second one ends")
        assert is_equal()
        events = [event for batch in feed.recent_events().after(first) or () for event in batch.events]
    words = [event.body["words"] for event in events if event.kind is EventKind.INSTANCES]
    assert words[-1] == last


def test_changes_arrive_by_themselves_and_as_events(zookeeper: str, fleet_nodes: KazooClient):
    with following(zookeeper) as feed:
        before, start = fleet_of(feed), feed.recent_events().last
        write_node(fleet_nodes, "/hosts/h1", {"name": "h1.example", "version": "r1", "step": "1/2"})
        write_node(fleet_nodes, "/hosts/h2", {"name": "h2.example"}, ephemeral=True)
        write_node(fleet_nodes, "/hosts", {"version": None})
        write_node(
            fleet_nodes, "/zkdeployment/stops/h2", {"host": "h2", "name": "h2", "step": "deploy", "time": 4}
        )
        wait_until(lambda: len(fleet_of(feed).hosts) == 2 and fleet_of(feed).stops, "the changes")
        events = [event for batch in feed.recent_events().after(start) or () for event in batch.events]
    assert len(before.hosts) == 1
    assert {(event.kind, event.subject) for event in events} >= {
        (EventKind.HOST, "h1"),
        (EventKind.HOST, "h2"),
        (EventKind.PUBLICATION, "7"),
        (EventKind.STOP, "stopped"),
    }


def test_a_maintenance_that_ends_by_itself_leaves_the_fleet_with_an_event(
    zookeeper: str, fleet_nodes: KazooClient
):
    record = {"by": "ann", "reason": "new disk", "since": 1.0, "until": time.time() + UNLIMITED}
    write_node(fleet_nodes, "/zkdeployment/maintenance/h1", record)
    with following(zookeeper) as feed:
        assert fleet_of(feed).maintenance["h1"].until == record["until"]
        until = time.time() + 1.0
        write_node(fleet_nodes, "/zkdeployment/maintenance/h1", {**record, "until": until})
        wait_until(lambda: not fleet_of(feed).maintenance, "the end")
        assert time.time() >= until
        events = [event for batch in feed.recent_events().batches for event in batch.events]
    (*_, last) = (event for event in events if event.kind is EventKind.HOST)
    assert last.subject == "h1"
    assert last.body["state"] != HostState.MAINTENANCE.value


def test_nodes_that_are_created_later_are_followed(zookeeper: str, client: KazooClient):
    with following(zookeeper) as feed:
        assert fleet_of(feed).cluster is None
        write_node(client, "/hosts", {"version": "r1"})
        write_node(client, "/hosts/h1", {"version": "r1"}, ephemeral=True)
        wait_until(lambda: fleet_of(feed).hosts, "the host")
        client.delete("/hosts/h1")
        wait_until(lambda: not fleet_of(feed).hosts, "the host to leave")
        write_node(client, "/hosts/h1", {"version": "r2"}, ephemeral=True)
        wait_until(lambda: fleet_of(feed).hosts and fleet_of(feed).hosts[0].version == "r2", "the host to return")


def test_a_change_costs_requests_for_the_changed_nodes_only(
    zookeeper: str, fleet_nodes: KazooClient, monkeypatch: pytest.MonkeyPatch
):
    transaction = fleet_nodes.transaction()
    for number in range(1000):
        transaction.create(f"/hosts/many{number}", b'{"version": "r1"}', ephemeral=True)
    transaction.commit()
    with following(zookeeper) as feed:
        session = feed._session
        assert session is not None
        sent, begun = sent_requests(session, monkeypatch), time.monotonic()
        write_node(fleet_nodes, "/hosts/many500", {"version": "r2"})
        wait_until(lambda: any(host.version == "r2" for host in fleet_of(feed).hosts), "the change")
        for number in range(50):
            write_node(fleet_nodes, "/hosts/h1", {"version": f"r{number}"})
        wait_until(lambda: fleet_of(feed).hosts[0].version == "r49", "the burst")
        readings = 2 + (time.monotonic() - begun) / COALESCED
        hosts = [request.path for request in sent if getattr(request, "path", "").rpartition("/")[2] != "hosts"]
        for _ in range(200):
            feed.snapshot()
            feed.recent_events()
            feed.locks()
            feed.targets()
    assert len([path for path in hosts if path.endswith("many500")]) == 1
    assert 1 <= len([path for path in hosts if path.endswith("h1")]) <= readings
    assert len(sent) < 8 * readings


def test_the_feed_reads_a_thousand_services_once_and_an_instance_that_ends_in_a_few_requests(
    zookeeper: str, client: KazooClient, monkeypatch: pytest.MonkeyPatch
):
    write_services(client, 1000)
    with following(zookeeper) as feed:
        session = feed._session
        assert session is not None
        assert feed.snapshot().status.down == DownInstances(expected=1000)
        sent, begun = sent_requests(session, monkeypatch), time.monotonic()
        client.delete("/s7/providers/i")
        wait_until(lambda: feed.snapshot().status.down.count, "the instance is down")
        readings = 2 + (time.monotonic() - begun) / COALESCED
        paths = [request.path for request in sent if "/s" in str(getattr(request, "path", ""))]
    assert sorted({path.rpartition("/s")[2] for path in paths}) == ["7/providers", "7/providers/i"]
    assert len(sent) < 5 * readings


def test_the_age_grows_while_the_network_is_cut_and_the_feed_recovers(
    zookeeper: str, fleet_nodes: KazooClient, proxy: Proxy
):
    with following(through(proxy, zookeeper), **IMPATIENT) as feed:
        start = feed.recent_events().last
        woken: list[bool] = []
        feed.subscribe(lambda: woken.append(feed.snapshot().connected))
        proxy.cut()
        wait_until(lambda: not feed.snapshot().connected, "the feed to notice")
        away = feed.snapshot()
        wait_until(lambda: time.time() - feed.snapshot().read_at > 1.5, "the age to grow")
        with pytest.raises(UnreachableError):
            feed.locks()
        write_node(fleet_nodes, "/hosts/h1", {"version": "r5"})
        proxy.heal()
        wait_until(lambda: feed.snapshot().connected, "the recovery")
        wait_until(lambda: fleet_of(feed).hosts[0].version == "r5", "the change")
        events = [event for batch in feed.recent_events().after(start) or () for event in batch.events]
    assert away.fleet.hosts[0].version == "r1"
    assert False in woken  # the first call may be a late one about the connection before the cut
    shown = [event for event in events if event.kind is EventKind.FEED]
    assert [event.body["connected"] for event in shown][:2] == [False, True]


def test_a_frozen_server_is_noticed(zookeeper: str, fleet_nodes: KazooClient, proxy: Proxy):
    with following(through(proxy, zookeeper), **IMPATIENT) as feed:
        proxy.freeze()
        wait_until(lambda: not feed.snapshot().connected, "the feed to notice")
        proxy.heal()
        wait_until(lambda: feed.snapshot().connected, "the recovery")
        write_node(fleet_nodes, "/hosts/h1", {"version": "r6"})
        wait_until(lambda: fleet_of(feed).hosts[0].version == "r6", "the change")


def test_the_feed_follows_in_a_new_session_and_after_a_restart_of_the_server(
    own_zookeeper_server: ZooKeeperServer,
):
    with connected(own_zookeeper_server.address) as client:
        write_node(client, "/hosts", {"version": "r1"})
        write_node(client, "/hosts/h1", {"version": "r1"})
    with following(own_zookeeper_server.address) as feed:
        session = feed._session
        assert session is not None
        renew_session(session)
        with connected(own_zookeeper_server.address) as client:
            write_node(client, "/hosts/h1", {"version": "r2"})
            wait_until(lambda: fleet_of(feed).hosts[0].version == "r2", "the change in the new session")
        own_zookeeper_server.kill()
        wait_until(lambda: not feed.snapshot().connected, "the feed to notice")
        own_zookeeper_server.start()
        wait_until(lambda: feed.snapshot().connected, "the recovery")
        with connected(own_zookeeper_server.address) as client:
            write_node(client, "/hosts/h1", {"version": "r3"})
        wait_until(lambda: fleet_of(feed).hosts[0].version == "r3", "the change after the restart")


def test_a_service_that_starts_without_zookeeper_reports_that_and_reads_later(zookeeper: str, proxy: Proxy):
    proxy.cut()
    feed = ZooKeeperFeed(lambda: Session(through(proxy, zookeeper), session_timeout=6.0, call_timeout=1.0))
    feed.start()
    try:
        with pytest.raises(UnreachableError, match="has not been read yet"):
            feed.snapshot()
        proxy.heal()
        wait_until(lambda: _has_read(feed), "the first reading")
    finally:
        feed.close()


def test_a_feed_tries_again_after_a_session_that_could_not_be_made(zookeeper: str):
    made: list[Session] = []

    def make() -> Session:
        made.append(Session(zookeeper))
        if len(made) == 1:
            raise ConfigurationError("the certificate is being renewed")
        return made[-1]

    feed = ZooKeeperFeed(make)
    feed.start()
    wait_until(lambda: _has_read(feed), "the first reading")
    feed.close()


def test_the_session_of_a_feed_ends_with_the_feed(zookeeper: str):
    session = Session(zookeeper)
    feed = ZooKeeperFeed(lambda: session)
    feed.start()
    wait_until(lambda: _has_read(feed), "the first reading")
    feed.close()
    assert not session.alive


def test_no_event_is_lost_when_a_client_resumes_at_a_second_service(zookeeper: str, fleet_nodes: KazooClient):
    with following(zookeeper) as first, following(zookeeper) as second:
        versions = [f"v{number}" for number in range(60)]
        for place, version in enumerate(versions):
            write_node(fleet_nodes, f"/hosts/h{place}", {"version": version}, ephemeral=True)
            if place == 30:
                wait_until(lambda: _hosts(first.recent_events().batches), "events of the first service")
                last = first.recent_events().batches[-1].id
        wait_until(lambda: len(fleet_of(second).hosts) == 60, "all hosts at the second service")
        received = _hosts(batch for batch in first.recent_events().batches if batch.id <= last)
        resumed = second.recent_events().since(last)
    assert resumed is not None
    assert received
    assert _hosts(resumed) >= {"h31", "h59"}
    assert received | _hosts(resumed) >= {f"h{place}" for place in range(60)}


def _hosts(batches: Iterable[EventBatch]) -> set[str]:
    return {event.subject for batch in batches for event in batch.events if event.kind is EventKind.HOST}


def test_the_id_to_resume_from_advances_while_nothing_of_the_fleet_changes(
    zookeeper: str, fleet_nodes: KazooClient
):
    with following(zookeeper) as feed:
        before = feed.snapshot()
        last = fleet_nodes.create("/elsewhere", b"", sequence=True, include_data=True)[1].czxid
        wait_until(lambda: feed.snapshot().zxid >= last, "the id to advance")
        assert feed.snapshot().reading is before.reading


def test_inventories_are_read_once_and_again_after_they_changed(zookeeper: str, monkeypatch: pytest.MonkeyPatch):
    hello, glibc = (make_package(name, "1.0") for name in ("hello", "glibc"))
    marker = Marker(Deployment("/demo/hello", 0), "hello", "hello")
    inventory = Inventory(packages={"hello": (hello,), "glibc": (glibc,)}, markers=(marker,))
    with Session(zookeeper) as session, following(zookeeper) as feed:
        write_inventory(session, KnownHost(Identity("h1", "h1"), inventory, 5.0))
        (known,) = feed.known_hosts(["h1", "nowhere"])
        sent = sent_requests(feed._session, monkeypatch)  # type: ignore[arg-type]
        assert feed.known_hosts(["h1", "nowhere"]) == (known,)
        reads = [request for request in sent if "/inventory/" in getattr(request, "path", "")]
        write_inventory(session, KnownHost(Identity("h1", "h1"), Inventory(), 6.0))
        wait_until(lambda: feed.known_hosts(["h1"])[0].inventory == Inventory(), "the new inventory")
    assert reads == []
    assert known.inventory is not None
    assert set(known.inventory.packages) == {"hello"}
    assert known.inventory.markers == (marker,)
