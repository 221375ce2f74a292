"""Sessions on a real ZooKeeper, with a stand-in for the worker."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from support.pools.builders import POOLS, add_ready_nodes, add_tenant, contextualizing, make_request
from support.waiting import ManualClock
from zkdeployment.base.act import Act
from zkdeployment.base.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RetiredError,
    UnreachableError,
    WaitTimeoutError,
)
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.fleet.store.audit import read_acts
from zkdeployment.pools.acts.sessions import (
    ANSWERING,
    SessionActor,
    SessionDetails,
    extend_session,
    find_session,
    request_session,
    reserve_nodes,
    retire_session,
    retire_sessions_of,
)
from zkdeployment.pools.opening import pool_adapters
from zkdeployment.pools.rules.node import NodeEvent, NodeState
from zkdeployment.pools.rules.queue import RequestProblem, RequestRefusal, Reservation
from zkdeployment.pools.rules.snapshot import NodesSpec, PoolChange
from zkdeployment.service.users.key_hashes import KeyHasher
from zkdeployment.service.users.user_store import ZooKeeperUsers
from zkdeployment.zookeeper.session import Session

HOUR = 3600.0
ONE, TWO = (NodesSpec("web", 1),), (NodesSpec("web", 2),)
OPERATOR = SessionActor("ann@console")


@pytest.fixture
def adapters(zookeeper, monkeypatch):
    with Session(zookeeper) as session:
        users = ZooKeeperUsers(session, (), KeyHasher(), SystemClock())
        real = replace(pool_adapters(session), users=users)
        monkeypatch.setattr(real.store, "configuration", lambda: POOLS)
        yield replace(
            real,
            wait=lambda _: threading.Event().wait(0.01),
            clock=ManualClock(),
        )


@pytest.fixture
def ci(adapters):
    return add_tenant(adapters.users, "ci").user


def granted(outcome):
    assert isinstance(outcome, SessionDetails), outcome
    return outcome


def refused(outcome, problem):
    assert isinstance(outcome, RequestRefusal), outcome
    assert outcome.problem is problem
    return outcome.message


def states(adapters):
    return [node.state.value for node in sorted(adapters.store.read().nodes.values(), key=lambda node: node.id)]


def own(user):
    return SessionActor(user.name, user.id)


def test_a_request_is_tried_with_other_ready_nodes_before_it_is_refused(adapters, ci):
    first, second, *others = add_ready_nodes(adapters.store, 5)
    with contextualizing(adapters.store, failing=[first, second]):
        begun = granted(request_session(ci, TWO, adapters, by="ci"))
    assert set(begun.session.nodes) <= set(others)
    assert states(adapters).count("failed") == 2


def test_a_request_takes_at_most_three_attempts(adapters, ci):
    numbers = add_ready_nodes(adapters.store, 5)
    with contextualizing(adapters.store, failing=numbers):
        message = refused(request_session(ci, ONE, adapters, by="ci"), RequestProblem.NOT_PREPARED)
    assert "contextualization of nodes failed" in message
    assert sorted(states(adapters)) == ["failed"] * 3 + ["ready"] * 2


def test_a_session_is_requested_extended_and_ended(adapters, ci):
    add_ready_nodes(adapters.store, 3)
    seen = []
    with contextualizing(adapters.store, may_begin=lambda: seen):
        begun = granted(request_session(ci, TWO, adapters, by="ci", progress=seen.append))
    session = begun.session
    assert [node.state for node in begun.nodes] == [NodeState.DEPLOYED] * 2
    assert (session.requested_by, session.expires_at) == ("ci", adapters.clock.time + 6 * HOUR)
    assert {node.state for node in seen[0].nodes} == {NodeState.CONTEXTUALIZING}
    found = find_session(session.id, adapters, own(ci))
    # The begin may be recorded after the answer.
    assert replace(found, session=replace(found.session, begun_at=session.begun_at)) == begun
    adapters.clock.time += HOUR
    later = extend_session(session.id, adapters, own(ci), delta=90 * 60)
    assert later.session.expires_at == session.expires_at + 90 * 60
    assert extend_session(session.id, adapters, own(ci), delta=99 * HOUR).session.expires_at == (
        session.created_at + 12 * HOUR
    )
    assert extend_session(session.id, adapters, own(ci), until=5).session.expires_at == session.created_at
    ended = retire_session(session.id, adapters, own(ci))
    assert (ended.session.retired_at, ended.session.retired_by) == (adapters.clock.time, "ci")
    assert states(adapters) == ["deprovisioning", "deprovisioning", "ready"]
    for act in (retire_session, extend_session):
        with pytest.raises(RetiredError, match=f"session {session.id} is retired"):
            act(session.id, adapters, own(ci))


@pytest.mark.parametrize(("is_claimed", "after"), [(False, "ready"), (True, "deprovisioning")])
def test_a_request_that_waits_in_a_service_that_ends_keeps_no_quota_and_names_the_session(
    adapters, ci, is_claimed, after
):
    (number,) = add_ready_nodes(adapters.store, 1)
    ending = threading.Event()
    stopping = replace(adapters, is_ending=ending.is_set)

    def stop(_details):
        if is_claimed and not ending.is_set():
            adapters.store.commit(PoolChange(claimed=frozenset({number})), adapters.store.read())
        ending.set()

    message = refused(request_session(ci, ONE, stopping, by="ci", progress=stop), RequestProblem.NOT_PREPARED)
    assert "the service ends, and session " in message
    assert (states(adapters), adapters.store.read().sessions) == ([after], {})


def test_only_the_tenant_and_operators_may_see_and_change_a_session(adapters, ci, zookeeper):
    add_ready_nodes(adapters.store, 1)
    with contextualizing(adapters.store):
        session = granted(request_session(ci, ONE, adapters, by="ci")).session
    for act in (find_session, extend_session, retire_session):
        with pytest.raises(ForbiddenError, match="another tenant"):
            act(session.id, adapters, SessionActor("other", ci.id + 1))
        with pytest.raises(NotFoundError, match="no session 999"):
            act(999, adapters, own(ci))
    end = extend_session(session.id, adapters, OPERATOR, delta=99 * HOUR).session.expires_at
    assert end == session.expires_at + 99 * HOUR
    assert retire_session(session.id, adapters, OPERATOR).session.retired_by == "ann@console"
    with Session(zookeeper) as reader:
        acts = [(act.by, act.what) for act in read_acts(reader) if act.by != "tests"]
    assert acts == [
        ("ann@console", f"change the end of session {session.id}"),
        ("ann@console", f"retire session {session.id}"),
    ]


def test_a_request_that_cannot_be_met_changes_nothing(adapters, ci):
    add_ready_nodes(adapters.store, 2)
    assert "2 ready" in refused(
        request_session(replace(ci, node_quota=9), (NodesSpec("web", 3),), adapters, by="ci"),
        RequestProblem.TOO_FEW,
    )
    assert "= 3 > 2" in refused(request_session(ci, (*TWO, *ONE), adapters, by="ci"), RequestProblem.QUOTA)
    refused(request_session(ci, (NodesSpec("nowhere", 1),), adapters, by="ci"), RequestProblem.NO_POOL)
    refused(request_session(ci, (), adapters, by="ci"), RequestProblem.TOO_FEW)
    refused(request_session(replace(ci, ssh_key=None), ONE, adapters, by="ci"), RequestProblem.NO_KEY)
    refused(request_session(replace(ci, retired_at=5), ONE, adapters, by="ci"), RequestProblem.RETIRED)
    assert states(adapters) == ["ready", "ready"]
    assert adapters.store.take_ids(1)[0] == 3


def test_nodes_that_cannot_be_prepared_fail_and_the_session_does_not_begin(adapters, ci):
    first, second = add_ready_nodes(adapters.store, 2)
    with contextualizing(adapters.store, failing={second}):
        message = refused(request_session(ci, TWO, adapters, by="ci"), RequestProblem.NOT_PREPARED)
    assert f"contextualization of nodes failed: node{second}.example.com;" in message
    assert (states(adapters), adapters.store.read().sessions) == (["ready", "failed"], {})
    assert adapters.store.node(first).session is None


def test_a_session_that_is_dropped_between_two_reads_has_not_begun(adapters, ci, monkeypatch):
    (number,) = add_ready_nodes(adapters.store, 1)
    find_node = adapters.store.node

    def find_after_failure(wanted):
        read = adapters.store.read()
        if read.sessions:
            cleaned = read.nodes[number].after(NodeEvent.CLEANED, 0.0)
            adapters.store.commit(PoolChange(nodes=(cleaned,), dropped=tuple(read.sessions.values())), read)
        return find_node(wanted)

    monkeypatch.setattr(adapters.store, "node", find_after_failure)
    refused(request_session(ci, ONE, adapters, by="ci"), RequestProblem.NOT_PREPARED)


def test_a_request_that_no_worker_takes_is_undone(adapters, ci):
    add_ready_nodes(adapters.store, 1)

    def pass_time(seconds):
        adapters.clock.time += 100 * seconds

    message = refused(
        request_session(ci, ONE, replace(adapters, wait=pass_time), by="ci"), RequestProblem.NOT_PREPARED
    )
    assert f"no worker prepared the nodes within {ANSWERING:g} s" in message
    read = adapters.store.read()
    assert (states(adapters), read.sessions, read.claimed, read.held(ci.id)) == (["ready"], {}, frozenset(), 0)


@pytest.mark.parametrize("is_dead", [False, True])
def test_nodes_that_a_worker_has_claimed_are_not_taken_back_even_after_its_death(adapters, ci, is_dead):
    (number,) = add_ready_nodes(adapters.store, 1)

    def claim(details):
        """Claim the node as a worker does, which may die right after it has written the tenant's key."""
        read = adapters.store.read()
        if number not in read.claimed and not read.nodes[number].begun:
            begun, ids = replace(read.nodes[number], begun=True), frozenset(details.session.nodes)
            adapters.store.commit(
                PoolChange(nodes=(begun,), claimed=ids, released=ids if is_dead else ids - ids), read
            )

    def pass_time(seconds):
        adapters.clock.time += 100 * seconds

    with pytest.raises(WaitTimeoutError, match="still being prepared"):
        request_session(ci, ONE, replace(adapters, wait=pass_time), by="ci", progress=claim)
    read = adapters.store.read()
    assert (states(adapters), len(read.sessions)) == (["contextualizing"], 1)


def test_concurrent_requests_share_no_node_and_do_not_wait(adapters):
    add_ready_nodes(adapters.store, 3)
    tenants = [add_tenant(adapters.users, f"t{number}").user for number in range(6)]
    with contextualizing(adapters.store), ThreadPoolExecutor(len(tenants)) as threads:
        outcomes = [*threads.map(lambda tenant: request_session(tenant, ONE, adapters, by="t"), tenants)]
    given = [outcome.nodes[0].id for outcome in outcomes if isinstance(outcome, SessionDetails)]
    assert sorted(given) == [1, 2, 3]
    assert {outcome.problem for outcome in outcomes if isinstance(outcome, RequestRefusal)} == {
        RequestProblem.TOO_FEW
    }


def test_a_request_that_is_overtaken_for_ten_seconds_gets_no_nodes(adapters, ci, monkeypatch):
    add_ready_nodes(adapters.store, 1)
    begin = adapters.clock.time

    def overtaken(*_):
        adapters.clock.time += 4
        raise ConflictError("overtaken")

    monkeypatch.setattr(adapters.store, "commit", overtaken)
    message = refused(request_session(ci, ONE, adapters, by="ci"), RequestProblem.TOO_FEW)
    assert "other requests were faster" in message
    assert adapters.clock.time - begin == 12


def test_a_request_whose_answer_is_lost_gets_one_session(adapters, ci, monkeypatch):
    add_ready_nodes(adapters.store, 2)
    commit, read, late = adapters.store.commit, adapters.store.read, []
    outcomes = ["written", "lost", "late", "unreadable"]

    def commit_without_answer(change, seen):
        outcome = outcomes.pop(0) if outcomes else ""
        if outcome == "late":
            late.append((change, seen))
        if outcome not in {"lost", "late"}:
            commit(change, seen)
        if outcome:
            raise UnreachableError("the answer was lost")
        for waiting in late:  # executed after the attempt that follows it
            with pytest.raises(ConflictError):
                commit(*waiting)

    def read_sometimes():
        if outcomes == ["unreadable"]:
            outcomes.clear()
            raise UnreachableError("no answer")
        return read()

    monkeypatch.setattr(adapters.store, "commit", commit_without_answer)
    monkeypatch.setattr(adapters.store, "read", read_sometimes)
    given = [reserve_nodes(make_request(0, ci, *ONE), ci, adapters) for _ in range(2)]
    assert [*map(type, given)] == [Reservation, Reservation]
    assert sorted(adapters.store.read().sessions) == [found.session.id for found in given]
    assert [found.nodes[0].state for found in given] == [NodeState.CONTEXTUALIZING] * 2
    assert adapters.store.read().held(ci.id) == 2


def test_a_request_that_gets_no_answer_for_ten_seconds_fails(adapters, ci, monkeypatch):
    add_ready_nodes(adapters.store, 1)
    begin = adapters.clock.time

    def unreachable(*_):
        adapters.clock.time += 4
        raise UnreachableError("no answer")

    monkeypatch.setattr(adapters.store, "commit", unreachable)
    with pytest.raises(UnreachableError, match="no answer"):
        request_session(ci, ONE, adapters, by="ci")
    assert adapters.clock.time - begin == 16
    assert states(adapters) == ["ready"]


def test_a_tenant_that_is_retired_keeps_no_session(adapters, ci):
    add_ready_nodes(adapters.store, 2)
    with contextualizing(adapters.store):
        first = granted(request_session(ci, ONE, adapters, by="ci")).session
    adapters.users.retire("ci", Act("tests", "retire", "", 0.0))
    retire_sessions_of(ci.id, adapters, OPERATOR)
    assert find_session(first.id, adapters, OPERATOR).session.retired_by == "ann@console"
    refused(request_session(ci, ONE, adapters, by="ci"), RequestProblem.RETIRED)
    assert (states(adapters), adapters.store.read().sessions) == (["deprovisioning", "deprovisioning"], {})


def test_a_request_whose_session_is_retired_before_it_begins_is_refused(adapters, ci):
    add_ready_nodes(adapters.store, 1)

    def retire_it(details):
        retire_session(details.session.id, adapters, OPERATOR)

    message = refused(request_session(ci, ONE, adapters, by="ci", progress=retire_it), RequestProblem.RETIRED)
    assert "before it began" in message
