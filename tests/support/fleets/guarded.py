"""A fleet whose ZooKeeper is closed as in the manual, and the acts of the owner of a stolen credential."""

from __future__ import annotations

import json
import threading
import uuid
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from kazoo.security import make_digest_acl_credential

from support.agents import Fleet
from support.fleets.signed import EVIL, TARGETS
from support.keys import make_key, make_publishers
from support.publishing import Publishing
from support.waiting import wait_until
from support.zookeeper import connected
from zkdeployment.config.settings import load
from zkdeployment.pools.program import build_pool_worker
from zkdeployment.publishing.keys import LEASES
from zkdeployment.publishing.records import GuardOverrides
from zkdeployment.publishing.signing.statement import NAMESPACE as PUBLICATIONS
from zkdeployment.service.users.user_store import open_users
from zkdeployment.zookeeper.servers import Access, AclEntry, Servers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kazoo.client import KazooClient

    from support.agents import AgentHost, RunningAgent
    from zkdeployment.service.users.user_store import ZooKeeperUsers

#: The programs with credentials of their own. Workers of host pools have those of the service.
PROGRAMS = ("agents", "syncer", "operators", "service")

#: ``h1`` runs a service; so does ``h2``, which can be leased, while it has the role ``ci``.
_TREE = """\
/who
  /web : foo
    version = '1.0'
    color = '{}'
    /deploy
      /h1
  /ci : foo
    version = '1.0'
    /deploy
      /ci
"""
_EVIL_TREE = """\
  /evil : bar
    version = '2.0'
    /deploy
      /h1
"""
_TARGET = f"{TARGETS}/h1"
_FORGED = "f" * 40


def secret(program: str) -> str:
    """Return the user and the password of a program."""
    return f"{program}:the-password-of-{program}"


def acl_entry(program: str) -> AclEntry:
    """Return the entry that gives a program all rights."""
    return AclEntry("digest", make_digest_acl_credential(*secret(program).split(":")), "cdrwa")


def any_tree() -> str:
    """Return a tree that differs from all others in a property."""
    return _TREE.format(uuid.uuid4().hex)


def evil_tree() -> str:
    """Return a tree with the service of the attacker."""
    return any_tree() + _EVIL_TREE


class GuardedFleet:
    """The host ``h1`` and its syncer.

    With ``signs``, publications are signed, hosts have publishers, and the host ``h2`` can be leased.
    """

    def __init__(self, directory: Path, connection: str, client: KazooClient, *, signs: bool) -> None:
        client.add_auth("digest", secret("syncer"))
        self._directory, self._connection, self.client = directory, connection, client
        self.fleet = Fleet(directory, connection, client)
        self.publishing = Publishing(directory, self.servers("syncer"), client)
        self.lease_key = directory / "lease_key"
        self._publishers: dict[str, str] = {}
        if signs:
            self.publishing.key = make_key(directory / "publish_key")
            keys = {PUBLICATIONS: self.publishing.key, LEASES: make_key(self.lease_key)}
            self._publishers = {"publishers": str(make_publishers(directory / "publishers", **keys))}
        options = self._access("agents") | self._publishers
        self.host = self.fleet.host("h1", **options)
        self.lent = self.fleet.host("h2", role="lease:spare", **options) if signs else None
        self._running: list[RunningAgent] = []
        self.publish(any_tree())

    @contextmanager
    def agents(self) -> Iterator[None]:
        """Run the agents of all hosts."""
        with ExitStack() as stack:
            self._running = [stack.enter_context(host.agent()) for host in self._hosts]
            yield

    def servers(self, program: str) -> Servers:
        """Return the servers for the owner of a program's credentials."""
        acl = tuple(map(acl_entry, PROGRAMS))
        return Servers(self._connection, Access(secret=secret(program), plain_text=True, acl=acl))

    def _access(self, program: str) -> dict[str, str]:
        """Return the values of ``[zkdeployment]`` that give a program access to ZooKeeper."""
        credentials = self._directory / f"credentials-of-{program}"
        credentials.write_text(secret(program))
        credentials.chmod(0o600)
        return {
            "zookeeper_credentials": str(credentials),
            "zookeeper_plain_text": "yes",
            "zookeeper_acl": "\n    ".join(":".join(acl_entry(each)) for each in PROGRAMS),
        }

    def publish(self, text: str, **documents: str | None) -> str:
        """Push a tree and documents, publish them, and return the revision."""
        revision = self.publishing.push(text, **documents)
        # A stop of a believing host may name the revision that the attacker invented as the last one.
        self.publishing.sync(force=True, overrides=GuardOverrides(rewind=True, mass_removal=True))
        return revision

    def converge(self) -> None:
        """Wait until the first host has the cluster version, and no error, and all agents are idle."""
        wait_until(lambda: self._is_converged, "converged")
        self._wait_until_idle()

    def recover(self) -> None:
        """Publish the truth again if a test that failed left something else behind."""
        if not self._is_converged or self.is_owned:
            self._wait_until_idle()
            self.publishing.allowed_signers = None
            strategy = self.publishing.repository.directory / "strategy.yaml"
            self.publish(any_tree(), **({"strategy_yaml": None} if strategy.exists() else {}))
            self.converge()

    def wait_for_refusal(self, message: str) -> None:
        """Wait until a host shows this error, and the fleet is stopped.

        The other one then does not begin, or refuses a moment later and stops the fleet once more: the truth may
        come only when both are idle.
        """
        wait_until(lambda: any(message in host.node.get("error", "") for host in self._hosts), "a host refuses")
        wait_until(lambda: self.publishing.version is None, "the fleet is stopped")
        self._wait_until_idle()

    @property
    def _hosts(self) -> list[AgentHost]:
        return [host for host in (self.host, self.lent) if host is not None]

    @property
    def _is_converged(self) -> bool:
        return self.host.has_finished(self.publishing.version) and not self.host.node.get("error")

    def _wait_until_idle(self) -> None:
        for agent in self._running:
            agent.wait_until_idle()

    @contextmanager
    def users(self) -> Iterator[ZooKeeperUsers]:
        """Yield the users, for the owner of the service's credentials."""
        with open_users(self.servers("service"), (acl_entry("service"),)) as users:
            yield users

    @contextmanager
    def pool_worker(self) -> Iterator[None]:
        """Run a worker of host pools, which signs leases."""
        values = {"zookeeper": self._connection, **self._access("service"), **self._publishers}
        values["run-directory"] = str(self._directory)
        lines = "".join(f"{key.replace('_', '-')} = {value}\n" for key, value in values.items())
        config = self._directory / "worker.cfg"
        config.write_text(f"[zkdeployment]\n{lines}[pools]\nlease-key = {self.lease_key}\n")
        with build_pool_worker(load(config, host=False)) as (worker, control):
            thread = threading.Thread(target=worker.run)
            thread.start()
            try:
                yield
            finally:
                control.stop()
                thread.join()

    # What the owner of stolen credentials does

    @contextmanager
    def stolen(self, program: str) -> Iterator[KazooClient]:
        """Connect with nothing but the credentials of a program."""
        with connected(self._connection) as attacker:
            attacker.add_auth("digest", secret(program))
            yield attacker

    @contextmanager
    def forged(self, program: str) -> Iterator[None]:
        """Let the owner of a program's credentials write a target and a version; put the truth back at the end."""
        paths = ("/hosts", TARGETS, _TARGET)
        truth = {path: self.client.get(path)[0] for path in paths}
        with self.stolen(program) as attacker:
            attacker.set(_TARGET, json.dumps([EVIL]).encode())
            targets = json.loads(truth[TARGETS])
            targets |= {"version": _FORGED, "ordered": _FORGED, "sequence": targets["sequence"] + 1}
            targets["since"] = targets["sequence"]
            attacker.set(TARGETS, json.dumps(targets).encode())
            attacker.set("/hosts", json.dumps({"version": _FORGED}).encode())
            yield
        for path in reversed(paths):
            self.client.set(path, truth[path])
        self.publish(any_tree())
        self.converge()

    @property
    def is_owned(self) -> bool:
        """Whether the first host runs the service of the attacker."""
        return "who:evil.0.deployed" in self.host.markers

    @property
    def lent_keys(self) -> str:
        """The keys that the root of the host admits that can be leased."""
        assert self.lent is not None
        file = self.lent.root / "root/.ssh/authorized_keys"
        return file.read_text() if file.exists() else ""
