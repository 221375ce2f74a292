"""The users of the service, on a real ZooKeeper."""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import replace

import pytest
from kazoo.exceptions import NoAuthError

from support.waiting import wait_until
from support.zookeeper import renew_session, sent_requests, through, write_node
from zkdeployment.base.act import Act
from zkdeployment.base.errors import RefusedError, UnreachableError
from zkdeployment.fleet.store.audit import read_acts
from zkdeployment.fleet.views.history import LoginProblem
from zkdeployment.service.users.external_logins import ExternalUser
from zkdeployment.service.users.user import LoginRefusal, NewUser, Role
from zkdeployment.zookeeper.servers import Access, AclEntry, Servers
from zkdeployment.zookeeper.session import Session

ACT = Act("root@ops1", "add user", "", 5.0)
ALICE = NewUser(name="alice", role=Role.OPERATOR)


def test_a_user_gets_an_id_and_a_key_of_which_only_a_hash_is_stored(service, session, client):
    issued = service.users.add(ALICE, ACT)
    assert str(uuid.UUID(issued.key)) == issued.key
    assert (issued.user.id, issued.user.name, issued.user.role) == (1, "alice", Role.OPERATOR)
    assert issued.user.created_at == service.clock.time
    tenant = NewUser(name="ci", role=Role.TENANT, ssh_key="ssh-ed25519 AAAA", node_quota=3, session_lifetime=60.0)
    later = replace(ACT, time=6.0)
    assert service.users.add(tenant, later).user.id == 2
    stored = json.loads(client.get("/zkdeployment/users/alice")[0])
    assert stored["key_hash"].startswith("$argon2id$")
    assert issued.key not in str([client.get(f"/zkdeployment/users/{name}") for name in ("alice", "ci")])
    users = service.users.users()
    assert [user.name for user in users] == ["alice", "ci"]
    assert (users[1].ssh_key, users[1].node_quota, users[1].session_lifetime) == ("ssh-ed25519 AAAA", 3, 60.0)
    assert read_acts(session) == (ACT, later)


@pytest.mark.parametrize("damaged", ["/shop", [1], [""], None, {}])
def test_a_damaged_limit_does_not_read_as_no_limit(service, client, damaged):
    limited = service.users.add(replace(ALICE, paths=("/shop",)), ACT).user
    assert limited.paths == ("/shop",)
    assert service.users.user("alice") == limited
    stored = json.loads(client.get("/zkdeployment/users/alice")[0])
    assert stored["paths"] == ["/shop"]
    write_node(client, "/zkdeployment/users/alice", {**stored, "paths": damaged})
    wait_until(lambda: service.users.user("alice") is None, "the damaged user is no user")


def test_a_user_without_the_property_paths_is_not_limited(service, client):
    service.users.add(ALICE, ACT)
    assert "paths" not in json.loads(client.get("/zkdeployment/users/alice")[0])
    assert service.users.users()[0].paths == ()


def test_an_own_change_is_known_at_once_even_if_its_event_is_late(service, session, client):
    late, events = threading.Event(), threading.Event()
    service.users.add(ALICE, ACT)
    assert service.users.user("alice").is_retired is False
    client.create("/slow", b"")
    session.get("/slow", watch=lambda _: (events.set(), late.wait(60)))
    client.set("/slow", b"changed")  # the events of this session wait from now on
    assert events.wait()
    try:
        service.users.retire("alice", ACT)
        assert service.users.user("alice").is_retired is True
    finally:
        late.set()


def test_a_name_is_used_only_once(service):
    service.users.add(ALICE, ACT)
    with pytest.raises(RefusedError, match="there is a user alice already, or there was one"):
        service.users.add(ALICE, ACT)
    service.users.retire("alice", ACT)
    with pytest.raises(RefusedError, match="there is a user alice already, or there was one"):
        service.users.add(ALICE, ACT)


@pytest.mark.parametrize("name", ["", "a/b", "..", "a:b", "\ud800", "a" * 65, "a b", "-a", "a\0"])
def test_hostile_names_are_refused_and_no_users(service, name):
    with pytest.raises(RefusedError, match="is not a user name"):
        service.users.add(replace(ALICE, name=name), ACT)
    with pytest.raises(RefusedError, match="there is no user"):
        service.users.retire(name, ACT)
    assert service.users.user(name) is None


def test_users_that_two_services_add_at_the_same_time_get_different_ids(service, other_service):
    def add(store, prefix):
        for number in range(5):
            store.add(NewUser(name=f"{prefix}{number}", role=Role.VIEWER), ACT)

    threads = [
        threading.Thread(target=add, args=(one.users, prefix))
        for one, prefix in ((service, "a"), (other_service, "b"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [user.id for user in service.users.users()] == list(range(1, 11))


def test_changes_keep_the_identity_and_retirement_is_permanent(service, session):
    first = service.users.add(ALICE, ACT)
    second = service.users.reset_key("alice", replace(ACT, time=6.0), key_expires_at=9e9)
    assert second.key != first.key
    assert (second.user.id, second.user.key_number, second.user.key_expires_at) == (1, 2, 9e9)
    third = replace(ACT, time=7.0)
    changed = service.users.update("alice", lambda user: replace(user, id=7, name="x", node_quota=4), third)
    assert changed == replace(second.user, node_quota=4)
    retired = service.users.retire("alice", replace(ACT, time=8.0))
    assert retired.retired_at == service.clock.time
    for change in (
        lambda: service.users.retire("alice", ACT),
        lambda: service.users.reset_key("alice", ACT),
        lambda: service.users.update("alice", lambda user: user, ACT),
    ):
        with pytest.raises(RefusedError, match="the user alice is retired permanently"):
            change()
    assert service.users.users() == (retired,)
    assert len(read_acts(session)) == 4


def test_reading_a_user_again_costs_no_request_and_is_fresh(service, other_service, session, monkeypatch):
    service.users.add(ALICE, ACT)
    assert service.users.user("alice").role is Role.OPERATOR
    sent = sent_requests(session, monkeypatch)
    for _ in range(100):
        assert service.users.user("alice").role is Role.OPERATOR
    assert sent == []
    other_service.users.retire("alice", ACT)
    wait_until(lambda: service.users.user("alice").is_retired, "the other service sees the retirement")
    assert len(sent) <= 2


def test_a_cached_user_is_not_trusted_without_a_connection(zookeeper, proxy, service_with, other_service):
    other_service.users.add(ALICE, ACT)
    with Session(through(proxy, zookeeper)) as session:
        users = service_with(session).users
        assert users.user("alice") is not None
        limit, session.call_timeout = session.call_timeout, 0.5
        proxy.cut()
        wait_until(lambda: not session.connected, "the connection is lost")
        with pytest.raises(UnreachableError):
            users.user("alice")
        session.call_timeout = limit
        other_service.users.retire("alice", ACT)
        proxy.heal()
        wait_until(lambda: session.connected, "the connection is back")
        assert users.user("alice").is_retired


def test_a_cached_user_is_read_again_in_a_new_session(service, other_service, session):
    service.users.add(ALICE, ACT)
    service.users.user("alice")
    renew_session(session)
    other_service.users.retire("alice", ACT)
    wait_until(lambda: service.users.user("alice").is_retired, "the retirement is seen")


def test_a_change_whose_answer_is_lost_is_found_again(service, session, monkeypatch):
    service.users.add(NewUser(name="bob", role=Role.VIEWER), ACT)
    commit = session.commit

    def lose_the_answer(*operations):
        commit(*operations)
        raise UnreachableError("the answer was lost")

    monkeypatch.setattr(session, "commit", lose_the_answer)
    issued = service.users.add(ALICE, ACT)
    assert service.users.reset_key("alice", ACT).user.key_number == 2
    monkeypatch.setattr(session, "commit", commit)
    assert [user.name for user in service.users.users()] == ["bob", issued.user.name]


def test_a_change_that_was_not_made_is_an_error(service, session, monkeypatch):
    def lose_the_request(*_operations):
        raise UnreachableError("the request was lost")

    monkeypatch.setattr(session, "commit", lose_the_request)
    with pytest.raises(UnreachableError, match="the request was lost"):
        service.users.add(ALICE, ACT)


def test_a_damaged_user_is_ignored_and_does_not_hide_other_users(service, client):
    service.users.add(ALICE, ACT)
    service.users.add(NewUser(name="bob", role=Role.VIEWER), ACT)
    for rubbish in (
        b"",
        b"rubbish",
        b'{"id": 1, "role": "god", "created_at": 1, "key_number": 1}',
        b'{"id": "1"}',
    ):
        client.set("/zkdeployment/users/alice", rubbish)
        wait_until(lambda: service.users.user("alice") is None, "the damage is seen")
        assert [user.name for user in service.users.users()] == ["bob"]
    client.set("/zkdeployment/users", b"rubbish")
    assert service.users.add(NewUser(name="carol", role=Role.VIEWER), ACT).user.id == 3


def test_only_the_services_credentials_read_the_users(zookeeper, client, service_with):
    secret = AclEntry("auth", "", "cdrwa")
    access = Access(secret="service:secret", acl=(secret, AclEntry("world", "anyone", "r")))
    with Session(Servers(zookeeper, access)) as session:
        service = service_with(session, (secret,))
        service.users.add(ALICE, ACT)
        service.logins.verify("alice", "wrong", "192.0.2.1")
        assert len(service.logins.failed_logins()) == 1
        for path in ("users/alice", "users", "logins", "logins/failed", "logins/throttle"):
            with pytest.raises(NoAuthError):
                client.get(f"/zkdeployment/{path}")
        assert client.get("/zkdeployment/audit")[0] != b""


class TestUsersThatLogInElsewhere:
    ANN = ExternalUser("ann", Role.VIEWER, "openid https://id.example.com 42")

    def test_a_user_is_added_at_the_first_login_and_has_its_present_role_at_each(self, service, session):
        user = service.users.admit(self.ANN)
        assert (user.id, user.role, user.identity) == (1, Role.VIEWER, self.ANN.identity)
        assert service.users.admit(self.ANN) == user
        assert service.users.admit(replace(self.ANN, role=Role.OPERATOR)).role is Role.OPERATOR
        assert [(act.by, act.what) for act in read_acts(session)] == [
            ("openid", "add user ann (viewer), who logged in elsewhere"),
            ("openid", "give user ann the role operator"),
        ]

    def test_names_are_not_taken_over(self, service):
        service.users.add(ALICE, ACT)
        service.users.admit(self.ANN)
        for other in (replace(self.ANN, name="alice"), replace(self.ANN, identity="proxy")):
            assert service.users.admit(other) is LoginProblem.TAKEN
        service.users.retire("ann", ACT)
        wait_until(lambda: service.users.admit(self.ANN) is LoginProblem.RETIRED, "the retirement is seen")

    def test_there_is_no_key(self, service):
        service.users.admit(self.ANN)
        with pytest.raises(RefusedError, match="the user ann has no key: it logs in elsewhere"):
            service.users.reset_key("ann", ACT)
        for key in ("", "x"):
            assert service.logins.verify("ann", key, "192.0.2.1") == LoginRefusal(LoginProblem.WRONG)

    def test_logins_at_two_services_at_the_same_time_add_one_user(self, service, other_service):
        found = []
        threads = [
            threading.Thread(target=lambda one=one: found.append(one.users.admit(self.ANN)))
            for one in (service, other_service)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found[0] == found[1]
        assert [user.name for user in service.users.users()] == ["ann"]
