"""Logins at two services, on a real ZooKeeper."""

from __future__ import annotations

import threading

import pytest
import structlog

from support.waiting import wait_until
from support.zookeeper import sent_requests
from zkdeployment.base.act import Act
from zkdeployment.base.errors import UnreachableError
from zkdeployment.fleet.views.history import FailedLogin, LoginProblem
from zkdeployment.service.users import login_store
from zkdeployment.service.users.key_hashes import KeyHasher
from zkdeployment.service.users.logins import SESSION_SECONDS, SESSIONS_OF_USER
from zkdeployment.service.users.user import LoginRefusal, NewUser, Role

ACT = Act("root@ops1", "add user", "", 5.0)
HERE, ELSEWHERE = "192.0.2.1", "198.51.100.9"
WRONG = LoginRefusal(LoginProblem.WRONG)


@pytest.fixture
def alice(service):
    return service.users.add(NewUser(name="alice", role=Role.OPERATOR), ACT)


class TestKeys:
    def test_the_right_key_is_accepted_at_every_service_and_then_without_a_request(
        self, service, other_service, session, alice, monkeypatch
    ):
        assert other_service.logins.verify("alice", alice.key, HERE) == alice.user
        assert service.logins.verify("alice", alice.key, HERE) == alice.user
        assert service.users.user("alice") == alice.user
        sent = sent_requests(session, monkeypatch)
        for _ in range(50):
            assert service.logins.verify("alice", alice.key, HERE) == alice.user
        assert sent == []

    @pytest.mark.parametrize("name", ["alice", "nobody", "", "a/b", "\ud800", "a" * 10_000])
    @pytest.mark.usefixtures("alice")
    def test_wrong_keys_and_unknown_names_have_the_same_answer(self, service, name):
        assert service.logins.verify(name, "wrong", HERE) == WRONG
        assert service.logins.verify(name, "\ud800", HERE) == WRONG

    def test_an_old_key_ends_at_once_everywhere(self, service, other_service, alice):
        for one in (service, other_service):
            assert one.logins.verify("alice", alice.key, HERE) == alice.user
        renewed = service.users.reset_key("alice", ACT)
        for one in (service, other_service):
            wait_until(lambda one=one: one.logins.verify("alice", alice.key, HERE) == WRONG, "the key ends")
            assert one.logins.verify("alice", renewed.key, ELSEWHERE) == renewed.user

    @pytest.mark.usefixtures("alice")
    def test_retired_users_and_expired_keys_are_refused_as_such_only_with_the_right_key(self, service):
        limited = service.users.reset_key("alice", ACT, key_expires_at=service.clock.time + 60)
        assert service.logins.verify("alice", limited.key, HERE) == limited.user
        service.clock.time += 60
        for _ in range(2):
            assert service.logins.verify("alice", limited.key, HERE) == LoginRefusal(LoginProblem.EXPIRED)
        assert [each.problem for each in service.logins.failed_logins()] == [LoginProblem.EXPIRED]
        service.users.retire("alice", ACT)
        wait_until(lambda: service.users.user("alice").is_retired, "the retirement is seen")
        assert service.logins.verify("alice", limited.key, HERE) == LoginRefusal(LoginProblem.RETIRED)
        assert service.logins.verify("alice", "wrong", HERE) == WRONG

    @pytest.mark.usefixtures("alice")
    def test_failed_logins_are_recorded_without_keys_and_unknown_names(self, service):
        with structlog.testing.capture_logs() as logs:
            service.logins.verify("alice", "the wrong key", HERE)
            service.logins.verify("7d7f3c5e-key-in-the-wrong-field", "", ELSEWHERE)
        now = service.clock.time
        assert service.logins.failed_logins() == (
            FailedLogin(now, "alice", HERE, LoginProblem.WRONG),
            FailedLogin(now, None, ELSEWHERE, LoginProblem.WRONG),
        )
        assert [entry["event"] for entry in logs] == ["login-failed"] * 2
        assert "the wrong key" not in str(logs)
        assert "7d7f3c5e" not in str(logs)


class TestThrottling:
    def test_the_right_key_is_accepted_while_others_guess_the_name(self, service, other_service, alice):
        for attempt in range(50):
            guessing = (service, other_service)[attempt % 2]
            assert guessing.logins.verify("alice", "wrong", f"203.0.113.{attempt}") == WRONG
        for one in (service, other_service):
            assert one.logins.verify("alice", alice.key, ELSEWHERE) == alice.user

    def test_the_right_key_is_accepted_from_an_address_where_others_guess(self, service, other_service, alice):
        for attempt in range(25):
            (service, other_service)[attempt % 2].logins.verify("alice", "wrong", HERE)
        for one in (service, other_service):
            assert one.logins.verify("alice", alice.key, HERE) == alice.user

    def test_a_client_that_does_not_wait_costs_zookeeper_and_the_processors_almost_nothing(
        self, service, session, alice, monkeypatch
    ):
        for _ in range(20):
            service.logins.verify("alice", "wrong", HERE)
        monkeypatch.setattr(login_store, "_GAP", 3600.0)
        assert service.logins.verify("alice", "wrong", HERE) == LoginRefusal(LoginProblem.THROTTLED, 1.0)
        sent, compared = sent_requests(session, monkeypatch), []
        monkeypatch.setattr(KeyHasher, "matches", lambda *_: compared.append(1))
        service.clock.time += 0.5
        for _ in range(50):
            assert service.logins.verify("alice", alice.key, HERE) == LoginRefusal(LoginProblem.THROTTLED, 0.5)
        assert (sent, compared) == ([], [])
        monkeypatch.undo()
        service.clock.time += 0.5
        assert service.logins.verify("alice", alice.key, HERE) == alice.user

    def test_a_client_that_is_logged_in_is_not_locked_out_by_guesses_from_its_address(self, service, alice):
        assert service.logins.verify("alice", alice.key, HERE) == alice.user
        for _ in range(20):
            service.logins.verify("alice", "wrong", HERE)
        assert service.logins.verify("alice", "wrong", HERE).problem is LoginProblem.THROTTLED
        assert service.logins.verify("alice", alice.key, HERE) == alice.user

    def test_an_address_that_tries_many_names_is_slowed_down_more_and_more(self, service, other_service, alice):
        for attempt in range(20):
            assert service.logins.verify(f"user{attempt}", "wrong", HERE) == WRONG
        for wait in (1.0, 2.0, 4.0):
            refusal = other_service.logins.verify("alice", "wrong", HERE)
            assert refusal == LoginRefusal(LoginProblem.THROTTLED, wait)
            service.clock.time += wait
            other_service.clock.time += wait
            assert service.logins.verify(f"user{wait}", "wrong", HERE) == WRONG
        assert other_service.logins.verify("alice", alice.key, ELSEWHERE) == alice.user

    @pytest.mark.usefixtures("alice")
    def test_attempts_at_the_same_time_are_counted_one_by_one(self, service, other_service):
        outcomes = []

        def attack(one):
            outcomes.extend(one.logins.verify("alice", f"wrong {number}", HERE) for number in range(15))

        threads = [threading.Thread(target=attack, args=(one,)) for one in (service, other_service)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(outcomes) == 30
        assert outcomes.count(WRONG) == 20

    def test_parallel_first_requests_with_the_right_key_are_all_accepted(self, service, alice):
        outcomes = []
        threads = [
            threading.Thread(target=lambda: outcomes.append(service.logins.verify("alice", alice.key, HERE)))
            for _ in range(15)  # the web server sends the keys of one address one after the other
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes == [alice.user] * 15

    def test_damaged_counts_are_replaced(self, service, client):
        for number in range(3):
            service.logins.verify(f"user{number}", "wrong", HERE)
        for name in client.get_children("/zkdeployment/logins/throttle"):
            client.set(f"/zkdeployment/logins/throttle/{name}", b'{"x": 1, "y": [2], "z": ["a", "b"]}')
        for number in range(3):
            assert service.logins.verify(f"user{number}", "wrong", HERE) == WRONG


class TestSessions:
    def test_a_session_is_valid_at_every_service_and_the_token_is_stored_nowhere(
        self, service, other_service, session, client, alice, monkeypatch
    ):
        token = service.logins.begin_session(alice.user)
        assert other_service.logins.session_user(token) == alice.user
        assert service.logins.session_user(token) == alice.user
        sent = sent_requests(session, monkeypatch)
        assert [service.logins.session_user(token) for _ in range(50)] == [alice.user] * 50
        assert sent == []
        (name,) = client.get_children("/zkdeployment/logins/sessions")
        node = client.get(f"/zkdeployment/logins/sessions/{name}")[0].decode()
        assert len(token) > 40
        assert token not in name + node

    @pytest.mark.parametrize("token", ["", "x", "../users/alice", "\ud800", "naïve", "x" * 100_000, "a\0"])
    @pytest.mark.usefixtures("alice")
    def test_other_tokens_belong_to_no_user(self, service, token):
        assert service.logins.session_user(token) is None
        service.logins.end_session(token)

    def test_a_session_ends_by_logout_at_every_service(self, service, other_service, client, alice):
        token, kept = (service.logins.begin_session(alice.user) for _ in range(2))
        assert other_service.logins.session_user(token) == alice.user
        service.logins.end_session(token)
        assert service.logins.session_user(token) is None
        wait_until(lambda: other_service.logins.session_user(token) is None, "the session ends")
        other_service.logins.end_session(token)
        assert other_service.logins.session_user(kept) == alice.user
        assert len(client.get_children("/zkdeployment/logins/sessions")) == 1

    @pytest.mark.parametrize("end", ["reset_key", "retire"])
    def test_all_sessions_end_with_the_key_and_with_the_user(self, service, other_service, client, alice, end):
        tokens = [service.logins.begin_session(alice.user) for _ in range(3)]
        assert [other_service.logins.session_user(token) for token in tokens] == [alice.user] * 3
        getattr(service.users, end)("alice", ACT)
        for one in (service, other_service):
            for token in tokens:
                wait_until(lambda one=one, token=token: one.logins.session_user(token) is None, "the end")
        assert client.get_children("/zkdeployment/logins/sessions") == []

    def test_a_session_expires_and_is_removed(self, service, client, alice):
        token = service.logins.begin_session(alice.user)
        service.clock.time += SESSION_SECONDS
        assert service.logins.session_user(token) is None
        assert client.get_children("/zkdeployment/logins/sessions") == []

    def test_the_number_of_sessions_of_a_user_is_limited(self, service, client, alice):
        tokens = []
        for _ in range(SESSIONS_OF_USER + 2):
            tokens.append(service.logins.begin_session(alice.user))
            service.clock.time += 1
        alive = [service.logins.session_user(token) is not None for token in tokens]
        assert alive == [False] * 2 + [True] * SESSIONS_OF_USER
        assert len(client.get_children("/zkdeployment/logins/sessions")) == SESSIONS_OF_USER

    def test_a_session_whose_creation_was_not_answered_is_found(self, service, session, alice, monkeypatch):
        service.logins.begin_session(alice.user)
        commit = session.commit

        def lose_the_answer(*operations):
            commit(*operations)
            raise UnreachableError("the answer was lost")

        monkeypatch.setattr(session, "commit", lose_the_answer)
        token = service.logins.begin_session(alice.user)
        monkeypatch.setattr(session, "commit", commit)
        assert service.logins.session_user(token) == alice.user
