"""Recorded stops: their largest number, and stops that are recorded during a resume or a publication."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.builders import make_host
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.act import Act
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.errors import ConflictError
from zkdeployment.base.stop import Stop
from zkdeployment.fleet.store.cluster_control import ZooKeeperClusterControl
from zkdeployment.fleet.views.snapshot import describe_stops
from zkdeployment.publishing.records import Publication
from zkdeployment.publishing.store import cluster
from zkdeployment.publishing.store.cluster import read_stops
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.tree.values import TreeChange
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from zkdeployment.zookeeper.session import Session

RESUME = Act("ann@adm1", "resume", "", 7.0)


def publication(store: ZooKeeperPublications, revision: str) -> Publication:
    return Publication(revision, TreeChange(), {}, expected=store.published_state().cluster)


@pytest.fixture
def store(session: Session) -> ZooKeeperPublications:
    """A fleet at r1."""
    store = ZooKeeperPublications(session)
    store.publish(publication(store, "r1"))
    return store


def fail(session: Session, number: int, reason: str = "it fell") -> None:
    """Record a stop of the fleet by a failed host."""
    host = make_host(number, "r1")
    stop = Stop(host.identity.id, host.identity.name, "r1", "deploy", reason, 40.0 + number)
    ZooKeeperFleet(session).stop_fleet(host, stop)


def before_commit(session: Session, act) -> None:
    """Call ``act`` right before the next transaction of the session."""
    send = session.commit

    def commit(*operations):
        session.commit = send
        act()
        send(*operations)

    session.commit = commit


@pytest.mark.usefixtures("store")
def test_the_first_and_the_last_stops_and_their_number_are_kept(session, monkeypatch):
    monkeypatch.setattr(cluster, "FIRST", 5)
    monkeypatch.setattr(cluster, "LAST", 3)
    for number in range(30):
        fail(session, number)
    stops_read = sorted(read_stops(session), key=lambda stop: stop.time)
    assert [stop.host_id for stop in stops_read[:5]] == [f"h{number}" for number in range(5)]
    assert stops_read[-1].host_id == "h29"
    assert len(stops_read) == 8
    assert len(stops_read) + sum(stop.replaced for stop in stops_read) == 30
    assert (
        describe_stops(stops_read, 100.0)[-1]
        == "22 more stops were recorded; only the first and the last ones are kept"
    )


@pytest.mark.usefixtures("store")
def test_a_host_that_fails_again_has_one_stop(session):
    fail(session, 1)
    fail(session, 1, "again")
    assert [(stop.reason, stop.replaced) for stop in read_stops(session)] == [("again", 0)]


@pytest.mark.parametrize("way", ["resume", "publication"])
def test_a_fleet_with_more_stops_than_fit_into_a_transaction_can_be_resumed(store, session, client, way):
    client.set("/hosts", b'{"version": null}')
    waiting = [client.create_async(f"{paths.STOPS}/{number:0100}") for number in range(6000)]
    for made in waiting:
        made.get(60)
    if way == "resume":
        ZooKeeperClusterControl(session).resume(RESUME)
    else:
        store.publish(publication(store, "r2"))
    assert store.published_state().cluster == Cluster("r1" if way == "resume" else "r2")
    assert session.children(paths.STOPS) == []


@pytest.mark.parametrize("number", [1, 2], ids=["of the same host", "of another host"])
def test_a_stop_recorded_during_a_resume_is_deleted_by_the_resume(store, session, other, number):
    fail(session, 1)
    before_commit(session, lambda: fail(other, number))
    assert ZooKeeperClusterControl(session).resume(RESUME) == "r1"
    assert store.published_state().cluster == Cluster("r1")
    assert session.children(paths.STOPS) == []


def test_a_stop_that_follows_a_concurrent_resume_stops_the_fleet_again(store, session, other):
    fail(session, 1)
    before_commit(session, lambda: ZooKeeperClusterControl(other).resume(RESUME))
    fail(session, 2)
    assert store.published_state().cluster == Cluster(None)
    assert [stop.host_id for stop in read_stops(session)] == ["h2"]


def test_a_stop_recorded_during_a_publication_is_a_conflict(store, session, other):
    fail(session, 1)
    before_begin = session.begin
    calls: list[object] = []

    def begin(*operations):
        if not calls:
            calls.append(operations)
            fail(other, 2)
        return before_begin(*operations)

    session.begin = begin
    with pytest.raises(ConflictError, match=paths.STOPS):
        store.publish(publication(store, "r2"))
    assert store.published_state().cluster == Cluster(None)
    session.begin = before_begin
    store.publish(publication(store, "r2"))
    assert session.children(paths.STOPS) == []
