"""Role locks: one holder, also after its session expired; adopted by the same host; released only explicitly."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack

import pytest

from support.waiting import wait_until
from support.zookeeper import expire_session, sent_requests
from zkdeployment.agent.files.run_directory import JoinedRoles
from zkdeployment.agent.store.role_locks import RoleRequests, requests
from zkdeployment.base.errors import HostFilesError, LockLostError, TreeError, UnreachableError
from zkdeployment.base.host import Identity
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Delete, TransactionError

PLACE = "/role-locks/web"


@pytest.fixture(autouse=True)
def place(session):
    session.ensure(PLACE)


class MemoryOfRequests:
    """The part of a ``SessionFile`` for the requests of host 1; ``full`` like a disk without room."""

    def __init__(self, requests=None) -> None:
        self.requests = requests
        self.full = False

    def read_requests(self, host_id):
        return self.requests if host_id == "1" else None

    def write_requests(self, host_id, requests):
        if self.full or host_id != "1":
            raise HostFilesError("no space left")
        self.requests = dict(requests)


def lock(session, number=1, joined=None):
    return RoleRequests(session, joined or JoinedRoles()).lock("web", Identity(str(number), f"web{number}", "web"))


def request(session, number, role="web"):
    """Leave a request as an agent of zc.zkdeployment does."""
    session.ensure(f"/role-locks/{role}")
    data = json.dumps({"requestor": str(number), "hostname": f"web{number}"}).encode()
    return put_request(session, data, role)


def put_request(session, data, role="web"):
    place = f"/role-locks/{role}"
    return session.enqueue_lasting(f"{place}/lr-", data, session.get(place).version)


def test_the_error_names_the_missing_lock_node_of_a_role(session):
    with pytest.raises(
        TreeError, match=r"^cannot lock role db, .*: /role-locks/db does not exist; .*, so publish again$"
    ):
        RoleRequests(session, JoinedRoles()).lock("db", Identity("1", "db1", "db"))


def test_a_check_and_a_holder_query_take_three_requests_at_any_queue_length(session, monkeypatch):
    mine = lock(session)
    assert mine.acquire(0)
    for _ in range(60):
        request(session, 2)
    sent = sent_requests(session, monkeypatch)
    mine.check()
    assert mine.holder() == "web1 (1)"
    assert len(sent) == 3


@pytest.mark.parametrize("waiting", [3, 30])
def test_each_release_of_a_role_lock_takes_three_requests_at_any_queue_length(session, monkeypatch, waiting):
    queue = [lock(session, number) for number in range(waiting)]
    for mine in queue:
        mine.acquire(0)
    sent = sent_requests(session, monkeypatch)
    for mine in queue[1:]:
        assert not mine.acquire(0)
    assert sent == []
    for mine in queue:
        assert mine.acquire(60)
        mine.release()
    assert len(sent) == 3 * waiting
    assert session.children(PLACE) == []


@pytest.mark.parametrize("restarted", [False, True])
def test_a_request_that_arrives_after_its_host_has_searched_the_queue_is_refused(
    session, other, monkeypatch, restarted
):
    memory, late, send = MemoryOfRequests({}), [], other.enqueue_lasting

    def hold_back(*request):
        monkeypatch.undo()
        late.append(request)
        raise UnreachableError("no answer")

    monkeypatch.setattr(other, "enqueue_lasting", hold_back)
    mine = lock(other, joined=JoinedRoles(memory))
    with pytest.raises(UnreachableError):
        mine.acquire(0)
    assert memory.requests == {"web": None}
    if restarted:
        mine = lock(session, joined=JoinedRoles(memory))
    assert mine.acquire(0)
    with pytest.raises(TransactionError):
        send(*late[0])
    mine.release()
    assert session.children(PLACE) == []


def test_a_waiting_host_whose_request_was_removed_queues_again(session, other):
    first, second = lock(session, 1), lock(other, 2)
    assert first.acquire(0)
    assert not second.acquire(0)
    session.commit(Delete(f"{PLACE}/lr-0000000001"))
    first.release()
    assert second.acquire(60)
    assert session.children(PLACE) == ["lr-0000000002"]


def test_a_request_is_persistent_and_names_its_host(session):
    mine = lock(session)
    assert mine.holder() is None
    assert mine.acquire(0)
    mine.check()
    assert session.children(PLACE) == ["lr-0000000000"]
    node = session.get(f"{PLACE}/lr-0000000000")
    assert json.loads(node.data) == {"requestor": "1", "hostname": "web1"}
    assert not node.owner
    assert mine.holder() == "web1 (1)"
    mine.release()
    mine.release()
    assert session.children(PLACE) == []


def test_requests_are_granted_in_order(session, other):
    first, second, third = lock(session, 1), lock(other, 2), lock(session, 3)
    assert first.acquire(0)
    assert not second.acquire(0)
    assert not third.acquire(0)
    first.release()
    assert second.acquire(60)
    assert not third.acquire(0)
    second.release()
    assert third.acquire(60)
    assert [str(request) for request in requests(session, "web")] == ["web3 (3)"]


def test_a_waiting_host_acquires_the_lock_as_soon_as_it_is_released(session, other):
    first, second = lock(session, 1), lock(other, 2)
    assert first.acquire(0)
    got = threading.Event()
    waiting = threading.Thread(target=lambda: second.acquire(60) and got.set())
    waiting.start()
    wait_until(lambda: len(session.children(PLACE)) == 2, "the second request")
    first.release()
    waiting.join()
    assert got.is_set()


def test_a_restarted_host_adopts_its_request(session, other):
    assert lock(session).acquire(0)
    assert not lock(other, 2).acquire(0)
    again = lock(other)
    assert again.acquire(0)
    assert session.children(PLACE) == ["lr-0000000000", "lr-0000000001"]
    again.withdraw()
    assert again.holder() == "web1 (1)"


def test_of_two_requests_of_a_host_the_older_is_kept(session):
    for number in (1, 2, 1):
        request(session, number)
    assert lock(session).acquire(0)
    assert sorted(session.children(PLACE)) == ["lr-0000000000", "lr-0000000001"]


def test_withdrawing_deletes_a_waiting_request_and_gives_an_unused_lock_back(session, other):
    first, second = lock(session, 1), lock(other, 2)
    assert first.acquire(0)
    assert not second.acquire(0)
    second.withdraw()
    assert session.children(PLACE) == ["lr-0000000000"]
    first.withdraw()
    assert session.children(PLACE) == []


def test_a_request_whose_creation_was_not_answered_is_adopted(session, other, monkeypatch):
    first, second = lock(session, 1), lock(other, 2)
    assert first.acquire(0)

    def lose_the_answer(*arguments):
        monkeypatch.undo()
        other.enqueue_lasting(*arguments)
        raise UnreachableError("no answer")

    monkeypatch.setattr(other, "enqueue_lasting", lose_the_answer)
    with pytest.raises(UnreachableError):
        second.acquire(0)
    assert not second.acquire(0)
    assert len(session.children(PLACE)) == 2
    second.withdraw()
    assert session.children(PLACE) == ["lr-0000000000"]


def test_a_request_that_cannot_be_withdrawn_is_adopted_later(session, other, monkeypatch):
    first, second = lock(session, 1), lock(other, 2)
    assert first.acquire(0)
    assert not second.acquire(0)

    def not_now(*_):
        raise UnreachableError("no answer")

    monkeypatch.setattr(other, "commit", not_now)
    second.withdraw()
    monkeypatch.undo()
    assert len(session.children(PLACE)) == 2
    first.release()
    assert lock(other, 2).acquire(0)


def test_the_lock_survives_its_session(session, other):
    mine = lock(session)
    assert mine.acquire(0)
    before = session.id
    expire_session(session.connection, session._client.client_id)
    wait_until(lambda: session.connected and session.id not in {before, None}, "a new session")
    mine.check()
    assert not lock(other, 2).acquire(0)


def test_the_lock_is_lost_if_its_request_is_removed(session, other):
    mine = lock(session)
    assert mine.acquire(0)
    session.commit(Delete(f"{PLACE}/lr-0000000000"))
    with pytest.raises(LockLostError, match="lock of role web is lost: an operator removed this host's request"):
        mine.check()
    assert lock(other, 2).acquire(0)
    with pytest.raises(LockLostError):
        mine.check()


def test_a_host_that_hands_its_lock_on_is_out_of_service_until_it_releases_the_lock(session, other):
    mine, theirs = lock(session), lock(other, 2)
    assert mine.acquire(0)
    assert not theirs.acquire(0)
    assert RoleRequests(session, JoinedRoles()).hand_on(Identity("1", "web1", "web")) == ["web"]
    assert theirs.acquire(60)
    assert ZooKeeperFleetReader(other).snapshot().out_of_service == {"1": "web"}
    again = lock(session)
    assert not again.acquire(0)
    again.withdraw()
    assert ZooKeeperFleetReader(other).snapshot().out_of_service == {"1": "web"}
    theirs.release()
    assert again.acquire(60)
    again.release()
    assert ZooKeeperFleetReader(other).snapshot().out_of_service == {}


@pytest.mark.parametrize(
    "identity", [Identity("2", "web2", "web"), Identity("2", "web2"), Identity("3", "x", "db")]
)
def test_a_host_without_the_lock_releases_no_lock_and_leaves_the_queue(session, other, identity):
    mine, theirs = lock(session), lock(other, 2)
    assert mine.acquire(0)
    assert not theirs.acquire(0)
    assert not RoleRequests(other, JoinedRoles()).hand_on(identity)
    expected = ["1", "2"] if identity.id == "3" else ["1"]
    assert [request.requestor for request in requests(session, "web")] == expected
    assert ZooKeeperFleetReader(session).snapshot().out_of_service == {}


def test_an_unreadable_request_holds_the_lock_until_it_is_removed(session):
    path = put_request(session, b"[[[")
    session.ensure(f"{PLACE}/something-else")
    mine = lock(session)
    assert not mine.acquire(0)
    assert mine.holder() == f"an unreadable request ({path})"
    session.commit(Delete(path))
    assert mine.acquire(60)


def test_many_hosts_never_hold_the_lock_at_the_same_time(zookeeper):
    inside: list[int] = []
    most: list[int] = []

    def contend(number: int, session: Session) -> None:
        for _ in range(25):
            mine = lock(session, number)
            while not mine.acquire(60):
                pass
            inside.append(number)
            most.append(len(inside))
            mine.check()
            inside.remove(number)
            mine.release()

    with ExitStack() as stack:
        sessions = [stack.enter_context(Session(zookeeper)) for _ in range(4)]
        hosts = [
            threading.Thread(target=contend, args=(number, session)) for number, session in enumerate(sessions)
        ]
        for host in hosts:
            host.start()
        for host in hosts:
            host.join()
        assert not any(host.is_alive() for host in hosts)
    assert len(most) == 100
    assert set(most) == {1}


@pytest.mark.parametrize("waiting", [3, 60])
def test_joining_a_queue_of_any_length_takes_three_requests(session, monkeypatch, waiting):
    for number in range(2, waiting):
        request(session, number)
    mine = lock(session, joined=JoinedRoles(MemoryOfRequests({})))
    sent = sent_requests(session, monkeypatch)
    assert not mine.acquire(0)
    assert len(sent) == 3  # the request, the queue and the predecessor


@pytest.mark.parametrize("waiting", [3, 60])
def test_a_restarted_host_finds_its_request_with_one_read_in_a_queue_of_any_length(session, monkeypatch, waiting):
    memory = MemoryOfRequests({})
    assert lock(session, joined=JoinedRoles(memory)).acquire(0)
    for number in range(2, waiting):
        request(session, number)
    again = lock(session, joined=JoinedRoles(memory))
    sent = sent_requests(session, monkeypatch)
    assert again.acquire(0)
    assert len(sent) == 2  # the request and the queue
    again.release()
    assert memory.requests == {}


def test_a_host_that_was_killed_before_it_knew_its_request_searches_the_queue_of_that_role(session):
    request(session, 2)
    own = request(session, 1)
    memory = MemoryOfRequests({"web": None})
    assert not lock(session, joined=JoinedRoles(memory)).acquire(0)
    assert memory.requests == {"web": own}
    assert len(session.children(PLACE)) == 2


def test_a_host_without_a_record_searches_all_queues(session):
    paths = {"web": request(session, 1), "db": request(session, 1, "db")}
    memory = MemoryOfRequests(None)
    assert lock(session, joined=JoinedRoles(memory)).acquire(0)
    assert memory.requests == paths


def test_a_host_joins_no_queue_that_it_cannot_record(session):
    memory = MemoryOfRequests({})
    mine = lock(session, joined=JoinedRoles(memory))
    memory.full = True
    with pytest.raises(HostFilesError):
        mine.acquire(0)
    assert session.children(PLACE) == []
    memory.full = False
    assert mine.acquire(0)
    memory.full = True
    mine.release()
    assert session.children(PLACE) == []
    assert [*memory.requests] == ["web"], "the record names more than there is"
    again = lock(session, joined=JoinedRoles(memory))
    memory.full = False
    assert again.acquire(0)


@pytest.mark.parametrize("known", [True, False])
def test_a_host_with_another_role_leaves_the_queue_of_its_former_role_and_is_in_service(session, other, known):
    memory = MemoryOfRequests({} if known else None)
    mine, theirs = lock(session, joined=JoinedRoles(memory)), lock(other, 2)
    assert mine.acquire(0)
    assert not theirs.acquire(0)
    now = Identity("1", "web1", "db")
    joined = JoinedRoles(memory if known else MemoryOfRequests())
    assert RoleRequests(session, joined).hand_on(now, former=True) == ["web"]
    assert theirs.acquire(60)
    assert ZooKeeperFleetReader(other).snapshot().out_of_service == {"1": "web"}
    assert RoleRequests(session, joined).leave(now) == []
    assert ZooKeeperFleetReader(other).snapshot().out_of_service == {}


def test_a_host_keeps_the_lock_of_its_role_when_it_releases_those_of_former_roles(session):
    memory = MemoryOfRequests({"web": request(session, 1), "db": request(session, 1, "db")})
    joined = JoinedRoles(memory)
    assert RoleRequests(session, joined).hand_on(Identity("1", "web1", "web"), former=True) == ["db"]
    assert [*memory.requests] == ["web"]
    assert session.children("/role-locks/db") == []
    assert len(session.children(PLACE)) == 1
    assert RoleRequests(session, joined).leave(Identity("1", "web1")) == ["web"]
    assert (memory.requests, session.children(PLACE)) == ({}, [])
