"""A fleet whose hosts have publishers, its signing syncer, and the acts of an attacker on its ZooKeeper."""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import NoNodeError

from support.agents import Fleet
from support.keys import SIGNED, make_key, make_publishers
from support.publishing import Publishing
from support.waiting import wait_until
from zkdeployment.publishing.keys import sign_text
from zkdeployment.publishing.signing.statement import (
    NAMESPACE,
    SignedStatement,
    bucket_of,
    digest_of,
    encode_bucket,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kazoo.client import KazooClient

    from support.agents import AgentHost, RunningAgent

TARGETS = "/zkdeployment/targets"
STRATEGY = "/zkdeployment/strategy"

#: Two services on two hosts; the first has a property of another node.
TREE = """\
/colors
  main = '{color}'
/who
  /web : foo
    version = '{version}'
    color => /colors main
    /deploy
      /h1
  /db : bar
    version = '1.0'
    /deploy
      /h2
"""

#: The packages of the attacker are in the repository of the hosts, too.
EVIL: dict[str, Any] = {
    "path": "/who/evil",
    "n": 1,
    "package": "bar",
    "application": "bar",
    "subtype": None,
    "version": "2.0",
    "patches": [],
}


class SignedFleet:
    """Two hosts with publishers, and their syncer; ``key`` signs, ``other_key`` has no owner."""

    def __init__(self, directory: Path, zookeeper: str, client: KazooClient) -> None:
        self.client = client
        self.fleet = Fleet(directory, zookeeper, client)
        self.publishing = Publishing(directory, zookeeper, client)
        self.key = self.publishing.key = make_key(directory / "keys" / "syncer")
        self.other_key = make_key(directory / "keys" / "other")
        self.publishers = make_publishers(directory / "keys" / "publishers", self.key)
        self.hosts = [self.fleet.host(name, publishers=str(self.publishers)) for name in ("h1", "h2")]
        self._running: list[RunningAgent] = []

    @contextmanager
    def agents(self) -> Iterator[list[RunningAgent]]:
        """Run the agents of both hosts."""
        with ExitStack() as stack:
            self._running = [stack.enter_context(host.agent()) for host in self.hosts]
            yield self._running

    def publish(self, version: str = "1.0", color: str = "red") -> str:
        """Publish the tree with this version of the first service, and return the revision."""
        revision = self.publishing.push(TREE.format(version=version, color=color))
        self.publishing.sync()
        return revision

    def converge(self) -> None:
        """Wait until both hosts have finished the cluster version without an error."""
        wait_until(lambda: self.is_converged, "both hosts are converged")
        self.wait_until_idle()

    @property
    def is_converged(self) -> bool:
        """Whether both hosts have finished the cluster version without an error."""
        return all(self.has_finished(host) for host in self.hosts)

    def has_finished(self, host: AgentHost) -> bool:
        """Return whether a host is at the cluster version, and shows no error."""
        version = self.publishing.version
        return isinstance(version, str) and host.has_finished(version) and not host.node.get("error")

    def wait_for_refusal(self, message: str) -> None:
        """Wait until a host shows this error, and the fleet is stopped because of it.

        The other host may have refused, too, or it may have heard of the stop before.
        """
        wait_until(lambda: any(host.node.get("error") for host in self.hosts), "a host refuses")
        wait_until(lambda: self.publishing.version is None, "the fleet is stopped")
        self.wait_until_idle()  # a stop of the other host may come a moment later
        refusing = [host for host in self.hosts if host.node.get("error")]
        for host in refusing:
            assert message in host.node["error"]
            assert host.status == "error"

    def wait_until_idle(self) -> None:
        """Wait until the agents of both hosts, if they run, have nothing to do."""
        for agent in self._running:
            agent.wait_until_idle()

    def publish_again(self) -> None:
        """Publish the truth again, as the operator is told to, and wait until the hosts follow."""
        self.publishing.sync(force=True)
        self.converge()

    def published_nodes(self) -> dict[str, bytes]:
        """Return the data of all nodes that publications write."""
        tops = ("/who", "/colors", SIGNED, TARGETS, STRATEGY)
        return {path: data for path, data in self.nodes().items() if path.startswith(tops)}

    def restore(self, truth: dict[str, bytes], version: str) -> None:
        """Put back all nodes that publications write, resume the fleet, and wait until the hosts follow."""
        self.restore_nodes(truth)
        self.fleet.set_version(version)
        self.converge()

    def restore_nodes(self, truth: dict[str, bytes]) -> None:
        """Put back all nodes that publications write."""
        present = self.published_nodes()
        for path in sorted(present.keys() - truth.keys(), reverse=True):
            self.write(path, None)
        for path, data in truth.items():
            if present.get(path) != data:
                self.write(path, data)

    # What an attacker does

    def nodes(self, path: str = "") -> dict[str, bytes]:
        """Return the data of all nodes that are not ephemeral, parents first."""
        found: dict[str, bytes] = {}
        for name in self.client.get_children(path or "/"):
            child = f"{path}/{name}"
            data, stat = self.client.get(child)
            if not stat.ephemeralOwner:
                found |= {child: data, **self.nodes(child)}
        return found

    def write(self, path: str, data: bytes | None) -> None:
        """Make a node hold these data; ``None`` deletes it."""
        if data is None:
            self.client.delete(path)
            return
        try:
            self.client.set(path, data)
        except NoNodeError:
            self.client.create(path, data)

    def claim(self, revision: str) -> None:
        """Set the cluster version and the version of the targets, as an unsigned publication does."""
        self.write(TARGETS, json.dumps({**self.fleet.get(TARGETS), "version": revision}).encode())
        self.fleet.set_version(revision)

    def wake(self) -> None:
        """Write the cluster version again."""
        self.fleet.set_version(self.publishing.version)

    def sign(self, key: Path, namespace: str = NAMESPACE, text: str | None = None) -> None:
        """Replace the signature, and perhaps the statement."""
        statement = SignedStatement.from_data(self.client.get(SIGNED)[0]).text if text is None else text
        self.write(SIGNED, SignedStatement(statement, sign_text(key, namespace, statement)).to_data())

    def forge(self, key: Path, namespace: str = NAMESPACE) -> None:
        """Publish an additional service for the first host with all digests, signed with a key."""
        target = json.dumps([*json.loads(self.client.get(f"{TARGETS}/h1")[0]), EVIL]).encode()
        bucket = f"{SIGNED}/{bucket_of('h1')}"
        digests = json.loads(self.client.get(bucket)[0]) | {"h1": digest_of(target)}
        statement = json.loads(SignedStatement.from_data(self.client.get(SIGNED)[0]).text)
        statement["buckets"][bucket_of("h1")] = digest_of(encode_bucket(digests))
        self.write(f"{TARGETS}/h1", target)
        self.write(bucket, encode_bucket(digests))
        self.sign(key, namespace, json.dumps(statement, separators=(",", ":"), sort_keys=True))
        self.wake()
