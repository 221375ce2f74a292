"""The reports of hosts and services, read from a real ZooKeeper: all at once, and through the cached fleet."""

from __future__ import annotations

import json

from support.fleets.written import WrittenFleet
from support.waiting import wait_until
from support.zookeeper import sent_requests
from zkdeployment.base.deployment import Deployment, DeploymentFailure, HostResult
from zkdeployment.base.errors import UnreachableError
from zkdeployment.base.host import Host, Identity
from zkdeployment.fleet.feed.feed import ZooKeeperFeed
from zkdeployment.intents.feed import reports_of
from zkdeployment.intents.store import read_reports
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.session import Session

TREE = """
/shop
  /front : front
    version = '1'
    /providers
    /deploy
      /web
"""
FRONT = "/shop/front"


def identity(number):
    return Identity(f"h{number}", f"h{number}.example.com", "web")


def write(fleet, client, hosts):
    """Write a fleet whose first host is absent and failed; each host has a provider."""
    failure = DeploymentFailure(1, "deploy /shop/front 0", FRONT, 0)
    fleet.publish("r1", TREE, results=[HostResult("h0", "h0", 1.0, 1.0, "boom", failure)])
    fleet.register(*(Host(identity(number), version="r1", sequence=1) for number in range(1, hosts)))
    fleet.report(*map(identity, range(hosts)))
    for number in range(hosts):
        data = json.dumps({"host": f"h{number}", "deployment": f"{FRONT} 0"}).encode()
        client.create_async(f"{FRONT}/providers/10.0.0.{number}:80", data, ephemeral=True)
    client.sync("/")
    return failure


def test_reports_of_the_fleet_are_the_same_for_verbs_syncer_and_service(zookeeper, client, session):
    with WrittenFleet(zookeeper) as fleet:
        failure = write(fleet, client, 3)
        client.create(paths.maintenance_path("h2"), b'{"by": "ann", "reason": "", "since": 1.0}', makepath=True)
        found = read_reports(session, [FRONT, "/shop/other"])
        assert [host_id for host_id, host in found.hosts.by_id.items() if host.in_maintenance] == ["h2"]
        assert {host.identity.id: host.is_present for host in found.hosts.by_id.values()} == {
            "h0": False,
            "h1": True,
            "h2": True,
        }
        absent, present = found.hosts.by_id["h0"], found.hosts.by_id["h1"]
        assert (absent.failure, absent.error, absent.completed) == (failure, "boom", None)
        assert (present.failure, present.completed) == (None, 1)
        assert list(present.deployments) == list(absent.deployments) == [Deployment(FRONT, 0)]
        assert [provider.host for provider in found.providers] == ["h0", "h1", "h2"]
        assert found.providers[0].deployment == Deployment(FRONT, 0)

        feed = ZooKeeperFeed(lambda: Session(zookeeper, session_timeout=6.0))
        feed.start()
        try:
            wait_until(lambda: _has_read(feed), "the first reading")
            others = [read_reports(session, [FRONT]), reports_of(feed, [FRONT])]
        finally:
            feed.close()
        for other in others:
            assert other.hosts.by_id == found.hosts.by_id
            assert other.providers == found.providers


def _has_read(feed):
    try:
        return feed.snapshot().connected
    except UnreachableError:
        return False


def test_an_empty_ensemble_has_no_reports(session):
    found = read_reports(session, [FRONT])
    assert (found.hosts.by_id, found.providers, found.clusters) == ({}, (), frozenset())


def test_the_number_of_requests_does_not_grow_with_the_fleet(zookeeper, client, session, monkeypatch):
    counts = []
    with WrittenFleet(zookeeper) as fleet:
        for hosts in (50, 500):
            for path in ("/shop", "/zkdeployment", "/hosts"):
                client.delete(path, recursive=True) if client.exists(path) else None
            write(fleet, client, hosts)
            sent = sent_requests(session, monkeypatch)
            assert len(read_reports(session, [FRONT]).providers) == hosts
            counts.append(len(sent))
            monkeypatch.undo()
    assert max(counts) <= 20


def test_the_service_reads_inventories_once(zookeeper, client, monkeypatch):
    with WrittenFleet(zookeeper) as fleet:
        write(fleet, client, 50)
        feed = ZooKeeperFeed(lambda: Session(zookeeper, session_timeout=6.0))
        feed.start()
        try:
            wait_until(lambda: _has_read(feed), "the first reading")
            reports_of(feed, [FRONT])
            sent = sent_requests(feed._session, monkeypatch)
            for _ in range(100):
                assert len(reports_of(feed, [FRONT]).hosts.by_id) == 50
            assert not [request for request in sent if "inventory" in getattr(request, "path", "")]
            assert len(sent) < 30
        finally:
            feed.close()
