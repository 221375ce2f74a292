"""The services and their instances, as the fleet reader reads them from a real ZooKeeper."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from kazoo.client import KazooClient

from support.fleets.registered import write_services
from support.waiting import UNLIMITED
from support.zookeeper import sent_requests, write_node
from zkdeployment.fleet.store import fleet_reader
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.fleet.views.status import fleet_status
from zkdeployment.zookeeper.session import TOGETHER, Session

SERVICES = 1000


@pytest.fixture
def reader_session(zookeeper: str) -> Iterator[Session]:
    with Session(zookeeper) as session:
        yield session


def test_a_thousand_services_are_read_in_few_requests_and_their_targets_once(
    client: KazooClient, reader_session: Session, monkeypatch: pytest.MonkeyPatch
):
    write_services(client, SERVICES)
    reader = ZooKeeperFleetReader(reader_session)
    snapshot, sent = reader.snapshot(), sent_requests(reader_session, monkeypatch)
    client.delete("/s7/providers/i")
    first = reader.services(snapshot)
    both, again = len(sent), reader.services(snapshot)
    assert (
        fleet_status(snapshot, services=first).down.sentence == "1 of 1000 instances is down: /s7 0 on h1.example"
    )
    assert again == first
    assert 3 * SERVICES / TOGETHER <= both <= 3 * SERVICES / TOGETHER + 6
    assert len(sent) - both == both - 2


def test_services_of_a_revision_that_was_published_after_the_snapshot_are_not_judged(
    client: KazooClient, reader_session: Session
):
    write_services(client, 1)
    reader = ZooKeeperFleetReader(reader_session)
    snapshot = reader.snapshot()
    client.delete("/s0/providers/i")
    before = reader.services(snapshot)
    write_node(client, "/zkdeployment/targets", {"version": "r2", "sequence": 8})
    after = reader.services(snapshot)
    assert [fleet_status(snapshot, services=services).down.count for services in (before, after)] == [1, 0]


def test_a_target_that_cannot_be_read_leaves_the_other_facts_of_the_fleet(
    client: KazooClient, reader_session: Session
):
    write_node(client, "/hosts", {"version": "r1"})
    write_node(client, "/hosts/h1", {"name": "h1.example", "version": "r1"})
    write_node(client, "/zkdeployment/targets", {"version": "r1", "sequence": 7})
    client.create("/zkdeployment/targets/h1", b"damaged")
    reader = ZooKeeperFleetReader(reader_session)
    snapshot = reader.snapshot()
    assert fleet_status(snapshot, services=reader.services(snapshot)).converged


def test_threads_that_read_at_once_see_the_whole_fleet(
    client: KazooClient, reader_session: Session, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fleet_reader, "_PATIENCE", UNLIMITED)
    for number in range(5):
        write_node(client, f"/hosts/h{number}", {"name": f"h{number}.example", "version": "r1"})
    reader = ZooKeeperFleetReader(reader_session)
    with ThreadPoolExecutor(8) as threads:
        seen = list(threads.map(lambda _: len(reader.snapshot().hosts), range(200)))
    assert set(seen) == {5}
