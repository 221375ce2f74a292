"""The session: time limits, error types, outages, expiry and invalid input."""

from __future__ import annotations

import contextlib
import re
import shutil
import threading
import time
from collections import deque

import pytest
from kazoo.client import KazooState
from kazoo.security import make_acl
from structlog.testing import capture_logs

from support.proxy import Proxy, switched_off_server
from support.waiting import UNLIMITED, wait_until
from support.zookeeper import connected, expire_session, sent_requests, through
from zkdeployment.base.daemon.connection_status import ConnectionStatus
from zkdeployment.base.errors import (
    ConfigurationError,
    ConflictError,
    DeniedError,
    RestartError,
    TreeError,
    UnreachableError,
)
from zkdeployment.zookeeper import access
from zkdeployment.zookeeper.reads import Read, ReadRequest
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import (
    NODE_LIMIT,
    TRANSACTION_LIMIT,
    Check,
    Create,
    Delete,
    Set,
    TransactionError,
    commit_afresh,
)


def expire(session):
    expire_session(session.connection, session._client.client_id)


def test_the_error_names_an_address_that_refuses_the_connection():
    started = time.monotonic()
    with pytest.raises(UnreachableError, match=r"127.0.0.1:1: Connection refused"):
        Session("127.0.0.1:1", call_timeout=100).open()
    assert time.monotonic() - started < 60


def test_the_error_names_a_host_that_cannot_be_resolved():
    with pytest.raises(UnreachableError, match=r"no-such-host.invalid:2181: .*not known"):
        Session("no-such-host.invalid").open()


@pytest.mark.parametrize("connection", ["host:port", "", "host:2181/../x", "host:2181/a//b", "[::1"])
def test_an_invalid_connection_string_is_refused(connection):
    with pytest.raises(ConfigurationError):
        Session(connection)


def test_a_missing_chroot_is_an_error_for_readers_and_is_created_by_writers(zookeeper):
    reader = Session(f"{zookeeper}/deeper/chroot")
    with pytest.raises(ConfigurationError, match=r"has no node /test-.*/deeper/chroot"), reader:
        pass
    assert not reader.alive
    with Session(f"{zookeeper}/deeper/chroot", create_chroot=True) as session:
        session.commit(Create("/here"))
    with connected(zookeeper) as client:
        assert client.exists("/deeper/chroot/here")


def test_a_failed_opening_may_be_repeated(own_zookeeper_server):
    own_zookeeper_server.kill()
    session = Session(own_zookeeper_server.address)
    with pytest.raises(UnreachableError):
        session.open()
    own_zookeeper_server.start()
    session.open()
    assert session.get("/") is not None
    session.close()


def test_an_opening_may_be_repeated_after_the_server_was_silent(zookeeper, proxy):
    session = Session(through(proxy, zookeeper), call_timeout=0.5)
    proxy.freeze()
    with pytest.raises(UnreachableError, match="does not answer"):
        session.open()
    proxy.heal()
    session.call_timeout = 60
    wait_until(lambda: session.connected, "the connection")
    session.open()
    assert session.get("/") is not None
    session.close()


def test_one_reachable_server_of_two_suffices(zookeeper):
    address, _, chroot = zookeeper.partition("/")
    with Session(f"127.0.0.1:1,{address}/{chroot}") as session:
        assert session.get("/") is not None


def test_a_switched_off_server_leaves_time_for_the_next_server_within_a_call(zookeeper, monkeypatch):
    address, _, chroot = zookeeper.partition("/")
    monkeypatch.setattr(access, "_CONNECT_LIMIT", 0.3)
    monkeypatch.setattr("random.shuffle", list.reverse)  # kazoo tries the server first that is switched off
    with (
        switched_off_server() as off,
        Session(f"{address},{off}/{chroot}", session_timeout=30, call_timeout=20) as session,
    ):
        assert session.get("/") is not None


def test_a_switched_off_server_leaves_time_for_the_next_server_within_a_short_probe(zookeeper):
    with switched_off_server() as off:
        access.probe(access.parse(f"{off},{zookeeper}")[0], timeout=2)


def test_a_missing_node_is_read_as_none(session):
    assert session.get("/nothing") is None
    assert session.children("/nothing") is None
    assert session.get_many(["/", "/nothing"])[1] is None
    assert not session.exists("/nothing", lambda _: None)


def test_a_transaction_is_atomic(session):
    session.commit(Create("/a", b"1"), Create("/a/b"))
    with pytest.raises(TransactionError, match="cannot create /a: it exists already") as caught:
        session.commit(Set("/a", b"2"), Create("/a"), Delete("/a/b"))
    assert caught.value.path == "/a"
    assert session.get("/a").data == b"1"
    assert session.children("/a") == ["b"]


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (Set("/a", b"", 7), "cannot set /a: another client changed it"),
        (Delete("/a"), "cannot delete /a: it has children"),
        (Delete("/nothing"), "cannot delete /nothing: .* does not exist"),
        (Check("/a", 9), "cannot check /a: another client changed it"),
        (Create("/nothing/x"), "cannot create /nothing/x: it, or the node it is to be under, does not exist"),
    ],
)
def test_a_refused_write_has_the_reason(session, operation, message):
    session.commit(Create("/a"), Create("/a/b"))
    with pytest.raises(TransactionError, match=message):
        session.commit(operation)


def test_sizes_are_checked_before_a_request_is_sent(session):
    with pytest.raises(TreeError, match=rf"/big: its properties take {NODE_LIMIT + 1} bytes"):
        session.commit(Create("/big", b"x" * (NODE_LIMIT + 1)))
    half = b"x" * (TRANSACTION_LIMIT // 2)
    with pytest.raises(TreeError, match="2 changes take"):
        session.commit(Create("/one", half), Create("/two", half))
    session.commit(Create("/fits", b"x" * NODE_LIMIT))
    assert len(session.get("/fits").data) == NODE_LIMIT


@pytest.mark.parametrize(
    "path",
    [
        "",
        "relative",
        "/a/",
        "//a",
        "/a/../b",
        "/.",
        "/nul\0",
        "/bell\x07",
        "/lone\ud800surrogate",
        "/" + "x" * 40000,
    ],
)
def test_a_path_that_would_end_the_client_is_refused_before_a_request(session, path):
    for call in (
        session.get,
        session.children,
        lambda p: session.commit(Create(p)),
        lambda p: session.get_many([p]),
    ):
        with pytest.raises(ConfigurationError, match="is not the path of a node"):
            call(path)
    assert session.alive
    assert session.get("/") is not None


def test_the_error_names_missing_rights(session, client):
    client.create("/guarded", acl=[make_acl("digest", "somebody:xyz", all=True)])
    for call, denied in (
        (lambda: session.get("/guarded"), "read /guarded"),
        (lambda: session.get_many(["/", "/guarded"]), "read /guarded"),
        (lambda: session.get_many(["/"] * 20 + ["/guarded"]), "read /guarded"),
        (lambda: session.children("/guarded"), "read /guarded"),
        (lambda: session.commit(Set("/guarded", b"")), "set /guarded"),
        (lambda: session.commit(Check("/", 0), Create("/guarded/x")), "create /guarded/x"),
        (lambda: session.enqueue("/guarded/n", b""), "create /guarded/n"),
    ):
        with pytest.raises(DeniedError, match=f"does not allow to {denied}: missing rights"):
            call()


def create_nodes_to_read(session):
    """Create nodes; return reads of existing and missing nodes, too many for one request, with their answers."""
    session.commit(
        Create("/empty"), Create("/parent", b"{}"), Create("/parent/b", b"x" * 70_000), Create("/parent/\xe4")
    )
    data = {"/empty": b"", "/parent": b"{}", "/missing": None, "/parent/b": b"x" * 70_000, "/parent/\xe4": b""}
    names = {"/": ["empty", "parent"], "/empty": [], "/parent": ["b", "\xe4"], "/missing": None}
    expected = [(Read(path), answer) for path, answer in data.items()]
    expected += [(Read(path, children=True), answer) for path, answer in names.items()]
    return expected * 15


def read_together(session, expected):
    waiting = deque(read for read, _ in expected)
    return [
        (read, answer if answer is None else sorted(answer) if read.children else answer.data)
        for read, answer in session.pipeline(waiting)
    ]


def test_many_reads_take_few_requests_and_have_the_same_answers(session, monkeypatch):
    expected = create_nodes_to_read(session)
    sent = sent_requests(session, monkeypatch)
    assert read_together(session, expected) == expected
    assert len(expected) == 135
    assert len(sent) == 3


def test_a_node_is_the_same_whether_read_alone_or_with_others(session):
    create_nodes_to_read(session)
    assert session.get_many(["/parent"] * 30) == [session.get("/parent")] * 30


def test_many_reads_work_without_a_chroot(zookeeper_server):
    with Session(zookeeper_server.address) as session:
        answers = list(session.pipeline(deque([Read("/", children=True), Read("/zookeeper")] * 20)))
    assert "zookeeper" in answers[0][1]
    assert answers[1][1].children > 0


def test_a_server_that_is_too_old_is_an_error(session, monkeypatch):
    monkeypatch.setattr(ReadRequest, "type", 99)
    with pytest.raises(UnreachableError, match=r"is too old: expected 3\.6 or later"):
        list(session.pipeline(deque([Read("/")] * 20)))


def test_reads_continue_after_a_dropped_connection(zookeeper, proxy):
    with Session(through(proxy, zookeeper)) as session:
        session_id = session.id
        proxy.drop()
        assert session.get("/") is not None
        assert session.get_many(["/"] * 1000)[-1] is not None
        assert session.id == session_id


def test_an_interrupted_long_read_raises_an_error_of_this_project(zookeeper, proxy, session):
    session.commit(*(Create(f"/n{number}") for number in range(100)))
    with Session(through(proxy, zookeeper)) as reader:
        answers = reader.pipeline(deque(Read(f"/n{number}") for number in range(100) for _ in range(50)))
        next(answers)
        proxy.cut()
        # Reads that are sent just after the cut time out, because no other connection follows.
        with pytest.raises(UnreachableError, match=r"went away while reading|did not answer in time"):
            list(answers)


def test_a_new_session_first_catches_up_with_the_ensemble(session, monkeypatch):
    asked = []
    sync = session._client.sync_async
    monkeypatch.setattr(session._client, "sync_async", lambda path: asked.append(path) or sync(path))
    session.get("/")
    session.get("/")
    before = session.id
    expire(session)
    wait_until(lambda: session.connected and session.id not in {before, None}, "a new session")
    already = len(asked)
    session.get("/")
    session.get("/")
    assert asked[already:] == ["/"]


def test_a_session_that_follows_one_that_was_lost_while_it_caught_up_catches_up_again(session, monkeypatch):
    session.get("/")
    asked = []
    sync = session._client.sync_async

    def lose_the_session(path):
        asked.append(path)
        if len(asked) == 1:
            session._listen(session._client, KazooState.LOST)
            session._listen(session._client, KazooState.CONNECTED)
        return sync(path)

    monkeypatch.setattr(session._client, "sync_async", lose_the_session)
    session._listen(session._client, KazooState.LOST)
    session._listen(session._client, KazooState.CONNECTED)
    session.get("/")
    session.get("/")
    session.get("/")
    assert asked == ["/", "/"]


@pytest.mark.parametrize(
    "fault",
    [
        Proxy.freeze,
        lambda proxy: proxy.lose(requests=False),
        lambda proxy: proxy.lose(answers=False),
        lambda proxy: proxy.delay(5),
    ],
    ids=["silent", "deaf", "unheard", "slow"],
)
def test_every_call_ends_in_time_although_the_servers_are_silent(zookeeper, proxy, fault):
    session = Session(through(proxy, zookeeper), close_timeout=0.5)
    session.open()
    session.call_timeout = 0.5
    fault(proxy)
    started = time.monotonic()
    for call in (
        lambda: session.get("/"),
        lambda: session.get_many(["/", "/x"]),
        lambda: session.get_many(["/"] * 50),
        lambda: session.commit(Create("/x")),
        lambda: session.enqueue("/n", b""),
        lambda: list(session.pipeline(deque([Read("/", children=True)]))),
    ):
        with pytest.raises(UnreachableError, match=r"did not answer|does not answer|went away"):
            call()
    session.close()
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(("is_silent", "limit"), [(False, 60), (True, 0.1)])
def test_only_a_close_that_exceeds_its_limit_is_logged(zookeeper, proxy, is_silent, limit):
    session = Session(through(proxy, zookeeper), close_timeout=limit)
    session.open()
    if is_silent:
        proxy.freeze()
    with capture_logs() as logs:
        session.close()
    assert [log["event"] for log in logs] == ["zookeeper-close-timeout"] * is_silent


def test_the_session_survives_a_restart_of_the_server(own_zookeeper_server):
    server = own_zookeeper_server
    # A starting server may accept a connection and never answer. After a share of the session timeout the client
    # tries the next address, so there are two addresses.
    twice = f"{server.address},{server.address}"
    with Session(twice, call_timeout=UNLIMITED) as session:
        session.enqueue("/mine-", b"")
        session_id = session.id
        server.kill()
        wait_until(lambda: not session.connected, "the connection is lost")
        assert session.link == ConnectionStatus(connected=False, connections=1, sessions=1)
        server.start()
        assert session.children("/") != ["zookeeper"]
        assert session.id == session_id
        assert session.link.sessions == 1
        assert session.link.connections >= 2


def test_an_expired_session_is_replaced_and_its_ephemeral_nodes_are_deleted(session):
    mine = session.enqueue("/mine-", b"")
    before = session.id
    expire(session)
    wait_until(lambda: session.connected and session.id not in {before, None}, "a new session")
    assert session.get(mine) is None
    assert session.alive
    assert session.link.sessions == 2
    assert session.link.connections >= 2  # the owner may take its session back before the server expires it


def test_session_changes_call_all_callbacks_although_a_callback_fails(session):
    woken = threading.Event()

    def fail():
        raise TypeError("a bug in a callback")

    session.on_change(fail)
    session.on_change(woken.set)
    before = session.id
    expire(session)
    assert woken.wait()
    wait_until(lambda: session.connected and session.id != before, "a new session")


def test_a_watch_reports_creations_changes_and_deletions(session, other):
    changed = threading.Event()

    def seen():
        woken = changed.wait()
        changed.clear()
        return woken

    session.watch("/watched", changed.set)
    assert seen()
    for write in (
        Create("/watched"),
        Set("/watched", b"1"),
        Delete("/watched"),
        Create("/watched"),
        Set("/watched", b"2"),
    ):
        other.commit(write)
        assert seen(), write


def test_a_watch_survives_the_end_of_the_session(session, other):
    changed = threading.Event()
    session.watch("/watched", changed.set)
    assert changed.wait()
    before = session.id
    expire(session)
    wait_until(lambda: session.connected and session.id != before, "a new session")
    session.get("/")
    changed.clear()
    other.commit(Create("/watched"))
    assert changed.wait()


def test_a_failing_callback_does_not_end_a_watch(session, other):
    calls = []

    def fail():
        calls.append(1)
        raise TypeError("a bug in a callback")

    session.watch("/watched", fail)
    wait_until(lambda: len(calls) == 1, "the first call")
    other.commit(Create("/watched"))
    wait_until(lambda: len(calls) == 2, "the second call")
    other.commit(Set("/watched", b"2"))
    wait_until(lambda: len(calls) > 2, "the third call")
    assert len(calls) == 3
    assert session.get("/watched").data == b"2"


def test_a_session_closes_quickly_twice_unopened_and_without_a_server(zookeeper, proxy):
    Session(zookeeper).close()
    session = Session(through(proxy, zookeeper), call_timeout=100)
    session.open()
    proxy.cut()
    started = time.monotonic()
    session.close()
    session.close()
    assert time.monotonic() - started < 60
    assert not session.alive


def test_a_closed_session_demands_a_restart(zookeeper):
    session = Session(zookeeper)
    session.open()
    session.close()
    with pytest.raises(RestartError, match="start again"):
        session.get("/")


def kill_client(session):
    session._client.stop()  # as after an error on kazoo's own thread
    wait_until(lambda: not session.alive, "the client is recognized as dead")


def test_a_dead_client_is_replaced_once_and_watches_continue(zookeeper, client):
    changes = []
    client.create("/x")
    with Session(zookeeper) as session:
        session.watch("/x", lambda: changes.append(session.id))
        wait_until(lambda: changes, "the first call")
        first = session.id
        kill_client(session)
        session.commit(Create("/y"))
        assert session.connected
        assert session.id not in {first, None}
        wait_until(lambda: session.id in changes, "a wake-up for the new session")
        seen = len(changes)
        client.set("/x", b"{}")
        wait_until(lambda: len(changes) > seen, "the watch in the new session")
        kill_client(session)
        with pytest.raises(RestartError, match="dead"):
            session.commit(Create("/z"))


@pytest.mark.parametrize("silence", ["cut", "freeze"])
def test_a_client_without_an_answer_is_replaced_once_in_each_outage(zookeeper, proxy, silence):
    changes = []
    with Session(through(proxy, zookeeper), close_timeout=0.5) as session:
        session.watch("/", lambda: changes.append(session._client))
        for _ in range(2):
            before = session._client
            session.call_timeout, session._silence.patience = 0.4, 0.5
            getattr(proxy, silence)()
            wait_until(lambda before=before: renewed(session, before), "a new client")
            proxy.heal()
            session.call_timeout, session._silence.patience = 60, 60
            assert session.get("/") is not None
            wait_until(lambda: session._client in changes, "the watch of the new client")


def test_a_client_whose_server_lost_its_data_is_replaced_although_other_silences_last_longer(own_zookeeper_server):
    server = own_zookeeper_server
    with Session(server.address) as session, capture_logs() as logs:
        for _ in range(20):
            session.commit(Create("/a"), Delete("/a"))
        session.commit(Create("/kept"))
        before = session._client
        session.call_timeout, session._silence.doubtful = 0.5, 0.5
        server.stop()
        shutil.rmtree(server.directory / "data")
        assert not renewed(session, before), "a server that is away is no reason"
        server.start()
        wait_until(lambda: renewed(session, before), "a new client")
        session.call_timeout, session._silence.doubtful = 60, 60
        wait_until(lambda: exists(session, "/") and not exists(session, "/kept"), "the empty store")
    (reason,) = (log["reason"] for log in logs if log["event"] == "zookeeper-client-replaced")
    assert re.match("the servers went back: expected transaction 0x[0-9a-f]+ or a later one, found 0x", reason)


def exists(session, path):
    with contextlib.suppress(UnreachableError):
        return session.get(path) is not None
    return False


def renewed(session, before):
    with contextlib.suppress(UnreachableError):
        session.get("/")
    return session._client is not before


def test_a_second_client_without_an_answer_demands_a_restart(zookeeper, proxy):
    with Session(through(proxy, zookeeper), close_timeout=0.5) as session:
        session.call_timeout, session._silence.patience = 0.2, 0.5
        proxy.cut()
        before = session._client
        wait_until(lambda: renewed(session, before), "a new client")
        ended = []

        def ends():
            try:
                renewed(session, before)
            except RestartError as error:
                ended.append(str(error))
            return ended

        wait_until(ends, "the end")
        assert "no server has answered for 0.5 seconds" in ended[0]


def test_threads_that_find_a_dead_client_share_one_new_client(zookeeper):
    with Session(zookeeper) as session:
        kill_client(session)
        nodes = []
        threads = [threading.Thread(target=lambda: nodes.append(session.get("/"))) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(nodes) == 5
        assert session.alive


def test_a_change_is_made_of_the_nodes_as_other_writers_left_them(session, client):
    client.create("/counter", b"0")
    reads = []

    def make():
        node = session.get("/counter")
        reads.append(node.data)
        if len(reads) < 3:
            client.set("/counter", b"%d" % len(reads))
        return [Set("/counter", node.data + b"!", node.version)]

    assert commit_afresh(session, make, "count")
    assert (reads, client.get("/counter")[0]) == ([b"0", b"1", b"2"], b"2!")


def test_nothing_is_sent_if_the_nodes_need_no_change(session, monkeypatch):
    sent = sent_requests(session, monkeypatch)
    assert commit_afresh(session, list, "stop a group that is stopped")
    assert not commit_afresh(session, lambda: None, "stop a group that is gone")
    assert sent == []


def test_the_error_after_many_conflicts_names_the_last_one(session):
    with pytest.raises(ConflictError, match=r"cannot count: .* attempts \(cannot set /gone: .*\); try again"):
        commit_afresh(session, lambda: [Set("/gone", b"")], "count")
