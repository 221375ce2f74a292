"""Partial network failures between an agent and ZooKeeper: in one direction, silent, slow, intermittent."""

from __future__ import annotations

import email
import json
import random
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from support.waiting import wait_until
from support.web.servers import MailServer
from support.zookeeper import through
from zkdeployment.agent.reporting.host_reporting import HostPresence
from zkdeployment.agent.store.fleet import ZooKeeperFleet

if TYPE_CHECKING:
    from kazoo.protocol.states import ZnodeStat

    from support.agents import AgentHost, Fleet
    from support.proxy import Proxy

FOO_0 = ["h1 start /who/myfoo 0", "h1 end /who/myfoo 0"]
FOO_1 = ["h1 start /who/myfoo 1", "h1 end /who/myfoo 1"]

#: Seconds of a session; the lease of a lock is a fifth of it.
SESSION = 4


@pytest.fixture
def host(fleet: Fleet, proxy: Proxy) -> AgentHost:
    """A host behind the proxy, with two wanted deployments of foo."""
    fleet.service("/who/myfoo", "foo", "1.0", h1=2)
    fleet.set_version("r1")
    return fleet.host("h1", zookeeper=through(proxy, fleet.connection))


@pytest.fixture
def registrations(fleet: Fleet) -> dict[int, set[int]]:
    """The transaction ids at which the host's node was created, by session."""
    made: dict[int, set[int]] = {}

    def note(_data: bytes, stat: ZnodeStat | None) -> None:
        if stat is not None:
            made.setdefault(stat.ephemeralOwner, set()).add(stat.czxid)

    fleet.client.DataWatch("/hosts/h1", note)
    return made


def registered_once_a_session(registrations: dict[int, set[int]]) -> bool:
    return bool(registrations) and all(len(times) == 1 for times in registrations.values())


def lose_requests(proxy: Proxy) -> None:
    proxy.lose(answers=False)


def lose_answers(proxy: Proxy) -> None:
    proxy.lose(requests=False)


def half_open(proxy: Proxy) -> None:
    proxy.lose()
    proxy.drop()


@pytest.mark.parametrize("fault", [lose_requests, lose_answers, half_open])
def test_no_step_starts_while_requests_or_answers_are_lost(fleet, host, proxy, registrations, fault):
    block = host.block()
    with host.agent(session_timeout=SESSION):
        wait_until(fleet.calls, "the first script")
        fault(proxy)
        connections = proxy.accepted
        block.unlink()
        wait_until(lambda: host.markers == ["who:myfoo.0.deployed"], "the step ends")
        wait_until(lambda: proxy.accepted >= connections + 2, "the agent retries")
        assert fleet.calls() == FOO_0
        proxy.heal()
        host.wait_for_version("r1")
    assert fleet.calls() == [*FOO_0, *FOO_1]
    assert registered_once_a_session(registrations)
    assert fleet.client.get_children("/agent-locks/who,myfoo") == []
    assert fleet.client.get_children("/zkdeployment/busy") == []


def test_a_script_is_supervised_while_zookeeper_is_unreachable(fleet, host, proxy, monkeypatch):
    block = host.block()
    with host.agent(session_timeout=SESSION) as agent:
        wait_until(fleet.calls, "the first script")
        proxy.cut()
        wait_until(lambda: agent.agent._adapters.session.id is None, "the connection is gone")
        beats, written = [], []
        beat = HostPresence.beat
        with monkeypatch.context() as patch:
            patch.setattr(ZooKeeperFleet, "update_host", lambda *_: written.append("waits for ZooKeeper"))
            patch.setattr(HostPresence, "beat", lambda presence: beats.append(beat(presence)))
            wait_until(lambda: len(beats) > 8, "more than a second of heartbeats")
        assert written == []
        block.unlink()
        proxy.heal()
        host.wait_for_version("r1")


def test_a_failure_is_mailed_while_zookeeper_is_unreachable_and_reported_later(fleet, proxy):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    with MailServer() as server:
        host = fleet.host(
            "h1", zookeeper=through(proxy, fleet.connection), mailto="ops@example.com", smtp=server.address
        )
        host.fail("/who/myfoo 0")
        block = host.block()
        with host.agent(session_timeout=SESSION):
            wait_until(fleet.calls, "the script")
            proxy.cut()
            block.unlink()
            server.join()
            text = email.message_from_string(server.message).get_payload(decode=True).decode()
            assert "exit status 3" in text
            assert "ZooKeeper does not answer. The host keeps the failure" in text
            assert "The fleet is stopped" not in text
            assert fleet.version == "r1"
            assert json.loads((host.lasting / "failure").read_text())["stop"]["step"] == "deploy /who/myfoo 0"
            proxy.heal()
            wait_until(lambda: fleet.version is None, "the stop")
            wait_until(lambda: not (host.lasting / "failure").exists(), "it is reported")


def test_an_answer_after_the_end_of_the_lease_starts_no_step(fleet, host, proxy, capsys):
    block = host.block()
    messages = ""

    def lost() -> bool:
        nonlocal messages
        messages += "".join(capsys.readouterr())
        return "this host was suspended after it acquired the lock" in messages

    with host.agent(session_timeout=SESSION):
        wait_until(fleet.calls, "the first script")
        proxy.delay(SESSION / 8)  # a round trip takes a quarter of the session timeout, a lease lasts a fifth
        block.unlink()
        wait_until(lost, "the lease is over")
        assert fleet.calls() == FOO_0
        proxy.heal()
        host.wait_for_version("r1")
    assert fleet.calls() == [*FOO_0, *FOO_1]


def test_an_unstable_slow_link_causes_neither_more_threads_nor_repeated_registrations(
    fleet, host, proxy, registrations
):
    chance = random.Random(7)
    with host.agent(session_timeout=SESSION):
        host.wait_for_version("r1")
        threads = threading.active_count()
        proxy.delay(0.05)
        for number in range(12):
            fleet.set_version(f"try{number}")
            proxy.drop()
            calls = len(fleet.calls()) + chance.randrange(3)
            connections = proxy.accepted
            wait_until(
                partial(lambda c, n: len(fleet.calls()) >= c or proxy.accepted > n, calls, connections),
                "the agent goes on",
            )
            assert threading.active_count() <= threads + 8
        fleet.set_version("r2")
        proxy.heal()
        host.wait_for_version("r2")
        wait_until(lambda: threading.active_count() <= threads, "no thread is left")
    assert registered_once_a_session(registrations)
    assert fleet.client.get_children("/agent-locks/who,myfoo") == []
    assert fleet.client.get_children("/zkdeployment/busy") == []
