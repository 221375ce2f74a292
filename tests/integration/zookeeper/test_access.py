"""Authentication and authorization with real ZooKeeper servers, certificates and access lists."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from kazoo.exceptions import NoAuthError

from support.certificates import Authority, EncryptingServer
from support.waiting import wait_until
from support.zookeeper import connected
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.deployment import Deployment
from zkdeployment.base.errors import ConfigurationError, DeniedError, UnreachableError
from zkdeployment.base.host import Identity
from zkdeployment.publishing.store.live_tree import ZooKeeperLiveTree
from zkdeployment.tree.values import TreeChange
from zkdeployment.zookeeper.servers import Access, AclEntry, Servers
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Create, Set

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CREATOR = AclEntry("auth", "", "cdrwa")
AGENTS = Access(secret="agents:secret", acl=(CREATOR,))
BIG = b"x" * 100_000


class TestCredentials:
    def test_created_nodes_are_accessible_only_with_the_credentials(self, zookeeper, client):
        with Session(Servers(zookeeper, AGENTS)) as session, Session(Servers(zookeeper, AGENTS)) as other:
            session.commit(Create("/ours", b"1"))
            session.ensure("/ours/too")
            session.commit(Create("/ours/for-now", ephemeral=True))
            other.commit(Set("/ours", b"2"))
            for path in ("/ours", "/ours/too", "/ours/for-now"):
                with pytest.raises(NoAuthError):
                    client.get(path)
            assert session.get("/ours").data == b"2"

    def test_others_have_the_granted_rights(self, zookeeper, client):
        access = Access(secret="agents:secret", acl=(CREATOR, AclEntry("world", "anyone", "r")))
        with Session(Servers(zookeeper, access)) as session:
            session.commit(Create("/ours", b"1"))
            assert client.get("/ours")[0] == b"1"
            with pytest.raises(NoAuthError):
                client.set("/ours", b"2")

    @pytest.mark.parametrize("secret", ["agents:wrong", None])
    def test_the_error_for_a_wrong_password_names_the_denied_node(self, zookeeper, secret):
        with Session(Servers(zookeeper, AGENTS)) as session:
            session.commit(Create("/ours"))
        with (
            Session(Servers(zookeeper, Access(secret=secret))) as session,
            pytest.raises(
                DeniedError, match=r"does not allow to read /ours: missing rights; set zookeeper-credentials"
            ),
        ):
            session.get("/ours")

    def test_hosts_with_the_same_credentials_share_the_queue_of_a_lock(self, zookeeper):
        deployment = Deployment("/shop/web", 0)
        with Session(Servers(zookeeper, AGENTS)) as session, Session(Servers(zookeeper, AGENTS)) as other:
            mine = ZooKeeperFleet(session).node_lock(deployment, Identity("1", "web1"))
            theirs = ZooKeeperFleet(other).node_lock(deployment, Identity("2", "web2"))
            assert mine.try_acquire()
            assert not theirs.acquire(0.1)
            assert theirs.holder() == "web1 (1)"
            mine.release()
            assert theirs.acquire(60)
            theirs.release()

    def test_transactions_have_room_for_long_access_lists(self, zookeeper):
        many = tuple(AclEntry("digest", f"somebody:{number:040}", "r") for number in range(12))
        change = TreeChange(create={"/many": {}} | {f"/many/{number}": {} for number in range(2500)})
        with Session(Servers(zookeeper, Access(secret="agents:secret", acl=(CREATOR, *many)))) as session:
            assert 2500 * session.acl_size > 1024 * 1024
            ZooKeeperLiveTree(session).import_tree(change, roles=(), versions={})
            assert len(session.children("/many")) == 2500

    def test_a_missing_chroot_is_created_with_the_credentials(self, zookeeper_server, zookeeper):
        with Session(Servers(f"{zookeeper}/new", AGENTS), create_chroot=True) as session:
            session.commit(Create("/ours"))
        with connected(zookeeper_server.address) as nobody, pytest.raises(NoAuthError):
            nobody.get_children(f"/{zookeeper.partition('/')[2]}/new")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[EncryptingServer]:
    server = EncryptingServer(tmp_path_factory.mktemp("encrypting"), authority)
    server.start()
    yield server
    server.kill()


class TestCertificates:
    def test_large_nodes_are_written_and_read_and_belong_to_the_certificates_subject(self, server, authority):
        access = authority.access("agents")
        granted = Access(ca=access.ca, certificate=access.certificate, key=access.key, acl=(CREATOR,))
        with Session(Servers(f"localhost:{server.secure_port}", granted), call_timeout=60) as session:
            for number in range(7):
                session.commit(Create(f"/node-{number}", BIG))
            nodes = session.get_many([f"/node-{number}" for number in range(7)] * 20)
            assert [node.data for node in nodes] == [BIG] * 140
        with connected(server.address) as nobody:
            with pytest.raises(NoAuthError):
                nobody.get("/node-0")
            nobody.add_auth("digest", "somebody:else")
            with pytest.raises(NoAuthError):
                nobody.get("/node-0")

    def test_a_server_with_a_certificate_for_another_name_is_refused(self, server, authority):
        with pytest.raises(
            UnreachableError, match=r"127.0.0.1:\d+: its certificate is not accepted \(.*127.0.0.1"
        ):
            Session(Servers(f"127.0.0.1:{server.secure_port}", authority.access("agents"))).open()

    def test_a_server_of_another_authority_is_refused(self, server, authority, tmp_path):
        certificate, key = authority.issue("agents")
        access = Access(ca=Authority(tmp_path).ca, certificate=certificate, key=key)
        with pytest.raises(UnreachableError, match="its certificate is not accepted"):
            Session(Servers(f"localhost:{server.secure_port}", access)).open()

    @pytest.mark.parametrize("strange", [False, True])
    def test_a_missing_or_foreign_client_certificate_is_an_error(self, server, authority, tmp_path, strange):
        certificate, key = Authority(tmp_path).issue("agents") if strange else (None, None)
        access = Access(ca=authority.ca, certificate=certificate, key=key)
        session = Session(Servers(f"localhost:{server.secure_port}", access), call_timeout=10)
        # With TLS 1.3 the server refuses the certificate after the handshake, so kazoo sees a lost connection.
        with pytest.raises(UnreachableError, match=r"does not accept our certificate|does not answer"):
            session.open()
        session.close()

    def test_a_server_without_encryption_is_an_error(self, server, authority):
        access = authority.access("agents")
        with pytest.raises(UnreachableError, match=r"cannot be reached at localhost:\d+: no encrypted connection"):
            Session(Servers(f"localhost:{server.port}", access)).open()

    def test_the_call_timeout_limits_the_wait_for_a_silent_server(self, authority):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            servers = Servers(f"localhost:{silent.getsockname()[1]}", authority.access("agents"))
            with pytest.raises(UnreachableError, match="The handshake operation timed out"):
                Session(servers, call_timeout=0.3).open()

    def test_unusable_certificate_files_are_an_immediate_error(self, authority, tmp_path: Path):
        certificate, key = authority.issue("agents")
        broken = tmp_path / "broken.pem"
        broken.write_text("no certificate")
        with pytest.raises(ConfigurationError, match=f"cannot encrypt with {broken}: .*; expected certificates"):
            Session(Servers("localhost:1", Access(ca=broken)))
        with pytest.raises(ConfigurationError, match=f"cannot encrypt with {broken}"):
            Session(Servers("localhost:1", Access(ca=authority.ca, certificate=broken, key=key)))
        other = Authority(tmp_path).issue("other")[1]
        with pytest.raises(ConfigurationError, match=f"cannot encrypt with {certificate}"):
            Session(Servers("localhost:1", Access(ca=authority.ca, certificate=certificate, key=other)))

    def test_renewed_certificates_are_used_for_the_next_connection(self, server, authority):
        access = authority.access("agents")
        with Session(
            Servers(f"localhost:{server.secure_port}", access), session_timeout=6, call_timeout=60
        ) as session:
            session.get("/")
            authority.issue("agents")
            server.stop()
            server.start()
            assert session.get("/") is not None

    def test_certificates_that_are_unusable_during_an_outage_only_prolong_the_outage(self, server, authority):
        access = authority.access("agents")
        servers = Servers(f"localhost:{server.secure_port}", access)
        unopened = Session(servers, call_timeout=60)
        with Session(servers, call_timeout=60, doubtful=0) as session:
            server.stop()
            wait_until(lambda: not session.connected, "the outage")
            access.certificate.write_text("half a certificate")
            session.call_timeout = 0.1
            with pytest.raises(UnreachableError, match=f"cannot encrypt with {access.certificate}"):
                session.get("/")
            with pytest.raises(UnreachableError, match=f"cannot encrypt with {access.certificate}"):
                unopened.open()
            authority.issue("agents")
            server.start()
            session.call_timeout = 60
            assert session.get("/") is not None
            unopened.open()
            unopened.close()
