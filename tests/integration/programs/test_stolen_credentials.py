"""The powers of the owner of each stolen credential: the table in the manual, on fleets with access lists.

The fleets are set up according to the manual: every program has credentials of its own, one access list names all
of them, and the nodes of users are open to the service alone. The host of the fleet ``believing`` has no
publishers, those of the fleet ``verifying`` have. ``HELD`` names the test that holds each statement of the table.
"""

import json
import time
import uuid
from contextlib import ExitStack, nullcontext

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from kazoo.exceptions import NoAuthError, NotEmptyError
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from support.fleets.guarded import PROGRAMS, GuardedFleet, acl_entry, any_tree, evil_tree, secret
from support.fleets.signed import TARGETS
from support.keys import make_key, make_publishers
from support.manual import MANUAL
from support.pools.workers import KEY, PoolFleet
from support.waiting import UNLIMITED, wait_until
from support.zookeeper import connected, write_node
from zkdeployment.base.act import Act
from zkdeployment.base.errors import RefusedError, SourceError, StalePublicationError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.publication import Published
from zkdeployment.pools.rules.snapshot import PoolChange, retire
from zkdeployment.pools.store.leases import LeaseKeys, ZooKeeperLeases
from zkdeployment.publishing.keys import LEASES, PublishKey
from zkdeployment.publishing.watermark import Watermark, published_file
from zkdeployment.service.users.key_hashes import KeyHasher
from zkdeployment.service.users.login_store import ZooKeeperLogins, guard_logins
from zkdeployment.service.users.user import NewUser, Role
from zkdeployment.zookeeper.session import Session

EVIL_KEY = KEY.replace("tenant", "evil")
LEASE = "/zkdeployment/pools/leases/h2"
STRATEGY = """\
schema: shipyard/DeploymentStrategy/v1
metadata: {name: deployment-strategy}
data:
  groups:
    - {name: all, critical: true, depends_on: [], selectors: []}
"""
POOLS = "{nodepools: {concrete: {web: {fill-level: 1, mechanism: {type: role, role: {idle: spare, leased: ci}}}}}}"


def act(what):
    return Act("test", what, "", 0.0)


@pytest.fixture(scope="module")
def running_fleets(zookeeper_server, tmp_path_factory):
    """The fleets ``believing`` and ``verifying``, each with its running agents."""
    with ExitStack() as stack:
        root = stack.enter_context(connected(zookeeper_server.address))
        made = {}
        for name in ("believing", "verifying"):
            chroot = f"/stolen-{name}-{uuid.uuid4().hex[:12]}"
            root.create(chroot)
            connection = f"{zookeeper_server.address}{chroot}"
            client = stack.enter_context(connected(connection))
            made[name] = GuardedFleet(tmp_path_factory.mktemp(name), connection, client, signs=name == "verifying")
            stack.enter_context(made[name].agents())
            made[name].converge()
        with made["verifying"].users() as users:
            users.add(NewUser(name="alice", role=Role.ADMIN), act("add user alice"))
        yield made


@pytest.fixture
def fleets(running_fleets):
    """The running fleets, with the truth in their ZooKeeper."""
    for fleet in running_fleets.values():
        fleet.recover()
    return running_fleets


@pytest.mark.parametrize("program", PROGRAMS)
def test_credentials_of_zookeeper_give_root_only_on_hosts_that_do_not_verify_signatures(fleets, program):
    believing, verifying = fleets["believing"], fleets["verifying"]
    with believing.forged(program):
        wait_until(lambda: believing.is_owned, "the host runs what the attacker wrote")
    with verifying.forged(program):
        verifying.wait_for_refusal("the signed publication is of another revision")
    assert not any("evil" in call for call in verifying.fleet.calls())


@pytest.mark.parametrize("program", PROGRAMS)
def test_credentials_of_zookeeper_can_stop_every_fleet(fleets, program):
    for fleet in fleets.values():
        version = fleet.publishing.version
        with fleet.stolen(program) as attacker:
            write_node(attacker, "/hosts", {"version": None})
        assert fleet.publishing.version is None
        fleet.fleet.set_version(version)
        fleet.converge()


def test_credentials_of_zookeeper_can_hold_locks_and_name_providers_and_read_published_records(fleets):
    fleet, target = fleets["verifying"], f"{TARGETS}/h1"
    with fleet.stolen("agents") as attacker:
        held = attacker.Lock("/agent-locks/who,web", "nobody")
        assert held.acquire(timeout=UNLIMITED)
        fleet.publish(any_tree())
        wait_until(lambda: "wait for the lock" in fleet.host.node.get("step", ""), "the host waits")
        provider = attacker.create("/who/web/providers/evil", b"{}", ephemeral=True, makepath=True)
        assert fleet.client.exists(provider)
        assert attacker.get(target)[0] == fleet.client.get(target)[0]
        attacker.delete("/who/web/providers", recursive=True)
        held.release()
        fleet.converge()


def test_credentials_of_zookeeper_can_grant_phases_without_a_coordinator(fleets):
    fleet = fleets["verifying"]
    revision = fleet.publish(any_tree(), strategy_yaml=STRATEGY)
    wait_until(lambda: "no rollout of this publication" in fleet.host.node.get("step", ""), "the host waits")
    rollout = f"{fleet.publishing.get(TARGETS)['sequence']}-1"
    with fleet.stolen("agents") as attacker:
        for name in ("grants", "reports", "acts"):
            attacker.ensure_path(f"/zkdeployment/rollouts/{rollout}/{name}")
        grant = json.dumps({"phase": "deploy", "group": "all", "reason": ""}).encode()
        attacker.create(f"/zkdeployment/rollouts/{rollout}/grants/h1", grant)
        write_node(attacker, "/zkdeployment/rollouts", {"current": rollout})
        wait_until(lambda: fleet.host.has_finished(revision), "the host deploys without a coordinator")
    fleet.publish(any_tree(), strategy_yaml=None)
    fleet.converge()


def test_only_the_services_credentials_can_read_and_change_users(fleets):
    fleet = fleets["verifying"]
    for program in PROGRAMS:
        with fleet.stolen(program) as attacker:
            if program == "service":
                assert b"argon2" in attacker.get("/zkdeployment/users/alice")[0]
            else:
                for call in (attacker.get, attacker.get_children, attacker.delete):
                    with pytest.raises(NoAuthError):
                        call("/zkdeployment/users/alice")
                with pytest.raises(NoAuthError):
                    attacker.create("/zkdeployment/users/mallory", b"{}")


def test_logins_are_refused_after_others_made_their_nodes(zookeeper, client, tmp_path):
    fleet, service = GuardedFleet(tmp_path, zookeeper, client, signs=False), (acl_entry("service"),)
    with fleet.stolen("agents") as attacker, Session(fleet.servers("service")) as session:
        attacker.create("/zkdeployment/logins/sessions", acl=OPEN_ACL_UNSAFE, makepath=True)
        with pytest.raises(RefusedError, match=r"below /zkdeployment/logins: expected .*digest:service:.*setAcl"):
            guard_logins(session, service)
        for name in ("sessions", "throttle", "failed", ""):
            attacker.delete(f"/zkdeployment/logins/{name}".rstrip("/"))
        guard_logins(session, service)
        with pytest.raises(NoAuthError):
            attacker.create("/zkdeployment/logins/sessions/mine")


def test_the_first_user_is_refused_after_others_made_the_node_of_the_users(zookeeper, client, tmp_path):
    fleet = GuardedFleet(tmp_path, zookeeper, client, signs=False)
    with fleet.stolen("agents") as attacker:
        attacker.create("/zkdeployment/users", acl=OPEN_ACL_UNSAFE)
        with pytest.raises(RefusedError, match="others may have written below /zkdeployment/users"), fleet.users():
            pass
        for name in (".keep", ""):
            attacker.delete(f"/zkdeployment/users/{name}".rstrip("/"))
        with fleet.users(), pytest.raises(NotEmptyError):
            attacker.delete("/zkdeployment/users")
        with fleet.users() as users:
            users.add(NewUser(name="alice", role=Role.ADMIN), act("add user alice"))
            assert [user.name for user in users.users()] == ["alice"]


@pytest.mark.parametrize(("right", "refusal"), [("read", None), ("create", "others may have written")])
def test_a_right_of_others_to_read_the_node_of_the_users_is_not_refused(
    zookeeper, client, tmp_path, right, refusal
):
    fleet = GuardedFleet(tmp_path, zookeeper, client, signs=False)
    with fleet.users(), fleet.stolen("service") as owner:
        acl = [*owner.get_acls("/zkdeployment/users")[0], make_acl("world", "anyone", **{right: True})]
        owner.set_acls("/zkdeployment/users", acl)
    with nullcontext() if refusal is None else pytest.raises(RefusedError, match=refusal), fleet.users():
        pass


def test_the_credentials_of_the_service_make_an_admin(fleets):
    fleet, acl = fleets["verifying"], (acl_entry("service"),)
    name = f"mallory-{uuid.uuid4().hex[:8]}"
    with fleet.users() as users, Session(fleet.servers("service")) as session:
        key = users.add(NewUser(name=name, role=Role.ADMIN), act("add a user")).key
        logins = ZooKeeperLogins(session, acl, users, KeyHasher(), SystemClock())
        assert logins.verify(name, key, "192.0.2.1").is_admin


def lend(pools, fleet, tenant):
    """Lend the host to a tenant, and return a function that ends the session."""
    wait_until(lambda: pools.states("web") == ["ready"], "the host takes the published role")
    assert fleet.lent.markers == ["who:ci.0.deployed"]
    session = pools.request(tenant, web=1)
    wait_until(lambda: pools.states("web") == ["deployed"], "the session begins")
    assert tenant.ssh_key in fleet.lent_keys

    def end():
        read = pools.store.read()
        ended, released = retire(read.sessions[session.id], read.nodes.values(), pools.clock.now())
        pools.store.commit(PoolChange(nodes=released, sessions=(ended,)), read)

    return end


def test_credentials_of_zookeeper_make_workers_lend_hosts_to_tenants_and_hold_newer_leases_back(fleets):
    """The attacker writes the document of the pools, sessions, and the access list of a lease."""
    fleet = fleets["verifying"]
    with fleet.users() as users:  # only the owner of the service's credentials can register the first tenant
        eve, tom = (
            users.add(NewUser(name=f"tenant-{uuid.uuid4().hex}", role=Role.TENANT, ssh_key=key), act("add")).user
            for key in (EVIL_KEY, KEY)
        )
    with (
        fleet.pool_worker(),
        fleet.stolen("agents") as attacker,
        PoolFleet(fleet.servers("agents"), SystemClock()) as pools,
    ):
        pools.publish(POOLS)
        end_session = lend(pools, fleet, eve)
        end_session()
        wait_until(lambda: EVIL_KEY not in fleet.lent_keys, "the host is taken back")
        end_session = lend(pools, fleet, tom)
        rights, _ = attacker.get_acls(LEASE)
        attacker.set_acls(LEASE, [make_digest_acl(*secret("agents").split(":"), all=True)])
        end_session()
        wait_until(lambda: pools.states() == ["failed"], "the worker cannot write the newer lease")
        assert KEY in fleet.lent_keys
        attacker.set_acls(LEASE, rights)


def test_the_key_of_a_worker_gives_root_only_on_hosts_that_can_be_leased(fleets):
    fleet = fleets["verifying"]
    key = LeaseKeys(PublishKey(fleet.lease_key, LEASES, "lease-key"), time.time)
    with Session(fleet.servers("service")) as session:
        worker = ZooKeeperLeases(session, key)
        for host in ("h1", "h2"):
            worker.give(host, "ci", (EVIL_KEY,))
        wait_until(lambda: EVIL_KEY in fleet.lent_keys, "the thief is root")
        wait_until(lambda: fleet.lent.markers == ["who:ci.0.deployed"], "the host has the role")
        fleet.publish(any_tree())
        fleet.converge()
        assert not (fleet.host.root / "root/.ssh/authorized_keys").exists()
        assert fleet.host.markers == ["who:web.0.deployed"]
        worker.give("h2", "spare", ())
    publisher, fleet.publishing.key = fleet.publishing.key, fleet.lease_key
    fleet.publish(evil_tree())
    fleet.wait_for_refusal("not signed by one of the publishers")
    fleet.publishing.key = publisher
    fleet.publish(any_tree())
    fleet.converge()
    assert not any("evil" in call for call in fleet.fleet.calls())


def test_the_key_of_the_syncer_is_root_on_all_hosts(fleets):
    """The thief signs and writes as the syncer does, but without its check of commits."""
    fleet = fleets["verifying"]
    with fleet.publishing.syncer("thief") as thief:
        fleet.publishing.push(evil_tree())
        thief.sync()
    wait_until(lambda: fleet.is_owned, "the host runs what the thief signed")
    fleet.publish(any_tree())
    fleet.converge()


def test_who_may_push_is_root_on_all_hosts_unless_only_signed_commits_are_published(fleets, tmp_path):
    key = make_key(tmp_path / "key")
    signers = make_publishers(tmp_path / "allowed_signers", key)
    for fleet in fleets.values():
        fleet.publish(evil_tree())
        wait_until(lambda fleet=fleet: fleet.is_owned, "the host runs what was pushed")
        fleet.publish(any_tree())
        fleet.converge()
        fleet.publishing.allowed_signers = signers
        with pytest.raises(SourceError, match="is not published"):
            fleet.publish(evil_tree())
        assert not fleet.is_owned
        fleet.publishing.allowed_signers = None
        fleet.publish(any_tree())
        fleet.converge()


def test_the_keys_with_which_the_service_commits_are_root_on_all_hosts(fleets, tmp_path):
    """The owner of ``push-key`` and ``signing-key`` pushes commits that ``allowed-signers`` admits."""
    key = make_key(tmp_path / "key")
    signing = ("gpg.format=ssh", f"user.signingkey={key}.pub")
    for fleet in fleets.values():
        fleet.publishing.allowed_signers = make_publishers(tmp_path / "allowed_signers", key)
        fleet.publishing.repository.commit({"a.zk": evil_tree()}, "-S", config=signing)
        fleet.publishing.sync(force=True)
        wait_until(lambda fleet=fleet: fleet.is_owned, "the host runs what was pushed")
        fleet.publishing.allowed_signers = None
        fleet.publish(any_tree())
        fleet.converge()


def test_only_a_minimum_keeps_old_publications_from_a_fresh_host(tmp_path):
    old = Published("r6", sequence=6)
    Watermark(published_file(tmp_path / "fresh")).check(old)
    with pytest.raises(StalePublicationError, match=r"expected sequence 7 \(minimum-sequence\).*found 6"):
        Watermark(published_file(tmp_path / "other"), 7).check(old)


ROOT = test_credentials_of_zookeeper_give_root_only_on_hosts_that_do_not_verify_signatures
STOP = test_credentials_of_zookeeper_can_stop_every_fleet
LOCKS = test_credentials_of_zookeeper_can_hold_locks_and_name_providers_and_read_published_records
GRANTS = test_credentials_of_zookeeper_can_grant_phases_without_a_coordinator
USERS = test_only_the_services_credentials_can_read_and_change_users
ADMIN = test_the_credentials_of_the_service_make_an_admin
FRESH = test_only_a_minimum_keeps_old_publications_from_a_fresh_host
TENANTS = test_credentials_of_zookeeper_make_workers_lend_hosts_to_tenants_and_hold_newer_leases_back
WORKER = test_the_key_of_a_worker_gives_root_only_on_hosts_that_can_be_leased
PUBLISHER = test_the_key_of_the_syncer_is_root_on_all_hosts
PUSH = test_who_may_push_is_root_on_all_hosts_unless_only_signed_commits_are_published
COMMITS = test_the_keys_with_which_the_service_commits_are_root_on_all_hosts

#: The table: a line for each cell behind the first, which is split into statements, each with its test.
HELD = {
    "credentials of an agent, of the syncer or of an operator for ZooKeeper": [
        [("its owner is root on every host", ROOT)],
        [
            ("nothing runs that the syncer did not sign.", ROOT),
            ("Its owner can stop the fleet,", STOP),
            ("subvert order (locks,", LOCKS),
            ("grants,", GRANTS),
            ("the list of providers)", LOCKS),
            ("and read all", LOCKS),
            ("but the users.", USERS),
            (
                "With host pools, its owner can make the workers give hosts that can be leased any published",
                TENANTS,
            ),
            ("role and the key of any registered tenant,", TENANTS),
            ("and hold back newer leases, so that a tenant keeps access.", TENANTS),
            ("A fresh host without minimum-sequence accepts any old signed publication and any", FRESH),
            ("old signed lease of its own from its owner, with the vulnerable versions that were", FRESH),
            ("published then; one with it, no older publication", FRESH),
        ],
    ],
    "credentials of the service": [
        [("the same", ROOT)],
        [
            ("the same;", ROOT),
            ("in addition its owner can read the hashes of users' keys", USERS),
            ("and make itself an admin,", ADMIN),
            ("or a tenant with any SSH key: with host pools, it is root on hosts that can be leased.", TENANTS),
            ("With push-key and signing-key also what the row of the git host lists", COMMITS),
        ],
    ],
    "key and credentials of a worker of host pools (lease-key)": [
        [("the same", ROOT)],
        [
            ("what the row of the service lists;", ADMIN),
            ("in addition its owner can itself give hosts that can be leased any published role,", WORKER),
            ("and their root any SSH key.", WORKER),
            ("The key makes it root on these hosts, and on no others", WORKER),
        ],
    ],
    "key of the syncer (publish-key) with its credentials": [
        [("the credentials alone suffice", ROOT)],
        [("its owner is root on every host. Keep the key on one machine, and change it as above", PUBLISHER)],
    ],
    "access to the git host, or the key of a person who may push": [
        [("its owner is root on every host, unless allowed-signers is set", PUSH)],
        [
            ("the same: the syncer signs what the branch contains.", PUSH),
            ("With allowed-signers only signed commits are published", PUSH),
        ],
    ],
}


def test_each_statement_of_the_table_in_the_manual_has_a_test():
    page = (MANUAL / "operations" / "signing.rst").read_text(encoding="utf-8")
    section = page[page.index(".. _stolen-credentials:") :]
    (table,) = publish_doctree(section, settings_overrides={"report_level": 5}).findall(nodes.tbody)
    cells = [[" ".join(cell.astext().split()) for cell in row.findall(nodes.entry)] for row in table]
    held = [
        [row, *(" ".join(statement for statement, _ in statements) for statements in columns)]
        for row, columns in HELD.items()
    ]
    assert cells == held
