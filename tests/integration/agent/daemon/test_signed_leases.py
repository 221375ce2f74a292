"""Hosts with publishers follow only leases that a worker of host pools signed: real agents, keys and ZooKeeper."""

import json
import time

import pytest

from support.agents import called
from support.keys import make_key, make_publishers
from support.pools.workers import PoolFleet
from support.publishing import Publishing
from support.waiting import wait_until
from zkdeployment.agent.rules.lease import Lease
from zkdeployment.base.errors import ProgramError, TreeError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.config.settings import load
from zkdeployment.pools.program import build_pool_worker
from zkdeployment.pools.rules.host_lease import RecordedLease, lease_text
from zkdeployment.pools.store.leases import LeaseKeys, ZooKeeperLeases
from zkdeployment.publishing.keys import LEASES as NAMESPACE
from zkdeployment.publishing.keys import PublisherKeysFile, PublishKey
from zkdeployment.publishing.signing.statement import SignedStatement
from zkdeployment.zookeeper.session import Session

EVIL_KEY = f"ssh-ed25519 {'A' * 68} evil"
LEASE = "/zkdeployment/pools/leases/h1"
POOLS = "{nodepools: {concrete: {web: {mechanism: {type: role, role: {idle: spare, leased: ci}}}}}}"
TREE = "/who\n  /web : foo\n    version = '1.0'\n    /deploy\n      /ci\n"


@pytest.fixture
def keys(tmp_path):
    """The keys of the syncer, the worker and a stranger; the list admits the first two for their purposes."""
    made = {name: make_key(tmp_path / "keys" / name) for name in ("syncer", "worker", "stranger")}
    purposes = {"zkdeployment-publication": made["syncer"], NAMESPACE: made["worker"]}
    make_publishers(tmp_path / "publishers", **purposes)
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


def leases(session, key, now=lambda: 100.0, publishers=None):
    others = None if publishers is None else PublisherKeysFile(publishers, NAMESPACE)
    return ZooKeeperLeases(session, LeaseKeys(PublishKey(key, NAMESPACE, "lease-key"), now, others))


def worker_config(directory, zookeeper, key):
    config = directory / "worker.cfg"
    config.write_text(
        f"[zkdeployment]\nrun-directory = {directory}\nzookeeper = {zookeeper}\n"
        f"publishers = {directory}/publishers\n[pools]\nlease-key = {key}\n"
    )
    return config


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
    (host.root / "var/lib/zkdeployment/lease").unlink()
    with host.agent():
        wait_for_refusal(host, "is an old one: expected number 500")
        assert fleet.calls() == called("/who/web 0", "-u /who/web 0")
    assert json.loads((host.root / "var/lib/zkdeployment/verified-lease").read_text())["number"] == 500


def test_a_worker_gives_an_unused_host_whose_lease_is_gone_a_new_one(
    fleet, publishing, host, session, zookeeper, keys, tmp_path
):
    ahead = int(time.time()) + 3600
    with host.agent():
        host.wait_for_version(publishing.version)
        leases(session, keys["worker"], lambda: ahead).give("h1", "spare", ())
        wait_for_lease(host, "spare", ahead)
        fleet.remove(LEASE)
        wait_for_refusal(host, "the lease of this host is gone")
        config = worker_config(tmp_path, zookeeper, keys["worker"])
        with (
            build_pool_worker(load(config, host=False)) as (worker, _),
            PoolFleet(zookeeper, SystemClock()) as pools,
        ):
            pools.publish(POOLS)
            worker.run_cycle()
            wait_until(lambda: worker.run_cycle() is None or fleet.client.exists(LEASE), "a lease is written")
        wait_for_lease(host, "spare", ahead + 1)
        wait_until(lambda: "error" not in host.node, "the host works")
    assert fleet.get(LEASE)["keys"] == []


def test_a_worker_restores_no_lease_that_exists_and_believes_no_implausible_number(session, keys, fleet):
    worker = leases(session, keys["worker"])
    worker.give("h1", "ci", ())
    before = fleet.get(LEASE)
    worker.restore({"h1": Lease("spare", 7)})
    assert fleet.get(LEASE) == before
    fleet.remove(LEASE)
    worker.restore({"h1": Lease("spare", 2**60)})
    assert (fleet.get(LEASE)["role"], fleet.get(LEASE)["number"]) == ("spare", 100)


def test_a_workers_key_cannot_sign_publications(fleet, publishing, host, keys):
    with host.agent():
        host.wait_for_version(publishing.version)
        publishing.key = keys["worker"]
        publishing.push(TREE.replace("1.0", "2.0"))
        publishing.sync()
        wait_for_refusal(host, "the publication is not signed by one of the publishers")
    assert fleet.calls() == []


def test_a_worker_with_a_new_key_signs_again_only_leases_signed_with_an_accepted_key(
    session, keys, fleet, tmp_path
):
    first, second = keys["worker"], make_key(tmp_path / "keys" / "second")
    leases(session, first).give("h1", "ci", ())
    before = fleet.get(LEASE)
    worker = leases(session, second, publishers=tmp_path / "publishers")
    worker.renew(dict)
    after = fleet.get(LEASE)
    assert after | {"signature": ""} == before | {"signature": ""}
    assert after["signature"] != before["signature"]
    assert worker.give("h1", None, ()).number == before["number"]
    version = fleet.client.exists(LEASE).version
    leases(session, second).renew(dict)
    assert fleet.client.exists(LEASE).version == version

    leases(session, first).renew(dict)  # the list of this worker's publishers does not have the other key
    assert fleet.client.exists(LEASE).version == version


def test_a_cycle_of_the_worker_signs_leases_with_its_new_key(session, zookeeper, keys, fleet, tmp_path):
    leases(session, keys["worker"]).give("h1", "ci", ())
    before, second = fleet.get(LEASE), make_key(tmp_path / "keys" / "second")
    config = worker_config(tmp_path, zookeeper, second)
    with build_pool_worker(load(config, host=False)) as (worker, _):
        worker.run_cycle()
    signature = fleet.get(LEASE)["signature"]
    assert fleet.get(LEASE) == before | {"signature": signature}
    lease = SignedStatement(lease_text("h1", Lease("ci", before["number"])), signature)
    assert PublishKey(second, NAMESPACE, "lease-key").made(lease)


def test_a_worker_takes_nothing_from_a_lease_that_no_worker_signed(session, keys, fleet):
    """An attacker writes leases, and waits for the worker to sign them at its start or with the next change."""
    worker = leases(session, keys["worker"])
    worker.give("h1", "spare", ())
    forged = fleet.get(LEASE) | {"role": "ci", "number": 2**60}
    for lease in (forged, {"role": "ci", "number": 2**60, "keys": [EVIL_KEY]}, {"role": 5}):
        fleet.write(LEASE, lease)
        leases(session, keys["worker"]).renew(dict)
        assert fleet.get(LEASE) == lease
        with pytest.raises(ProgramError, match=r"has no lease: expected .* with the signature of a worker"):
            worker.give("h1", None, ())
        leases(session, keys["worker"]).renew(lambda: {"h1": RecordedLease("spare")})
        renewed = fleet.get(LEASE)
        assert (renewed["role"], renewed["number"], renewed["keys"]) == ("spare", 100, [])
        assert worker.give("h1", None, ()).number == 100
    fleet.write(LEASE, forged)
    assert worker.give("h1", "other", ()).number == 100


def test_a_number_that_is_far_ahead_of_the_time_is_not_signed_again(session, keys):
    leases(session, keys["worker"], lambda: 1e9).give("h1", "ci", ())
    worker = leases(session, keys["worker"])
    with pytest.raises(TreeError, match="expected a number near the time 100, found 1000000000"):
        worker.give("h1", "spare", ())
