"""Contender locks: mutual exclusion, also with kazoo; no orphaned contenders; expired sessions."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest
from kazoo.recipe.lock import Lock
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from support.waiting import wait_until
from support.zookeeper import renew_session, sent_requests, through
from zkdeployment.base.errors import DeniedError, LockLostError, UnreachableError
from zkdeployment.zookeeper import contender_lock
from zkdeployment.zookeeper.contender_lock import ContenderLock, contenders
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Delete

PATH = "/agent-locks/web,shop"


def lock(session, identity="web1 (1)"):
    return ContenderLock(session, PATH, identity)


def test_a_free_lock_is_acquired_checked_and_released(session):
    mine = lock(session)
    assert mine.holder() is None
    assert mine.try_acquire()
    mine.check()
    assert mine.holder() == "web1 (1)"
    mine.release()
    mine.release()
    assert session.children(PATH) == []


def test_a_failed_attempt_at_a_held_lock_leaves_no_contender(session, other):
    mine = lock(session)
    assert mine.try_acquire()
    before = session.children(PATH)
    assert not lock(other).try_acquire()
    assert session.children(PATH) == before


@pytest.mark.parametrize("exists", [True, False])
def test_a_lock_that_was_requested_is_acquired_with_the_same_contender(session, other, exists):
    if exists:
        session.ensure(PATH)
    mine, second = lock(session), lock(other)
    mine.request()
    assert mine.try_acquire()
    second.request()
    assert not second.try_acquire()
    assert [f"{PATH}/{name}" for name in session.children(PATH)] == [mine.path]


@pytest.mark.parametrize("exists", [True, False])
def test_a_lock_that_was_only_requested_leaves_no_contender(session, exists):
    if exists:
        session.ensure(PATH)
    mine = lock(session)
    mine.request()
    mine.release()
    assert not session.children(PATH)
    assert mine.try_acquire()
    assert len(session.children(PATH)) == 1


def test_a_lock_that_was_never_acquired_is_not_held(session):
    with pytest.raises(LockLostError, match="was not acquired"):
        lock(session).check()


def test_a_lock_that_was_requested_before_its_session_was_connected_is_held(zookeeper, monkeypatch):
    session = Session(zookeeper)
    mine = lock(session)
    send = session.begin_enqueue

    def connect_and_send(path, data):
        session.open()
        return send(path, data)

    monkeypatch.setattr(session, "begin_enqueue", connect_and_send)
    assert mine.acquire(60)
    mine.check()
    session.close()


def test_waiting_is_limited_and_keeps_the_place_in_the_queue(session, other):
    mine, second, third = lock(session, "one"), lock(other, "two"), lock(session, "three")
    assert mine.try_acquire()
    started = time.monotonic()
    assert not second.acquire(0.1)
    assert not third.acquire(0.1)
    assert time.monotonic() - started < 60
    assert [contender.identity for contender in contenders(session, PATH)] == ["one", "two", "three"]
    mine.release()
    assert not third.acquire(0.1)
    assert second.acquire(60)
    second.check()
    with pytest.raises(LockLostError, match="held by two"):
        third.check()


def test_the_deadline_does_not_start_over_with_each_predecessor(session, other, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(contender_lock, "time", SimpleNamespace(monotonic=lambda: now[0]))
    first, second, last = lock(other, "first"), lock(other, "second"), lock(session, "last")
    assert first.acquire(0)
    assert not second.acquire(0)
    got = []
    waiting = threading.Thread(target=lambda: got.append(last.acquire(100)))
    waiting.start()
    wait_until(lambda: len(contenders(other, PATH)) == 3, "the last contender queues")
    now[0] = 101
    second.release()
    waiting.join()
    assert got == [False]


def test_a_contender_that_leaves_the_queue_blocks_no_other(session, other):
    mine, second, third = lock(session), lock(other), lock(session)
    assert mine.try_acquire()
    assert not second.acquire(0)
    assert not third.acquire(0)
    second.release()
    mine.release()
    assert third.acquire(60)


@pytest.mark.parametrize("waiting", [3, 30])
def test_each_release_takes_the_same_few_requests_at_any_queue_length(session, other, monkeypatch, waiting):
    queue = [lock(session, f"web{number}") for number in range(waiting)]
    for mine in queue:
        mine.acquire(0)
    sent = sent_requests(session, monkeypatch)
    for mine in queue[1:]:
        assert not mine.acquire(0), "a turn of who waits"
    assert sent == []
    for mine in queue:
        assert mine.acquire(60)
        mine.release()
    assert len(sent) == 2 * waiting
    assert other.children(PATH) == []


def test_only_the_holders_node_is_read_for_the_name_of_the_holder(session, other, monkeypatch):
    queue = [lock(other, f"web{number}") for number in range(30)]
    for mine in queue:
        mine.acquire(0)
    waiting = lock(session, "waiting")
    assert not waiting.acquire(0)
    assert waiting.ahead == 30
    sent = sent_requests(session, monkeypatch)
    assert waiting.holder() == "web0"
    assert len(sent) == 1
    queue[0].release()
    assert waiting.holder() == "web1"
    assert len(sent) == 4


def test_the_next_in_the_queue_knows_the_holder_without_a_request(session, other, monkeypatch):
    first, second = (lock(other, f"web{number}") for number in range(2))
    assert first.acquire(0)
    assert not second.acquire(0)
    waiting = lock(session, "waiting")
    assert not waiting.acquire(0)
    second.release()
    assert not waiting.acquire(0.1)
    sent = sent_requests(session, monkeypatch)
    assert waiting.holder() == "web0"
    assert sent == []
    first.release()
    assert waiting.acquire(60)
    assert waiting.holder() == "waiting"


@pytest.mark.parametrize("take", ["try_acquire", "acquire"])
def test_a_lock_node_that_is_removed_concurrently_is_created_again(session, other, monkeypatch, take):
    other.ensure(PATH)
    mine = lock(session)
    send = session.begin_enqueue

    def remove_before(path, data):
        monkeypatch.undo()
        other.commit(Delete(PATH))
        return send(path, data)

    monkeypatch.setattr(session, "begin_enqueue", remove_before)
    assert mine.try_acquire() if take == "try_acquire" else mine.acquire(0)
    mine.check()


def test_our_locks_and_kazoos_exclude_each_other(session, client):
    mine, theirs = lock(session), Lock(client, PATH, "kazoo")
    assert mine.try_acquire()
    assert not theirs.acquire(blocking=False)
    mine.release()
    assert theirs.acquire(blocking=False)
    assert not lock(session).try_acquire()
    assert lock(session).holder() == "kazoo"
    waiting = lock(session)
    assert not waiting.acquire(0.1)
    theirs.release()
    assert waiting.acquire(60)
    assert Lock(client, PATH).contenders() == ["web1 (1)"]


def test_foreign_nodes_in_the_lock_directory_are_ignored(session, client):
    client.ensure_path(PATH)
    client.create(f"{PATH}/notes", b"\xff\xfe")
    client.create(f"{PATH}/abc__lock__12", b"a name too short to be a contender")
    mine = lock(session)
    assert mine.try_acquire()
    assert mine.holder() == "web1 (1)"
    client.create(f"{PATH}/0__lock__", b"\xff not text", sequence=True)
    assert contenders(session, PATH)[1].identity == "\ufffd not text"


def test_a_lock_whose_session_expired_is_lost_and_free_for_others(session, other):
    mine = lock(session)
    assert mine.try_acquire()
    renew_session(session)
    with pytest.raises(LockLostError):
        mine.check()
    theirs = lock(other, "other")
    assert theirs.try_acquire()
    mine.release()
    theirs.check()


def test_a_waiting_contender_queues_again_after_its_session_expired(session, other):
    theirs, mine = lock(other), lock(session)
    assert theirs.try_acquire()
    got = []
    waiting = threading.Thread(target=lambda: got.append(_patient(mine)))
    waiting.start()
    wait_until(lambda: len(contenders(other, PATH)) == 2, "the contender queues")
    first = other.children(PATH)
    renew_session(session)
    wait_until(lambda: len(other.children(PATH)) == 2 and other.children(PATH) != first, "a new contender")
    theirs.release()
    waiting.join()
    assert got == [True]
    mine.check()


def _patient(mine):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            return mine.acquire(60)
        except UnreachableError:
            continue
    return False


def test_a_lock_is_lost_if_its_contender_is_deleted_by_hand(session, other):
    mine = lock(session)
    assert mine.try_acquire()
    (name,) = other.children(PATH)
    other.commit(Delete(f"{PATH}/{name}"))
    with pytest.raises(LockLostError):
        mine.check()


def test_a_contender_whose_creation_was_not_answered_is_removed(zookeeper, proxy, other):
    other.ensure(PATH)
    with Session(through(proxy, zookeeper)) as session:
        mine = lock(session)
        session.call_timeout = 1
        send = session.begin_enqueue

        def lose_the_answer(path, data):
            send(path, data)()
            proxy.cut()
            raise UnreachableError("the answer got lost")

        session.begin_enqueue = lose_the_answer
        with pytest.raises(UnreachableError):
            mine.try_acquire()
        assert len(other.children(PATH)) == 1
        proxy.heal()
        wait_until(lambda: other.children(PATH) == [], "the orphaned contender is removed")


def test_a_contender_that_may_not_read_the_queue_is_removed(session, client):
    client.ensure_path(PATH)
    client.set_acls(PATH, [make_acl("world", "anyone", create=True, delete=True, admin=True)])
    with pytest.raises(DeniedError, match="does not allow to read"):
        lock(session).try_acquire()
    client.set_acls(PATH, OPEN_ACL_UNSAFE)
    assert client.get_children(PATH) == []


def test_a_contender_whose_creation_was_not_answered_is_found_again(session):
    session.ensure(PATH)
    mine = lock(session)
    send = session.begin_enqueue

    def lose_the_answer(path, data):
        session.begin_enqueue = send
        send(path, data)()
        raise UnreachableError("the answer got lost")

    session.begin_enqueue = lose_the_answer
    with pytest.raises(UnreachableError):
        mine.acquire(1)
    assert mine.acquire(1)
    assert len(session.children(PATH)) == 1


def test_a_contender_that_a_lagging_server_does_not_list_yet_is_removed(session, other, monkeypatch):
    other.ensure(PATH)
    mine = lock(session)
    send, list_children, sync = session.begin_enqueue, session.children, session.sync
    listed = []  # what a server lists that lags until ``sync``

    def lose_the_answer(path, data):
        send(path, data)()
        raise UnreachableError("the answer got lost")

    def catch_up():
        sync()
        listed[:] = list_children(PATH)

    monkeypatch.setattr(session, "begin_enqueue", lose_the_answer)
    monkeypatch.setattr(session, "children", lambda _: listed)
    monkeypatch.setattr(session, "sync", catch_up)
    with pytest.raises(UnreachableError, match="the answer got lost"):
        mine.try_acquire()
    assert other.children(PATH) == []


def test_a_release_without_a_server_takes_effect_as_soon_as_a_server_answers(zookeeper, proxy, other):
    with Session(through(proxy, zookeeper)) as session:
        mine = lock(session)
        assert mine.try_acquire()
        session.call_timeout = 0.5
        proxy.cut()
        mine.release()
        with pytest.raises(LockLostError):
            mine.check()
        proxy.heal()
        wait_until(lambda: other.children(PATH) == [], "the lock is released")


def test_an_unanswered_check_is_an_error(zookeeper, proxy):
    with Session(through(proxy, zookeeper)) as session:
        mine = lock(session)
        assert mine.try_acquire()
        session.call_timeout = 0.5
        proxy.freeze()
        with pytest.raises(UnreachableError):
            mine.check()
        proxy.heal()


def test_racing_sessions_never_hold_the_lock_at_the_same_time(zookeeper):
    holders, most, turns = [], [], []
    guard = threading.Lock()

    def race(number):
        with Session(zookeeper) as session:
            for turn in range(25):
                mine = lock(session, str(number))
                if not (mine.try_acquire() if (turn + number) % 2 else mine.acquire(60)):
                    continue
                with guard:
                    holders.append(number)
                    most.append(len(holders))
                mine.check()
                with guard:
                    holders.remove(number)
                    turns.append(number)
                mine.release()

    threads = [threading.Thread(target=race, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}
    assert len(turns) >= 6 * 12
    with Session(zookeeper) as session:
        assert session.children(PATH) == []


def test_a_lock_whose_session_ends_during_the_acquisition_is_not_acquired(session, other):
    session.ensure(PATH)
    mine = lock(session)
    send = session.begin_enqueue

    def lose_the_session(path, data):
        made = send(path, data)()
        other.commit(Delete(made))  # as the server does when the session expires
        return lambda: made

    session.begin_enqueue = lose_the_session
    with pytest.raises(UnreachableError, match=r"session was lost while the lock .* was acquired"):
        mine.try_acquire()
    assert session.children(PATH) == []


def test_a_release_that_ends_late_leaves_the_contender_of_the_next_attempt(session, monkeypatch):
    mine = lock(session)
    assert mine.try_acquire()

    def not_now(*_operations):
        raise UnreachableError("no answer")

    late = []
    monkeypatch.setattr(session, "commit", not_now)
    monkeypatch.setattr(session, "later", late.append)
    mine.release()
    monkeypatch.undo()
    session.commit(Delete(f"{PATH}/{session.children(PATH)[0]}"))  # the answer was lost, or the session ended
    assert mine.try_acquire()
    (withdraw,) = late
    withdraw()
    mine.check()


def test_a_release_after_the_session_was_closed_raises_no_error(zookeeper):
    session = Session(zookeeper)
    session.open()
    mine = lock(session)
    assert mine.try_acquire()
    session.close()
    mine.release()
    with Session(zookeeper) as later:
        wait_until(lambda: later.children(PATH) == [], "the contender disappears with its session")
