"""Pokes of monitoring systems that are dead, slow, answer nonsense or answer twice; none delays another one."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from support.checks.fleet import CheckedFleet, PokedSystem, ScriptedMonitor, check_document, system_document
from support.service import running_service
from support.waiting import PATIENCE, UNLIMITED, wait_until
from zkdeployment.checks import daemon as checks_daemon
from zkdeployment.checks.daemon import HttpPokeSender, PokeQueue
from zkdeployment.checks.rules.monitoring_system import Poke
from zkdeployment.service.users.user import Role
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.publishing import Publishing


@pytest.fixture
def fleet(publishing: Publishing, zookeeper: str) -> Iterator[CheckedFleet]:
    with Session(zookeeper, session_timeout=6) as session:
        yield CheckedFleet(publishing, session, hosts=("h1",))


@contextmanager
def silent_address() -> Iterator[str]:
    """Yield the URL of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/poke"


@pytest.fixture(autouse=True)
def _patient_pokes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pokes wait for an answer longer than tests wait for anything."""
    monkeypatch.setattr(checks_daemon, "_LIMIT", 2 * PATIENCE)


def test_a_poke_has_the_body_that_systems_expect_and_clears_the_flag(fleet: CheckedFleet):
    with PokedSystem() as nagios:
        fleet.publish(system_document("nagios1", nagios.url) + check_document("tcp", "nagios1"), web=80)
        fleet.report("web")
        with fleet.daemon() as daemon:
            daemon.run_turn()
            wait_until(lambda: not fleet.instances()["h1"].update_available, "the flag is cleared")
            instance = fleet.instances()["h1"]
            assert nagios.pokes == [{"uuid": instance.id, "path": "/deployments/id"}]
            assert fleet.indexed("nagios1", "flagged") == []
            assert fleet.indexed("nagios1", "open") == [instance.id]
            daemon.run_turn()
            fleet.clock.time += 299
            daemon.run_turn()
            assert len(nagios.pokes) == 1
            fleet.clock.time += 2  # five minutes without a fetch
            daemon.run_turn()
            wait_until(lambda: len(nagios.pokes) == 2, "it is poked again")


def test_a_fetched_instance_is_not_poked_again(fleet: CheckedFleet, zookeeper: str):
    with PokedSystem() as nagios, running_service(zookeeper) as service, fleet.daemon() as daemon:
        monitor = ScriptedMonitor(service.url, service.add_user(Role.MONITORING, "nagios1"))
        fleet.publish(system_document("nagios1", nagios.url) + check_document("tcp", "nagios1"), web=80)
        fleet.report("web")
        daemon.run_turn()
        wait_until(lambda: not fleet.instances()["h1"].update_available, "the flag is cleared")
        for instance in monitor.list("/all"):
            monitor.fetch(instance)
            daemon.run_turn()
            monitor.answer(instance)
        fleet.clock.time += 1000
        daemon.run_turn()
        daemon.run_turn()
        assert fleet.states() == {"h1": ["active"]}
        assert len(nagios.pokes) == 1


def test_a_dead_and_a_slow_system_delay_no_other_and_are_poked_when_they_are_back(
    fleet: CheckedFleet, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(checks_daemon, "RETRY_DELAYS", (0.01, 0.01, 0.01, 0.01))
    answers = iter([500, 0, 302, 404, 503])  # 0 stands for nonsense
    with (
        PokedSystem(lambda: next(answers, 200)) as broken,
        PokedSystem() as healthy,
        fleet.daemon() as daemon,
        silent_address() as silent,
    ):
        systems = {"slow": silent, "dead": "http://127.0.0.1:1/", "bad": broken.url, "good": healthy.url}
        documents = "".join(
            system_document(name, url) + check_document(f"tcp-{name}", name) for name, url in systems.items()
        )
        fleet.publish(documents, web=80)
        fleet.report("web")
        daemon.run_turn()
        wait_until(lambda: healthy.pokes, "the healthy system is poked")
        wait_until(lambda: broken.attempts == 5, "all retries have failed")
        assert len(fleet.indexed("bad", "flagged")) == 1
        # A turn beside a poke may offer the instance a second time.
        wait_until(lambda: daemon.pokes_waiting == 1, "only the slow system has not been poked")
        daemon.run_turn()
        wait_until(lambda: not fleet.indexed("bad", "flagged"), "the next turn pokes the system that is back")
        assert len(broken.pokes) == 1
        assert len(fleet.indexed("dead", "flagged")) == len(fleet.indexed("slow", "flagged")) == 1


def test_a_success_clears_only_the_flag_that_it_was_sent_for(fleet: CheckedFleet, zookeeper: str):
    arrived, leave = threading.Event(), threading.Event()

    def wait_to_answer() -> int:
        arrived.set()
        leave.wait(PATIENCE)
        return 200

    with PokedSystem(wait_to_answer) as nagios, running_service(zookeeper) as service, fleet.daemon() as daemon:
        monitor = ScriptedMonitor(service.url, service.add_user(Role.MONITORING, "nagios1"))
        documents = system_document("nagios1", nagios.url) + check_document("tcp", "nagios1")
        fleet.publish(documents, web=80)
        fleet.report("web")
        daemon.run_turn()
        assert arrived.wait()
        assert monitor.work("/all") == {"h1": "rollout 80"}
        fleet.publish(documents, web=81)
        fleet.report("web")
        daemon.run_turn()
        assert fleet.instances()["h1"].update_available
        leave.set()  # the poke for the first flag succeeds only now
        wait_until(lambda: len(nagios.pokes) == 1, "the answer")
        wait_until(lambda: not daemon.pokes_waiting, "it is settled")
        assert fleet.instances()["h1"].update_available
        daemon.run_turn()
        wait_until(lambda: not fleet.instances()["h1"].update_available, "it is poked for the second flag")
        assert len(nagios.pokes) == 2


def test_a_system_keeps_its_callback_until_everything_is_removed_from_it(fleet: CheckedFleet, zookeeper: str):
    with PokedSystem() as old, PokedSystem() as new, running_service(zookeeper) as service:
        former, latter = (
            ScriptedMonitor(service.url, service.add_user(Role.MONITORING, name)) for name in ("old", "new")
        )
        fleet.publish(system_document("old", old.url) + check_document("tcp", "old"), web=80)
        fleet.report("web")
        with fleet.daemon() as daemon:
            daemon.run_turn()
            # A coordinator that ends sends no more pokes.
            wait_until(lambda: len(old.pokes) == 1, "the first poke")
            assert former.work("/all") == {"h1": "rollout 80"}
            fleet.publish(system_document("new", new.url) + check_document("tcp", "new"), web=80)
            fleet.report("web")
        with fleet.daemon(number=2) as successor:  # another coordinator, which reads everything anew
            successor.run_turn()
            wait_until(lambda: len(old.pokes) == 2, "the old system is poked")
            assert new.pokes == []
            assert latter.list("/all") == []
            assert former.work("/all") == {"h1": "deprovision 80"}
            successor.run_turn()
            wait_until(lambda: len(new.pokes) == 1, "the new system is poked")
            assert latter.work("/all") == {"h1": "rollout 80"}
            assert former.list("/active") == []


def test_a_closed_queue_sends_nothing_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checks_daemon, "RETRY_DELAYS", (60.0,))
    with PokedSystem(lambda: 500) as system:
        delivered: list[Poke] = []
        queue = PokeQueue("nagios1", HttpPokeSender(), delivered.append)
        queue.offer([Poke("a", system.url, 1), Poke("a", system.url, 2), Poke("b", system.url, 1)])
        wait_until(lambda: system.attempts == 1, "the first attempt")
        assert len(queue) == 2
        queue.close()
        queue.join(UNLIMITED)
        assert (system.attempts, delivered, len(queue)) == (1, [], 0)
