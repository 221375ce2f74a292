"""The inventories that hosts publish, on a real ZooKeeper."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from support.builders import make_package
from support.zookeeper import sent_requests
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.act import Act
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Inventory, KnownHost
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.fleet.store.forgetting import forget_hosts
from zkdeployment.pools.paths import lease_path
from zkdeployment.pools.store.leases import ZooKeeperLeases
from zkdeployment.publishing.store.hosts import known_ids, read_inventories

PACKAGES = {"foo": (make_package("foo", "1.0"),)}
KNOWN = KnownHost(Identity("h1", "app1", "web"), Inventory(packages=PACKAGES), 5.0)
NODE = "/zkdeployment/inventory/h1"


def forget(session, host):
    forget_hosts(session, ZooKeeperFleetReader(session), [host], Act("ann", f"forget {host}"))


@pytest.fixture
def fleet(session):
    return ZooKeeperFleet(session)


def test_a_host_publishes_its_inventory_only_after_a_change(session, other, fleet, client, monkeypatch):
    fleet.publish_inventory(KNOWN)
    assert read_inventories(session) == (KNOWN,)
    fleet.publish_inventory(replace(KNOWN, time=6.0))
    ZooKeeperFleet(other).publish_inventory(replace(KNOWN, time=7.0))  # as after a restart
    assert client.get(NODE)[1].version == 0
    changed = replace(KNOWN, inventory=Inventory(), time=8.0)
    fleet.publish_inventory(changed)
    assert read_inventories(session) == (changed,)
    client.delete(NODE)
    fleet.publish_inventory(KNOWN)
    assert read_inventories(session) == (KNOWN,)
    sent = sent_requests(session, monkeypatch)
    fleet.publish_inventory(changed)
    assert len(sent) == 1


def test_an_inventory_survives_the_session_and_a_damaged_inventory_is_replaced(session, other, client):
    ZooKeeperFleet(other).publish_inventory(KNOWN)
    other.close()
    assert known_ids(session) == {"h1"}
    client.set(NODE, b"rubbish")
    assert read_inventories(session)[0].inventory is None
    ZooKeeperFleet(session).publish_inventory(KNOWN)
    assert read_inventories(session) == (KNOWN,)


def test_an_inventory_that_exceeds_the_node_limit_is_written_as_unknown(session, fleet):
    chance = random.Random(1)
    digits = (f"{chance.getrandbits(4096):x}" for _ in range(1200))
    fleet.publish_inventory(replace(KNOWN, inventory=Inventory(managed={name: name[::-1] for name in digits})))
    (known,) = read_inventories(session)
    assert known.identity == KNOWN.identity
    assert known.inventory is None
    assert "expected at most 524288 bytes" in known.unknown


def test_a_retired_host_is_forgotten_by_id_or_name(session, fleet, client):
    reader = ZooKeeperFleetReader(session)
    fleet.publish_inventory(KNOWN)
    client.create("/hosts/h1", b"{}", makepath=True, ephemeral=True)
    with pytest.raises(RefusedError, match="h1 is registered"):
        forget(session, "app1")
    client.delete("/hosts/h1")
    assert reader.snapshot().absent == (KNOWN,)
    forget(session, "app1")
    assert reader.snapshot().absent == ()
    with pytest.raises(RefusedError, match="nothing is known of a host with the id h1"):
        forget(session, "h1")


def test_a_host_that_is_out_of_service_is_listed_until_it_is_forgotten(session, client):
    fleet, reader = ZooKeeperFleet(session), ZooKeeperFleetReader(session)
    fleet.publish_inventory(KNOWN)
    identity = replace(KNOWN.identity, role="web")
    request = f'{{"requestor": "{identity.id}", "hostname": "{identity.name}"}}'
    client.create("/role-locks/web/lr-", request.encode(), sequence=True, makepath=True)
    assert fleet.roles.hand_on(identity) == ["web"]
    assert reader.snapshot().out_of_service == {identity.id: "web"}
    ZooKeeperLeases(session).give(identity.id, "web", ())
    forget(session, identity.id)
    assert reader.snapshot().out_of_service == {}
    assert client.exists(lease_path(identity.id)) is None


def test_forgetting_a_host_removes_its_requests_for_the_locks_of_all_roles(session, client):
    ZooKeeperFleet(session).publish_inventory(KNOWN)
    own = f'{{"requestor": "{KNOWN.identity.id}", "hostname": "app1"}}'.encode()
    for role in ("web", "db"):
        client.create(f"/role-locks/{role}/lr-", own, sequence=True, makepath=True)
    client.create("/role-locks/web/lr-", own.replace(KNOWN.identity.id.encode(), b"another"), sequence=True)
    forget(session, KNOWN.identity.id)
    assert (client.get_children("/role-locks/web"), client.get_children("/role-locks/db")) == (
        ["lr-0000000001"],
        [],
    )


def test_forgetting_a_host_that_does_not_come_back_removes_the_record_of_its_reboot(session, client):
    ZooKeeperFleet(session).publish_inventory(KNOWN)
    client.create("/zkdeployment/reboots/h1", b"{}", makepath=True)
    forget(session, KNOWN.identity.id)
    assert client.get_children("/zkdeployment/reboots") == []


def test_forgetting_a_host_removes_the_records_of_its_unfinished_work(session, client):
    ZooKeeperFleet(session).publish_inventory(KNOWN)
    for name, host_id in (("shop,web", KNOWN.identity.id), ("shop,db", "another")):
        client.create(
            f"/zkdeployment/busy/{name}", f'{{"host": "{host_id}", "kept": true}}'.encode(), makepath=True
        )
    forget(session, KNOWN.identity.id)
    assert client.get_children("/zkdeployment/busy") == ["shop,db"]


def test_a_host_of_which_only_a_request_for_a_lock_is_left_can_be_forgotten(session, client):
    client.create("/role-locks/web/lr-", b'{"requestor": "h9"}', sequence=True, makepath=True)
    forget(session, "h9")
    assert client.get_children("/role-locks/web") == []


def test_a_host_that_leaves_its_role_waits_for_no_lock_and_is_not_out_of_service_in_it(session, client):
    fleet, identity = ZooKeeperFleet(session), replace(KNOWN.identity, role="web")
    request = f'{{"requestor": "{identity.id}", "hostname": "{identity.name}"}}'
    client.create("/role-locks/web/lr-", request.encode(), sequence=True, makepath=True)
    assert fleet.roles.hand_on(identity)
    for requestor in (request, request.replace(identity.id, "another")):
        client.create("/role-locks/web/lr-", requestor.encode(), sequence=True)
    ZooKeeperFleet(session).roles.leave(identity)
    assert client.get_children("/role-locks/web") == ["lr-0000000002"]
    assert ZooKeeperFleetReader(session).snapshot().out_of_service == {}


def test_hosts_that_are_read_together_share_their_equal_packages(session, fleet):
    others = {**PACKAGES, "bar": (make_package("bar", "2"),)}
    fleet.publish_inventory(KNOWN)
    fleet.publish_inventory(KnownHost(Identity("h2", "app2"), Inventory(packages=others), 5.0))
    one, two = read_inventories(session)
    assert one.inventory.packages["foo"] is two.inventory.packages["foo"]
    assert two.inventory.packages == others
