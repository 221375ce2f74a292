"""The list of a filter in a real ZooKeeper: one transaction for each change, written by the leader only."""

import threading
from fractions import Fraction

import pytest

from support.waiting import wait_until
from support.zookeeper import renew_session
from zkdeployment.base.errors import ConfigurationError, ConflictError, LinkError, LockLostError, RefusedError
from zkdeployment.providers.filter import ZooKeeperFilter
from zkdeployment.providers.instance import Provider
from zkdeployment.providers.reader import ZooKeeperProviderReader
from zkdeployment.providers.selection import FilterChange, FilteredList, next_change
from zkdeployment.publishing.store.cluster import encode_managed
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode

SOURCE, OUTPUT = "/shop/web/providers", "/in-service/web"


@pytest.fixture
def service(session, client):
    client.create(SOURCE, makepath=True)
    client.create("/alias", b'{"web ->": "/shop/web"}')

    def register(address, version):
        Provider(session, SOURCE, address).register({"version": version})

    return register


def store_of(session, source=SOURCE, changed=lambda: None):
    return ZooKeeperFilter(session, source, OUTPUT, changed)


def update(store):
    """Let a filter that has heard of all changes bring its list up to date."""
    store._session.sync()
    store._session.settle_watches()
    filtered = store.filtered()
    change = next_change(store.registered(), filtered, Fraction(60))
    if change is not None:
        store.write(change)
    return change


def listed(session):
    found = ZooKeeperProviderReader(session).read(OUTPUT)
    return found.kept, {address: provider.version for address, provider in found.providers.items()}


def test_the_leader_writes_the_list_with_its_version_and_a_successor_continues_it(session, other, service):
    first, second = store_of(session, "/alias/web/providers"), store_of(other, "/alias/web/providers")
    assert first.lead(5)
    assert not second.lead(0.05)
    with pytest.raises(LockLostError, match="another one keeps /in-service/web"):
        update(second)
    update(first)
    assert listed(session) == (None, {})
    for number, version in enumerate(["1.1", "1.1", "1.1", "1.4", "1.4"], 1):
        service(f"app{number}:80", version)
    update(first)
    assert listed(other) == ("1.1", {"app1:80": "1.1", "app2:80": "1.1", "app3:80": "1.1"})
    assert update(first) is None
    first.resign()
    assert second.lead(5)
    assert update(second) is None
    service("app3:80", "1.4")
    assert update(second).version == "1.4"
    assert listed(session) == ("1.4", {"app3:80": "1.4", "app4:80": "1.4", "app5:80": "1.4"})
    assert session.get(f"{OUTPUT}/app3:80").owner == 0
    with pytest.raises(RefusedError, match="holds the list of a filter of /alias/web/providers, not of"):
        store_of(other).filtered()


def test_a_filter_whose_session_expired_writes_nothing(session, service):
    store = store_of(session)
    assert store.lead(5)
    service("app1:80", "1.1")
    store.filtered()
    renew_session(session)
    with pytest.raises(LockLostError, match="its ZooKeeper session expired"):
        store.write(FilterChange("1.1", {"app1:80": {}}, {}, ()))
    assert session.get(OUTPUT) is None
    assert store.lead(5)
    store.filtered()
    store.write(FilterChange("1.1", {"app1:80": {}}, {}, ()))
    assert session.children(OUTPUT) == ["app1:80"]


def test_a_change_by_others_between_reading_and_writing_conflicts(session, client, service):
    store = store_of(session)
    assert store.lead(5)
    service("app1:80", "1.1")
    update(store)
    found = store.filtered()
    assert found == FilteredList(SOURCE, "1.1", {"app1:80": {"version": "1.1"}})
    client.set(OUTPUT, client.get(OUTPUT)[0])
    with pytest.raises(ConflictError, match="cannot set /in-service/web: another client changed it"):
        store.write(FilterChange("1.4", {}, {}, ["app1:80"]))
    client.delete(f"{OUTPUT}/app1:80")
    update(store)
    assert listed(session) == ("1.1", {"app1:80": "1.1"})


@pytest.mark.usefixtures("service")
def test_lists_that_are_refused(session, client):
    store = store_of(session)
    client.create(f"{OUTPUT}/foreign", makepath=True)
    with pytest.raises(RefusedError, match="it holds nodes that no filter wrote"):
        store.filtered()
    client.delete(f"{OUTPUT}/foreign")
    client.create(paths.MANAGED, encode_managed(["/shop"], ["/in-service"]), makepath=True)
    with pytest.raises(RefusedError, match="the tree's repository manages /in-service"):
        store.filtered()
    client.set(paths.MANAGED, encode_managed(["/shop"], []))
    assert store.filtered() == FilteredList(None, None, {})
    client.create("/out", b'{"web ->": "/in-service"}')
    with pytest.raises(ConfigurationError, match="not at, above or below /in-service"):
        store_of(session, "/out/web").registered()
    with pytest.raises(LinkError, match="there is no node /shop/nothing"):
        store_of(session, "/shop/nothing").registered()
    with pytest.raises(ConfigurationError, match="/ has no instances"):
        ZooKeeperProviderReader(session).read("/")
    with pytest.raises(ConfigurationError, match="is not the path of a node"):
        store_of(session, "shop")


def test_a_filter_is_woken_by_instances_by_their_properties_and_by_changes_of_its_list(session, client, service):
    woken = threading.Event()
    store = store_of(session, changed=woken.set)
    assert store.lead(5)
    service("app1:80", "1.1")
    update(store)
    for change in (
        lambda: service("app2:80", "1.1"),
        lambda: client.set(f"{SOURCE}/app2:80", encode({"version": "1.4"})),
        lambda: client.delete(f"{OUTPUT}/app1:80"),
    ):
        wait_until(lambda: update(store) is None, "the list is as wanted")
        woken.clear()
        change()
        assert woken.wait()


@pytest.mark.usefixtures("service")
def test_readers_never_see_half_a_switch(session, other):
    """All instances keep their addresses: only their versions tell a mixed list from a whole one."""
    store, versions = store_of(session), {f"app{number}:80" for number in range(30)}
    assert store.lead(5)
    store.filtered()
    store.write(FilterChange("0", {address: {"version": "0"} for address in versions}, {}, ()))
    ended, seen, mixed = threading.Event(), set(), []

    def read():
        reader = ZooKeeperProviderReader(other)
        while not ended.is_set():
            found = reader.read(OUTPUT)
            seen.add(found.kept)
            if {provider.version for provider in found.providers.values()} != {found.kept} or len(
                found.providers
            ) != len(versions):
                mixed.append(found)

    reading = threading.Thread(target=read)
    reading.start()
    try:
        for number in range(1, 60):
            store.filtered()
            changed = {address: {"version": str(number)} for address in versions}
            store.write(FilterChange(str(number), {}, changed, ()))
        wait_until(lambda: "59" in seen, "the last switch is read")
    finally:
        ended.set()
        reading.join()
    assert mixed == []
    assert len(seen) > 5
