"""The order between services in a real ZooKeeper."""

import hashlib
import json
from dataclasses import replace

import pytest
from kazoo.protocol.serialization import GetChildren

from support.strategies import active_rollout, begun_rollout
from support.waiting import wait_until
from support.zookeeper import write_node
from zkdeployment.agent.rules.waiting import is_finished, order_wait
from zkdeployment.agent.store.service_orders import PublicationOrder, ZooKeeperAwaitedService
from zkdeployment.base.act import Act
from zkdeployment.base.errors import ConflictError
from zkdeployment.base.host import Facts
from zkdeployment.base.publication import OrderEntry
from zkdeployment.fleet.store.cluster_control import ZooKeeperMaintenance
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.fleet.views.maintenance import HostSelection
from zkdeployment.publishing.store.service_order import encode_entry, read_unfinished, remove_orders_before
from zkdeployment.strategies.permission import RolloutOutline
from zkdeployment.strategies.store.records import encode_state
from zkdeployment.strategies.strategy import Group, Selector, Strategy
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import NODE_LIMIT

SEQUENCE = 1_700_000_000
PATH = f"/zkdeployment/order/{SEQUENCE}/shop,db"


@pytest.fixture
def session(zookeeper):
    with Session(zookeeper, session_timeout=6) as session:
        yield session


@pytest.fixture
def orders(session):
    return PublicationOrder(session, SEQUENCE)


def unfinished(session):
    return read_unfinished(session, SEQUENCE, session.children(paths.order_path(SEQUENCE)) or ())


def expect(client, *hosts, gaining=()):
    client.create(PATH, encode_entry(OrderEntry(tuple(hosts), tuple(gaining))), makepath=True)
    client.ensure_path("/hosts")


def register(client, host_id, **properties):
    data = json.dumps({"name": f"{host_id}.example.com", "version": None, **properties}).encode()
    client.create(f"/hosts/{host_id}", data)


def finish(orders, host_id):
    orders.finish("/shop/db", host_id)


def test_the_last_expected_host_wakes_those_that_wait(client, orders):
    expect(client, "h1", "h2")
    register(client, "h1")
    register(client, "h2")
    service = ZooKeeperAwaitedService(orders, "/shop/db")
    wait = order_wait("/shop/db", service.progress(), gaining=False)
    assert (wait.missing, wait.names) == (("h1", "h2"), ("h1.example.com", "h2.example.com"))
    finish(orders, "h1")
    finish(orders, "h1")
    assert service.is_unchanged, "a host that is not the last one wakes nobody"
    finish(orders, "h2")
    wait_until(lambda: not service.is_unchanged, "the waiting host is woken")
    assert is_finished(service.progress())
    assert sorted(client.get_children(PATH)) == ["h1", "h2"]


def test_an_entry_is_not_complete_while_an_expected_host_has_left(client, orders):
    expect(client, "h1", "h2")
    register(client, "h2")
    service = ZooKeeperAwaitedService(orders, "/shop/db")
    assert order_wait("", service.progress(), gaining=False).missing == ("h2",)
    finish(orders, "h2")
    client.delete("/hosts/h2")
    assert not order_wait("", service.progress(), gaining=False)
    register(client, "h1")
    assert order_wait("", service.progress(), gaining=False).missing == ("h1",)
    finish(orders, "h1")
    assert is_finished(service.progress())


@pytest.fixture
def listed(session, monkeypatch):
    """The names of the nodes whose children the session reads."""
    names, call = [], session._client._call

    def note(request, result):
        reads = getattr(request, "reads", [request])
        names.extend(
            read.path.rpartition("/")[2]
            for read in reads
            if isinstance(read, GetChildren) or getattr(read, "children", False)
        )
        return call(request, result)

    monkeypatch.setattr(session._client, "_call", note)
    return names


def test_the_names_of_all_hosts_are_read_only_if_many_hosts_are_awaited(client, orders, listed):
    awaited = [f"db{number:02}" for number in range(22)]
    expect(client, "h1", "h2", "h3")
    for name in ("h1", "h2", *awaited):
        register(client, name)
    service = ZooKeeperAwaitedService(orders, "/shop/db")
    assert order_wait("", service.progress(), gaining=False).missing == ("h1", "h2")
    assert set(listed) == {"shop,db", "maintenance", "reboots"}
    client.set(PATH, encode_entry(OrderEntry(("away", *awaited))))
    assert order_wait("", service.progress(), gaining=False).missing == tuple(awaited)
    assert listed.count("hosts") == 1


def test_no_host_waits_for_a_host_in_maintenance(client, orders, session):
    expect(client, "h1", "h2")
    for name in ("h1", "h2"):
        register(client, name)
    maintenance = ZooKeeperMaintenance(session, ZooKeeperFleetReader(session))
    maintenance.begin(HostSelection(("h1",)), Act("ann", "cordon h1", "new disk", 1.0))
    service = ZooKeeperAwaitedService(orders, "/shop/db")
    assert order_wait("", service.progress(), gaining=False).missing == ("h2",)
    finish(orders, "h2")
    assert not order_wait("", service.progress(), gaining=False)
    maintenance.end(HostSelection(("h1",)), Act("ann", "uncordon h1", "", 2.0))
    assert order_wait("", service.progress(), gaining=False).missing == ("h1",)


def test_reading_the_progress_again_sets_no_further_watch(client, orders, session):
    expect(client, "h1")
    register(client, "h1")
    service = ZooKeeperAwaitedService(orders, "/shop/db")
    for _ in range(5):
        service.progress()
    assert max(map(len, session._client._data_watchers.values())) == 1


def test_a_host_that_has_the_publication_counts_although_its_agent_recorded_nothing(client, orders):
    expect(client, "h1", "h2")
    register(client, "h1", version="r1", sequence=SEQUENCE)
    register(client, "h2", version="r1", sequence=SEQUENCE - 1)
    progress = ZooKeeperAwaitedService(orders, "/shop/db").progress()
    assert order_wait("", progress, gaining=False).missing == ("h2",)
    assert client.get_children(PATH) == ["h1"]


def test_a_new_host_joins_unless_the_service_is_complete(client, orders):
    expect(client)
    orders.join("/shop/db", "h1")
    assert orders.entries(["/shop/db", "/other"]) == {"/shop/db": OrderEntry(("h1",))}
    finish(orders, "h1")
    orders.join("/shop/db", "h2")
    assert orders.entries(["/shop/db"]) == {"/shop/db": OrderEntry(("h1",))}


def publish(client, sequence):
    client.ensure_path("/zkdeployment/targets")
    write_node(client, "/zkdeployment/targets", {"version": "r1", "sequence": sequence})


def test_a_missing_entry_is_superseded_and_never_finished(client, orders):
    publish(client, SEQUENCE)
    expect(client, "h1")
    service = ZooKeeperAwaitedService(orders, "/shop/db")
    assert orders.entries(["/shop/db"]).keys() == {"/shop/db"}
    publish(client, SEQUENCE + 1)
    assert not is_finished(service.progress()), "the entry lasts as long as its nodes"
    client.delete(PATH)
    finish(orders, "h1")
    orders.join("/shop/db", "h1")
    with pytest.raises(ConflictError, match=f"{SEQUENCE} is superseded by {SEQUENCE + 1}"):
        service.progress()
    with pytest.raises(ConflictError, match="is superseded"):
        orders.entries(["/shop/db"])


def test_a_missing_entry_of_the_last_publication_is_a_failure(client, orders):
    publish(client, SEQUENCE)
    wait = order_wait("/shop/db", ZooKeeperAwaitedService(orders, "/shop/db").progress(), gaining=False)
    assert wait.failure.startswith("ZooKeeper has lost which hosts deploy /shop/db before this host; publish")


def test_orders_of_later_publications_are_kept(client, session):
    for sequence in (SEQUENCE - 1, SEQUENCE, SEQUENCE + 1):
        client.create(f"/zkdeployment/order/{sequence}/shop,db/h1", b"", makepath=True)
    remove_orders_before(session, SEQUENCE)
    assert sorted(client.get_children("/zkdeployment/order")) == [str(SEQUENCE), str(SEQUENCE + 1)]


def test_a_damaged_entry_delays_no_host(client, orders, session):
    client.create(PATH, b"\x00damaged", makepath=True)
    assert is_finished(ZooKeeperAwaitedService(orders, "/shop/db").progress())
    assert unfinished(session) == {}


def test_the_next_publication_knows_which_hosts_still_lack_a_service(client, orders, session):
    expect(client, "h1", "h2", "h3", gaining=["h2", "h3"])
    register(client, "h2")
    finish(orders, "h3")
    assert unfinished(session) == {"/shop/db": {"h2"}}
    finish(orders, "h2")
    assert unfinished(session) == {}


def test_hosts_that_failed_in_the_rollout_are_known_with_their_errors(client, orders):
    expect(client, "h1", "h2")
    register(client, "h1")
    register(client, "h2")
    group = Group("all", critical=False, selectors=(Selector(names=frozenset({"h1", "h2"})),))
    state = begun_rollout(Strategy("s", (group,)), {"h1": Facts(), "h2": Facts()})
    state = active_rollout(replace(state, sequence=SEQUENCE), failed=["h2"])
    client.create(f"/zkdeployment/rollouts/{state.id}", encode_state(state), makepath=True)
    write_node(client, "/zkdeployment/rollouts", {"current": state.id})
    progress = ZooKeeperAwaitedService(orders, "/shop/db").progress()
    wait = order_wait("/shop/db", progress, gaining=False)
    assert wait.failure == "/shop/db is not deployed on h2.example.com, which this host waits for: boom"


def test_a_host_that_finished_the_service_before_it_failed_is_not_awaited(client, orders, monkeypatch):
    expect(client, "h1", "h2")
    register(client, "h2")
    outline = RolloutOutline(SEQUENCE, failures={"h1": "boom", "h2": "boom"})

    def fail_after_the_service(*_):
        finish(orders, "h2")
        return outline

    monkeypatch.setattr("zkdeployment.agent.store.service_orders.read_outline", fail_after_the_service)
    progress = ZooKeeperAwaitedService(orders, "/shop/db").progress()
    assert progress.finished == {"h2"}
    assert progress.failed.keys() == {"h1"}


def test_a_host_is_only_taken_for_failed_if_its_record_was_read(client, orders):
    names = [f"db{number:02}" for number in range(25)]
    expect(client, *names)
    for name in names:
        register(client, name, version="r1", sequence=SEQUENCE)
    group = Group("app", critical=False, selectors=(Selector(names=frozenset({"app1"})),))
    state = begun_rollout(Strategy("s", (group,)), {"app1": Facts()})
    state = active_rollout(replace(state, sequence=SEQUENCE), granted=["app1"])
    client.create(f"/zkdeployment/rollouts/{state.id}", encode_state(state), makepath=True)
    write_node(client, "/zkdeployment/rollouts", {"current": state.id})
    service = ZooKeeperAwaitedService(orders, "/shop/db")
    wait = order_wait("/shop/db", service.progress(), gaining=False)
    assert (len(wait.missing), wait.failure) == (5, "")
    assert is_finished(service.progress())


def test_an_entry_of_ten_thousand_hosts_fits_into_its_node():
    hosts = tuple(hashlib.sha256(str(number).encode()).hexdigest()[:12] for number in range(10_000))
    assert len(encode_entry(OrderEntry(hosts, hosts))) < NODE_LIMIT / 2
