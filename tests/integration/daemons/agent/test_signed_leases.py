"""Hosts with publishers follow only leases that a worker of host pools signed: real agents, keys and ZooKeeper."""

import json

import pytest

from support.agents import called
from support.publish_keys import make_key
from support.publishing import Publishing
from support.waiting import wait_until
from zkdeployment.adapters.publish_key import PublishKey
from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.adapters.zookeeper.pools.leases import ZooKeeperLeases
from zkdeployment.pools.signed_lease import NAMESPACE

LEASE = "/zkdeployment/pools/leases/h1"
TREE = "/who\n  /web : foo\n    version = '1.0'\n    /deploy\n      /ci\n"


@pytest.fixture
def keys(tmp_path):
    """The keys of the syncer, the worker and a stranger; the list admits the first two for their purposes."""
    made = {name: make_key(tmp_path / "keys" / name) for name in ("syncer", "worker", "stranger")}
    purposes = {"syncer": "zkdeployment-publication", "worker": NAMESPACE}
    lines = (
        f'{name} namespaces="{purpose}" {made[name].with_suffix(".pub").read_text()}'
        for name, purpose in purposes.items()
    )
    (tmp_path / "publishers").write_text("".join(lines))
    return made


@pytest.fixture
def publishing(tmp_path, zookeeper, client, keys):
    publishing = Publishing(tmp_path, zookeeper, client)
    publishing.key = keys["syncer"]
    publishing.push(TREE)
    publishing.sync()
    return publishing


@pytest.fixture
def host(tmp_path, fleet, publishing):
    assert publishing.version
    return fleet.host("h1", role="lease:spare", publishers=str(tmp_path / "publishers"))


@pytest.fixture
def session(zookeeper):
    with Session(zookeeper) as session:
        yield session


def leases(session, key, now=lambda: 100.0):
    return ZooKeeperLeases(session, PublishKey(key, NAMESPACE, "lease-key"), now)


def wait_for_lease(host, role, number):
    wait_until(lambda: host.node.get("leased") == {"role": role, "number": number}, f"{role} {number}")


def wait_for_refusal(host, message):
    wait_until(lambda: message in host.node.get("error", ""), message)


def test_an_attacker_who_writes_leases_cannot_give_a_host_a_role_or_keys(fleet, publishing, host, session, keys):
    worker = leases(session, keys["worker"])
    with host.agent():
        host.wait_for_version(publishing.version)
        fleet.lease("h1", "ci", 1)
        wait_for_refusal(host, "the lease of this host is not signed")
        fleet.remove(LEASE)
        given = worker.give("h1", "ci", ())
        assert given.number == 100
        wait_for_lease(host, "ci", 100)
        assert fleet.calls() == called("/who/web 0")
        signed = fleet.get(LEASE)

        fleet.write(LEASE, signed | {"role": "spare", "number": 101})
        wait_for_refusal(host, "the lease of this host is not signed by one of the publishers")
        leases(session, keys["stranger"], lambda: 200.0).give("h1", "spare", ())
        wait_until(lambda: fleet.get(LEASE)["role"] == "spare", "the stranger's lease")
        wait_for_refusal(host, "the lease of this host is not signed by one of the publishers")
        leases(session, keys["syncer"], lambda: 300.0).give("h1", "ci", ())
        wait_for_refusal(host, "the lease of this host is not signed by one of the publishers")
        fleet.remove(LEASE)
        wait_for_refusal(host, "the lease of this host is gone: expected lease 100")
        fleet.write("/zkdeployment/pools/leases/h2", {"role": "spare", "number": 1, "keys": []})
        leases(session, keys["worker"], lambda: 400.0).give("h2", "ci", ())
        fleet.write(LEASE, fleet.get("/zkdeployment/pools/leases/h2"))
        wait_for_refusal(host, "the lease of this host is not signed by one of the publishers")
        assert fleet.calls() == called("/who/web 0")

        fleet.write(LEASE, signed)
        wait_until(lambda: "error" not in host.node, "the truth is back")
        fleet.remove(LEASE)
        assert leases(session, keys["worker"], lambda: 500.0).give("h1", "spare", ()).number == 500
        wait_for_lease(host, "spare", 500)
        assert fleet.calls() == called("/who/web 0", "-u /who/web 0")
        fleet.write(LEASE, signed)
        wait_for_refusal(host, "is an old one: expected number 500 or a larger one, found 100")
    (host.run / "lease").unlink()
    with host.agent():
        wait_for_refusal(host, "is an old one: expected number 500")
        assert fleet.calls() == called("/who/web 0", "-u /who/web 0")
    assert json.loads((host.root / "var/lib/zkdeployment/verified-lease").read_text())["number"] == 500


def test_a_workers_key_cannot_sign_publications(fleet, publishing, host, keys):
    with host.agent():
        host.wait_for_version(publishing.version)
        publishing.key = keys["worker"]
        publishing.push(TREE.replace("1.0", "2.0"))
        publishing.sync()
        wait_for_refusal(host, "the publication is not signed by one of the publishers")
    assert fleet.calls() == []


def test_a_worker_with_a_new_key_signs_the_standing_leases_again(session, keys, fleet):
    session.ensure("/zkdeployment/pools/leases")
    fleet.lease("h2", "spare", 3)
    fleet.write("/zkdeployment/pools/leases/h3", {"role": 5})
    first = leases(session, keys["worker"])
    first.give("h1", "ci", ())
    before = fleet.get(LEASE)
    second = leases(session, keys["stranger"])
    second.sign_standing()
    after = fleet.get(LEASE)
    assert after | {"signature": ""} == before | {"signature": ""}
    assert after["signature"] != before["signature"]
    assert fleet.get("/zkdeployment/pools/leases/h2")["signature"]
    assert second.give("h1", "ci", ()).number == before["number"]
    version = fleet.client.exists(LEASE).version
    leases(session, keys["stranger"]).sign_standing()
    assert fleet.client.exists(LEASE).version == version
