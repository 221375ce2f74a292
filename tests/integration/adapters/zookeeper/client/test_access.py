"""ZooKeeper lets in who proves who they are: real servers, real certificates, real access lists."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from kazoo.exceptions import NoAuthError

from support.certificates import Authority, EncryptingServer
from support.zookeeper import connected
from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.adapters.zookeeper.client.transactions import Create, Set
from zkdeployment.adapters.zookeeper.fleet import ZooKeeperFleet
from zkdeployment.adapters.zookeeper.operator.live_tree_store import ZooKeeperLiveTree
from zkdeployment.errors import ConfigurationError, DeniedError, UnreachableError
from zkdeployment.model.deployment import Deployment
from zkdeployment.model.host import Identity
from zkdeployment.model.publication import TreeChange
from zkdeployment.model.servers import Access, AclEntry, Servers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CREATOR = AclEntry("auth", "", "cdrwa")
AGENTS = Access(secret="agents:secret", acl=(CREATOR,))
BIG = b"x" * 100_000


class TestCredentials:
    def test_what_we_make_is_ours_alone(self, zookeeper, client):
        with Session(Servers(zookeeper, AGENTS)) as session, Session(Servers(zookeeper, AGENTS)) as other:
            session.commit(Create("/ours", b"1"))
            session.ensure("/ours/too")
            session.commit(Create("/ours/for-now", ephemeral=True))
            other.commit(Set("/ours", b"2"))
            for path in ("/ours", "/ours/too", "/ours/for-now"):
                with pytest.raises(NoAuthError):
                    client.get(path)
            assert session.get("/ours").data == b"2"

    def test_others_have_the_rights_that_are_granted(self, zookeeper, client):
        access = Access(secret="agents:secret", acl=(CREATOR, AclEntry("world", "anyone", "r")))
        with Session(Servers(zookeeper, access)) as session:
            session.commit(Create("/ours", b"1"))
            assert client.get("/ours")[0] == b"1"
            with pytest.raises(NoAuthError):
                client.set("/ours", b"2")

    @pytest.mark.parametrize("secret", ["agents:wrong", None])
    def test_a_wrong_password_is_told_with_the_node_that_is_denied(self, zookeeper, secret):
        with Session(Servers(zookeeper, AGENTS)) as session:
            session.commit(Create("/ours"))
        with (
            Session(Servers(zookeeper, Access(secret=secret))) as session,
            pytest.raises(
                DeniedError, match=r"does not allow to read /ours: missing rights .*zookeeper-credentials"
            ),
        ):
            session.get("/ours")

    def test_peers_see_each_other_in_the_queue_of_a_lock(self, zookeeper):
        deployment = Deployment("/shop/web", 0)
        with Session(Servers(zookeeper, AGENTS)) as session, Session(Servers(zookeeper, AGENTS)) as other:
            mine = ZooKeeperFleet(session).node_lock(deployment, Identity("1", "web1"))
            theirs = ZooKeeperFleet(other).node_lock(deployment, Identity("2", "web2"))
            assert mine.try_acquire()
            assert not theirs.acquire(0.1)
            assert theirs.holder() == "web1 (1)"
            mine.release()
            assert theirs.acquire(30)
            theirs.release()

    def test_transactions_have_room_for_long_access_lists(self, zookeeper):
        many = tuple(AclEntry("digest", f"somebody:{number:040}", "r") for number in range(12))
        change = TreeChange(create={"/many": {}} | {f"/many/{number}": {} for number in range(2500)})
        with Session(Servers(zookeeper, Access(secret="agents:secret", acl=(CREATOR, *many)))) as session:
            assert 2500 * session.acl_size > 1024 * 1024
            ZooKeeperLiveTree(session).import_tree(change, roles=(), versions={})
            assert len(session.children("/many")) == 2500

    def test_a_missing_chroot_is_made_by_who_we_are(self, zookeeper_server, zookeeper):
        with Session(Servers(f"{zookeeper}/new", AGENTS), create_chroot=True) as session:
            session.commit(Create("/ours"))
        with connected(zookeeper_server.address) as nobody, pytest.raises(NoAuthError):
            nobody.get_children(f"/{zookeeper.partition('/')[2]}/new")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[EncryptingServer]:
    running = EncryptingServer(tmp_path_factory.mktemp("encrypting"), authority)
    running.start()
    yield running
    running.kill()


class TestCertificates:
    def test_much_is_written_and_read_and_is_of_who_the_certificate_says(self, server, authority):
        access = authority.access("agents")
        granted = Access(ca=access.ca, certificate=access.certificate, key=access.key, acl=(CREATOR,))
        with Session(Servers(f"localhost:{server.secure_port}", granted), call_timeout=60) as session:
            for number in range(7):
                session.commit(Create(f"/node-{number}", BIG))
            found = session.get_many([f"/node-{number}" for number in range(7)] * 20)
            assert [node.data for node in found] == [BIG] * 140
        with connected(server.address) as nobody:
            with pytest.raises(NoAuthError):
                nobody.get("/node-0")
            nobody.add_auth("digest", "somebody:else")
            with pytest.raises(NoAuthError):
                nobody.get("/node-0")

    def test_a_server_that_is_not_called_so_is_refused(self, server, authority):
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
    def test_who_has_no_certificate_or_a_strange_one_is_told(self, server, authority, tmp_path, strange):
        certificate, key = Authority(tmp_path).issue("agents") if strange else (None, None)
        access = Access(ca=authority.ca, certificate=certificate, key=key)
        session = Session(Servers(f"localhost:{server.secure_port}", access), call_timeout=10)
        # With TLS 1.3 the server says so only after the handshake: for kazoo the connection is lost.
        with pytest.raises(UnreachableError, match=r"does not accept our certificate|does not answer"):
            session.open()
        session.close()

    def test_a_server_that_does_not_encrypt_is_told(self, server, authority):
        access = authority.access("agents")
        with pytest.raises(UnreachableError, match=r"cannot be reached at localhost:\d+: no encrypted connection"):
            Session(Servers(f"localhost:{server.port}", access)).open()

    def test_a_server_that_does_not_answer_is_not_waited_for_longer_than_for_a_call(self, authority):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            servers = Servers(f"localhost:{silent.getsockname()[1]}", authority.access("agents"))
            with pytest.raises(UnreachableError, match="The handshake operation timed out"):
                Session(servers, call_timeout=0.3).open()

    def test_files_of_no_use_are_told_at_once(self, authority, tmp_path: Path):
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
