"""What the owner of each stolen credential can do: the table in the manual, on fleets with access lists.

The fleets are set up as the manual says: every program has credentials of its own, one access list names all of
them, and the nodes of users are open to the service alone. The host of the fleet ``believing`` has no publishers,
that of the fleet ``verifying`` has.
"""

import json
import uuid
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl_credential

from support.agents import Fleet
from support.publish_keys import make_key, make_publishers
from support.publishing import Publishing
from support.signed_fleet import EVIL as EVIL_ASSIGNMENT
from support.signed_fleet import TARGETS
from support.waiting import wait_until
from support.zookeeper import connected
from zkdeployment.adapters.clock import SystemClock
from zkdeployment.adapters.git.source import GitSource
from zkdeployment.adapters.key_hashes import KeyHasher
from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.adapters.zookeeper.users.store import ZooKeeperUsers
from zkdeployment.errors import SourceError
from zkdeployment.model.act import Act
from zkdeployment.model.publication import GuardOverrides
from zkdeployment.model.servers import Access, AclEntry, Servers
from zkdeployment.model.user import NewUser, Role

#: The programs with credentials of their own.
PROGRAMS = ("agents", "syncer", "operators", "service", "pools")

TREE = "/who\n  /web : foo\n    version = '1.0'\n    color = '{}'\n    /deploy\n      /h1\n"
EVIL = "/who\n  /evil : bar\n    version = '2.0'\n    /deploy\n      /h1\n"
TARGET = f"{TARGETS}/h1"
FORGED = "f" * 40


def secret(program):
    return f"{program}:the-password-of-{program}"


def entry(program):
    return AclEntry("digest", make_digest_acl_credential(*secret(program).split(":")), "cdrwa")


def servers(connection, program):
    acl = tuple(map(entry, PROGRAMS))
    return Servers(connection, Access(secret=secret(program), plain_text=True, acl=acl))


class GuardedFleet:
    """One host, the syncer of its fleet, and what the owner of a stolen credential does."""

    def __init__(self, directory: Path, connection: str, client: KazooClient, *, signs: bool) -> None:
        client.add_auth("digest", secret("syncer"))
        self.connection = connection
        self.client = client
        self.fleet = Fleet(directory, connection, client)
        self.publishing = Publishing(directory, servers(connection, "syncer"), client)
        options = {}
        if signs:
            self.publishing.key = make_key(directory / "publish_key")
            options["publishers"] = str(make_publishers(directory / "publishers", self.publishing.key))
        credentials = directory / "credentials"
        credentials.write_text(secret("agents"))
        credentials.chmod(0o600)
        acl = "\n    ".join(":".join(entry(program)) for program in PROGRAMS)
        self.host = self.fleet.host(
            "h1",
            zookeeper_credentials=str(credentials),
            zookeeper_plain_text="yes",
            zookeeper_acl=acl,
            **options,
        )
        self.publish(TREE.format("red"))
        with Session(servers(connection, "service")) as session:
            users = ZooKeeperUsers(session, (entry("service"),), KeyHasher(), SystemClock())
            users.add(NewUser(name="alice", role=Role.ADMIN), Act("test", "add user alice", "", 0.0))

    def publish(self, text: str) -> str:
        revision = self.publishing.push(text)
        # A stop of a believing host may name the revision that the attacker invented as the last one.
        self.publishing.sync(force=True, overrides=GuardOverrides(rewind=True))
        return revision

    @contextmanager
    def stolen(self, program: str):
        """Connect with nothing but the credentials of a program."""
        with connected(self.connection) as attacker:
            attacker.add_auth("digest", secret(program))
            yield attacker

    @contextmanager
    def forged(self, program: str):
        """Let the owner of a program's credentials write a target and a version; put the truth back at the end."""
        paths = ("/hosts", "/zkdeployment/targets", TARGET)
        truth = {path: self.client.get(path)[0] for path in paths}
        with self.stolen(program) as attacker:
            attacker.set(TARGET, json.dumps([EVIL_ASSIGNMENT]).encode())
            targets = json.loads(truth["/zkdeployment/targets"])
            targets |= {"version": FORGED, "ordered": FORGED, "sequence": targets["sequence"] + 1}
            targets["since"] = targets["sequence"]
            attacker.set("/zkdeployment/targets", json.dumps(targets).encode())
            attacker.set("/hosts", json.dumps({"version": FORGED}).encode())
            yield
        for path in reversed(paths):
            self.client.set(path, truth[path])
        self.publish(TREE.format(uuid.uuid4().hex))
        self.converge()

    def converge(self) -> None:
        wait_until(
            lambda: self.host.has_finished(self.publishing.version) and not self.host.node.get("error"),
            "converged",
        )

    @property
    def evil(self) -> bool:
        return "who:evil.0.deployed" in self.host.markers


@pytest.fixture(scope="module")
def fleets(zookeeper_server, tmp_path_factory):
    """The fleets ``believing`` and ``verifying``, each with its running agent."""
    with ExitStack() as stack:
        root = stack.enter_context(connected(zookeeper_server.address))
        made = {}
        for name in ("believing", "verifying"):
            chroot = f"/stolen-{name}-{uuid.uuid4().hex[:12]}"
            root.create(chroot)
            connection = f"{zookeeper_server.address}{chroot}"
            client = stack.enter_context(connected(connection))
            made[name] = GuardedFleet(tmp_path_factory.mktemp(name), connection, client, signs=name == "verifying")
            stack.enter_context(made[name].host.agent())
            made[name].converge()
        yield made


@pytest.mark.parametrize("program", PROGRAMS)
def test_credentials_of_zookeeper_are_root_on_hosts_that_believe_it_and_run_nothing_on_those_that_verify(
    fleets, program
):
    believing, verifying = fleets["believing"], fleets["verifying"]
    with believing.forged(program):
        wait_until(lambda: believing.evil, "the host runs what the attacker wrote")
    with verifying.forged(program):
        wait_until(lambda: verifying.host.node.get("error"), "the host refuses")
        assert "the signed publication is of another revision" in verifying.host.node["error"]
        wait_until(lambda: verifying.publishing.version is None, "the fleet is stopped")
    assert not any("evil" in call for call in verifying.fleet.calls())


@pytest.mark.parametrize("program", PROGRAMS)
def test_credentials_of_zookeeper_can_stop_every_fleet(fleets, program):
    for fleet in fleets.values():
        version = fleet.publishing.version
        with fleet.stolen(program) as attacker:
            attacker.set("/hosts", json.dumps({"version": None}).encode())
        assert fleet.publishing.version is None
        fleet.fleet.set_version(version)
        fleet.converge()


def test_credentials_of_zookeeper_can_hold_locks_and_name_providers_and_read_what_is_published(fleets):
    fleet = fleets["verifying"]
    with fleet.stolen("agents") as attacker:
        held = attacker.Lock("/agent-locks/who,web", "nobody")
        assert held.acquire(timeout=10)
        fleet.publish(TREE.format(uuid.uuid4().hex))
        wait_until(lambda: "wait for the lock" in fleet.host.node.get("step", ""), "the host waits")
        provider = attacker.create("/who/web/providers/evil", b"{}", ephemeral=True, makepath=True)
        assert fleet.client.exists(provider)
        assert attacker.get(TARGET)[0] == fleet.client.get(TARGET)[0]
        attacker.delete("/who/web/providers", recursive=True)
        held.release()
        fleet.converge()


def test_only_the_services_credentials_can_read_and_change_users(fleets):
    fleet = fleets["verifying"]
    for program in PROGRAMS:
        with fleet.stolen(program) as attacker:
            if program == "service":
                assert b"argon2" in attacker.get("/zkdeployment/users/alice")[0]
                attacker.delete(attacker.create("/zkdeployment/users/mallory", b"{}"))
            else:
                for call in (attacker.get, attacker.get_children, attacker.delete):
                    with pytest.raises(NoAuthError):
                        call("/zkdeployment/users/alice")
                with pytest.raises(NoAuthError):
                    attacker.create("/zkdeployment/users/mallory", b"{}")


def test_who_may_push_is_root_on_all_hosts_unless_only_signed_commits_are_published(fleets, tmp_path):
    for fleet in fleets.values():
        fleet.publish(EVIL)
        wait_until(lambda fleet=fleet: fleet.evil, "the host runs what was pushed")
        fleet.publish(TREE.format("blue"))
        fleet.converge()
        fleet.publishing.push(EVIL)
        signers = make_publishers(tmp_path / "allowed_signers", make_key(tmp_path / uuid.uuid4().hex))
        url = fleet.publishing.repository.url
        guarded = GitSource(url, tmp_path / uuid.uuid4().hex / "tree", allowed_signers=signers, gap=0)
        with pytest.raises(SourceError, match="is not published"):
            guarded.files(guarded.fetch())
        fleet.publish(TREE.format("green"))
        fleet.converge()


def test_the_key_of_the_syncer_is_root_on_all_hosts(fleets):
    """The thief signs and writes, as the syncer does; no check of commits is on the way."""
    fleet = fleets["verifying"]
    with fleet.publishing.syncer("thief") as thief:
        fleet.publishing.push(EVIL)
        thief.sync()
    wait_until(lambda: fleet.evil, "the host runs what the thief signed")
    fleet.publish(TREE.format("red"))
    fleet.converge()
