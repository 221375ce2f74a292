"""Agents with publishers while an attacker owns ZooKeeper: nothing runs that the syncer did not sign."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from support.fleets.signed import EVIL, TARGETS, SignedFleet
from support.keys import SIGNED
from support.zookeeper import connected
from zkdeployment.publishing.signing.statement import bucket_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.zookeeper import ZooKeeperServer

BUCKET = f"{SIGNED}/{bucket_of('h1')}"
TARGET = f"{TARGETS}/h1"


@dataclass
class Attacked:
    """The fleet under attack.

    ``truth`` are the nodes of the last publication, of the revision ``version``; ``old`` those of an earlier one.
    """

    world: SignedFleet
    old: dict[str, bytes]
    old_version: str
    truth: dict[str, bytes]
    version: str

    def recover(self) -> None:
        """Publish again if a test that failed did not leave the truth behind."""
        world = self.world
        if world.is_converged and (world.publishing.version, world.published_nodes()) == (
            self.version,
            self.truth,
        ):
            return
        world.wait_until_idle()
        world.restore_nodes(self.truth)
        world.publish_again()
        self.old, self.old_version = self.truth, self.version
        self.truth, self.version = world.published_nodes(), str(world.publishing.version)


@pytest.fixture(scope="module")
def running_fleet(
    tmp_path_factory: pytest.TempPathFactory, zookeeper_server: ZooKeeperServer
) -> Iterator[Attacked]:
    """One fleet with running agents for all attacks."""
    chroot = f"/attacked-{uuid.uuid4().hex[:12]}"
    with connected(zookeeper_server.address) as root:
        root.create(chroot)
    connection = f"{zookeeper_server.address}{chroot}"
    with connected(connection) as client:
        world = SignedFleet(tmp_path_factory.mktemp("attacked"), connection, client)
        old_version = world.publish()
        with world.agents():
            world.converge()
            old = world.published_nodes()
            version = world.publish("2.0")
            world.converge()
            yield Attacked(world, old, old_version, world.published_nodes(), version)


@pytest.fixture
def attacked(running_fleet: Attacked) -> Attacked:
    """The running fleet, with the truth in its ZooKeeper."""
    running_fleet.recover()
    return running_fleet


def put_everything_back(attacked: Attacked) -> None:
    for path, data in attacked.old.items():
        attacked.world.write(path, data)
    attacked.world.fleet.set_version(attacked.old_version)


def put_back(*paths: str) -> Callable[[Attacked], None]:
    def attack(attacked: Attacked) -> None:
        for path in paths:
            attacked.world.write(path, attacked.old[path])
        attacked.world.wake()

    return attack


def write(path: str, change: Callable[[bytes], bytes | None]) -> Callable[[Attacked], None]:
    def attack(attacked: Attacked) -> None:
        attacked.world.write(path, change(attacked.world.client.get(path)[0]))
        attacked.world.wake()

    return attack


def create(path: str, data: bytes) -> Callable[[Attacked], None]:
    def attack(attacked: Attacked) -> None:
        attacked.world.write(path, data)
        attacked.world.wake()

    return attack


def with_evil(data: bytes) -> bytes:
    return json.dumps([*json.loads(data), EVIL]).encode()


def unsigned_publication(attacked: Attacked) -> None:
    attacked.world.write(TARGET, with_evil(attacked.world.client.get(TARGET)[0]))
    attacked.world.claim("evil")


ATTACKS = {
    "an old publication, whole": (put_everything_back, "the store went back: expected publication"),
    "the old statement": (put_back(SIGNED), "the store went back: expected publication"),
    "an old bucket and its target": (put_back(BUCKET, TARGET), f"bucket {bucket_of('h1')}: expected SHA-256"),
    "an old target": (put_back(TARGET), "target h1: expected SHA-256"),
    "an additional package": (write(TARGET, with_evil), "target h1: expected SHA-256"),
    "an unsigned publication": (unsigned_publication, "the signed publication is of another revision"),
    "a target deleted": (write(TARGET, lambda _: None), "found no node"),
    "a target of the host's name": (
        create(f"{TARGETS}/h1.example.com", json.dumps([EVIL]).encode()),
        "target h1.example.com: expected no node",
    ),
    "a bucket cut off": (write(BUCKET, lambda data: data[:-3]), f"bucket {bucket_of('h1')}: expected SHA-256"),
    "a bucket deleted": (write(BUCKET, lambda _: None), "found no node"),
    "a statement cut off": (write(SIGNED, lambda data: data[:-40]), "is not signed by one of the publishers"),
    "a statement changed": (
        write(SIGNED, lambda data: data.replace(b'"sequence":', b'"sequence":9', 1)),
        "is not signed by one of the publishers",
    ),
    "no text": (write(SIGNED, lambda _: b"\xff"), "is not text"),
    "the signature removed": (write(SIGNED, lambda _: b""), "is not signed: expected a signature"),
    "another key": (
        lambda attacked: attacked.world.forge(attacked.world.other_key),
        "is not signed by one of the publishers",
    ),
    "a signature for another purpose": (
        lambda attacked: attacked.world.forge(attacked.world.key, "git"),
        "namespace does not match",
    ),
    "a version set by hand": (
        lambda attacked: attacked.world.fleet.set_version("evil"),
        "expected evil, the cluster version",
    ),
    "the initial version": (
        lambda attacked: attacked.world.fleet.set_version("initial"),
        "expected initial, the cluster version",
    ),
    "a strategy": (
        create("/zkdeployment/strategy", b'{"name": "evil"}'),
        "ZooKeeper does not hold the strategy that was signed",
    ),
}


@pytest.mark.parametrize(("attack", "message"), ATTACKS.values(), ids=ATTACKS)
def test_the_fleet_halts_with_the_reason_and_recovers_when_the_truth_is_back(
    attacked: Attacked, attack: Callable[[Attacked], None], message: str
):
    world = attacked.world
    before = [*world.fleet.calls(), *(host.packages.installed() for host in world.hosts)]
    attack(attacked)
    world.wait_for_refusal(message)
    assert [*world.fleet.calls(), *(host.packages.installed() for host in world.hosts)] == before
    world.restore(attacked.truth, attacked.version)


def test_the_next_publication_of_the_syncer_repairs_everything(attacked: Attacked):
    world = attacked.world
    world.forge(world.other_key)
    for path in (TARGET, BUCKET, f"{TARGETS}/h2"):
        world.write(path, None)
    world.write("/colors", b'{"main": "evil"}')
    world.wait_for_refusal("is not signed by one of the publishers")
    world.publish_again()
    before = len(world.fleet.calls())
    world.publish("1.0", "blue")
    world.converge()
    assert "h1 end /who/web 0" in world.fleet.calls()[before:]
