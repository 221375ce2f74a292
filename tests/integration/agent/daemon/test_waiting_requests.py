"""The requests of agents: real agents, a real ZooKeeper, waits in turns without a pause, counted requests."""

import itertools
import re
from contextlib import contextmanager

import pytest

from support.agents import Fleet
from support.publishing import Publishing
from support.waiting import UNLIMITED, wait_until
from support.zookeeper import CountedSession
from zkdeployment.agent.daemon.deployment import Supervision
from zkdeployment.agent.reporting import host_reporting
from zkdeployment.agent.steps import awaiting_steps
from zkdeployment.programs import agent as wiring
from zkdeployment.zookeeper.contender_lock import ContenderLock
from zkdeployment.zookeeper.session import Session

#: Turns of a wait that are counted: about a minute at the real pace.
TURNS = 30

LOCK = "wait for the lock of /foo, held by h1.example.com (h1)"


@pytest.fixture
def turns(monkeypatch):
    """The number of turns that agents have waited."""
    waited = itertools.count()
    turns = [0]
    check = Supervision.check_waiting

    def counted(supervision):
        check(supervision)
        turns[0] = next(waited)

    monkeypatch.setattr(Supervision, "check_waiting", counted)
    monkeypatch.setattr(wiring, "Session", CountedSession)
    monkeypatch.setattr(CountedSession, "sessions", [])
    monkeypatch.setattr(awaiting_steps, "TURN", 0.02)
    return turns


def wait_for_call(fleet, line):
    wait_until(lambda: line in fleet.calls(), line)


@pytest.mark.usefixtures("turns")
def test_a_deployment_sends_the_same_few_requests_however_many_hosts_there_are(
    fleet, publishing: Publishing, monkeypatch
):
    monkeypatch.setattr(host_reporting, "_PACE", UNLIMITED)  # a slow machine shows more progress
    tree = "/shop\n" + "".join(
        f"  /{name} : foo\n    version = '{{0}}'\n    /deploy\n      /h1\n" for name in ("db", "web")
    )
    host = fleet.host("h1")
    counts = []
    with host.agent():
        for version, others in (("1.0", 0), ("2.0", 0), ("1.0", 40)):
            for number in range(others):
                fleet.client.create(f"/hosts/o{number}", b"{}", ephemeral=True)
                for path in (f"/agent-locks/o,{number}/x__lock__", f"/zkdeployment/order/1/o,{number}/x"):
                    fleet.client.create(path, makepath=True)
            wait_until(lambda: host.node, "h1 is registered")
            agent = CountedSession.sessions[0]
            before = agent.sent.total()
            publishing.push(tree.format(version))
            publishing.sync(force=True)
            host.wait_for_version(publishing.published)
            counts.append(agent.sent.total() - before)
    assert max(counts[1:]) <= 26


@contextmanager
def waiting(fleet: Fleet, turns: list[int], step: str, publish=lambda: None, **options: str):
    """Run a host whose script is blocked, and another one that waits for it with this step.

    Yields the other host, and the requests that it sent during many turns.
    """
    first, second = (fleet.host(name, **options) for name in ("h1", "h2"))
    block = first.block()
    try:
        with first.agent():
            wait_until(lambda: first.node, "h1 is registered")
            publish()
            wait_until(lambda: any(call.startswith("h1 start") for call in fleet.calls()), "the script runs")
            with second.agent():
                wait_until(lambda: second.node.get("step") == step, f"h2 shows {step!r}")
                agent, begun = CountedSession.sessions[-1], turns[0]
                wait_until(lambda: turns[0] > begun + 2, "the wait has begun")
                sent, begun = agent.sent.copy(), turns[0]
                wait_until(lambda: turns[0] > begun + TURNS, "many turns")
                yield second, agent.sent - sent
                block.unlink()
    finally:
        block.unlink(missing_ok=True)


def test_a_host_in_the_queue_of_a_lock_sends_no_requests_and_still_sees_stops_holds_and_versions(fleet, turns):
    fleet.service("/foo", "foo", "1.0", h1=1, h2=1)
    fleet.set_version("r1")
    with waiting(fleet, turns, LOCK) as (host, sent):
        assert not sent
        for version in (None, "r1", False, "r2"):
            fleet.set_version(version)
            wanted = version or None
            wait_until(lambda wanted=wanted: host.node.get("deploying") == wanted, f"h2 saw {version}")


def test_a_host_far_back_in_a_queue_shows_when_it_read_the_holder(fleet, turns):  # noqa: ARG001  no pauses
    fleet.service("/foo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    host = fleet.host("h1")
    with Session(fleet.connection) as session, Session(fleet.connection) as another:
        holder, second = (
            ContenderLock(owner, "/agent-locks/foo", name) for owner, name in ((session, "a1"), (another, "a2"))
        )
        assert holder.try_acquire()
        assert not second.acquire(0)
        with host.agent():
            step = r"wait for the lock of /foo, held by {} as of \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
            for name in ("a1", "a2"):
                shown = step.format(name)
                wait_until(lambda shown=shown: re.fullmatch(shown, host.node.get("step", "")), f"it knows {name}")
                holder.release()
            second.release()
            wait_for_call(fleet, "h1 end /foo 0")


def test_a_host_that_may_take_another_lock_asks_seldom_and_takes_it(fleet, turns):
    for path in ("/foo", "/goo"):
        fleet.service(path, "foo", "1.0", h1=int(path == "/foo"), h2=1)
    fleet.set_version("r1")
    with Session(fleet.connection) as session:
        lock = ContenderLock(session, "/agent-locks/goo", "somebody")
        assert lock.try_acquire()
        with waiting(fleet, turns, LOCK) as (_, sent):
            assert 0 < sum(sent.values()) <= 5
            lock.release()
            wait_for_call(fleet, "h2 end /goo 0")


def test_a_host_in_the_queue_of_a_role_sends_no_requests_and_still_sees_another_version(fleet, turns):
    fleet.controller("web", "ctl", "1.0")
    fleet.service("/foo", "foo", "1.0", web=1)
    fleet.set_version("r1")
    step = "wait for the lock of role web, held by h1.example.com (h1)"
    with waiting(fleet, turns, step, role="web") as (host, sent):
        assert not sent
        fleet.set_version("r2")
        wait_until(lambda: host.node.get("deploying") == "r2", "h2 saw r2")


def test_a_host_that_waits_for_another_service_sends_no_requests_and_still_sees_a_stop(
    fleet, turns, publishing: Publishing
):
    service = "  {} : foo\n    version = '1.0'\n{}    /deploy\n      /{}\n"
    after = "    deploy_after = ['/shop/db']\n"
    publishing.push("/shop\n" + service.format("/db", "", "h1") + service.format("/web", after, "h2"))
    step = "waits for /shop/db on h1.example.com"
    with waiting(fleet, turns, step, publish=lambda: publishing.sync(force=True)) as (host, sent):
        assert not sent
        fleet.set_version(None)
        wait_until(lambda: "step" not in host.node, "h2 saw the stop")
        fleet.set_version(publishing.published)
