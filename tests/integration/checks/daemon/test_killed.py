"""Coordinators that are killed at each write of the checks: nothing is lost, doubled or poked for ever."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

import pytest
import yaml

from support.checks.fleet import PokedSystem, check_daemon, check_document, service_tree, system_document
from support.fleets.written import WrittenFleet
from support.waiting import ManualClock, wait_until
from zkdeployment.base.deployment import Deployment
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Marker
from zkdeployment.checks import paths as check_paths
from zkdeployment.checks.rules import workflow
from zkdeployment.checks.store.instances import ZooKeeperCheckInstances
from zkdeployment.publishing.store.hosts import write_inventory
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Create, Delete

if TYPE_CHECKING:
    from zkdeployment.checks.daemon import CheckDaemon
    from zkdeployment.checks.rules.instance import CheckInstance
    from zkdeployment.documents.collection import DocumentContents

H1 = Identity("h1", "h1")


class Killed(SystemExit):
    """The end of a coordinator at a write; a thread that it is raised in ends quietly."""


class Case:
    """One fleet in a chroot of its own, whose coordinator is killed at the write with number ``kill_at``."""

    def __init__(self, zookeeper: str, kill_at: int) -> None:
        self.connection = f"{zookeeper}/case{kill_at}"
        self.kill_at = kill_at
        self.reached = 0
        self.killed = False
        self.clock = ManualClock()
        self.answered: list[str] = []
        self._stack = ExitStack()
        self._coordinators = 0

    def __enter__(self) -> Self:
        self.session = self._stack.enter_context(Session(self.connection, session_timeout=6, create_chroot=True))
        self.written = self._stack.enter_context(WrittenFleet(self.connection))
        self.system = self._stack.enter_context(PokedSystem())
        self.instances = ZooKeeperCheckInstances(self.session)
        self.daemon = self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.daemon.close()
        self._stack.close()

    def _start(self) -> CheckDaemon:
        """Start a coordinator after the end of the previous one's lock node."""
        self._coordinators += 1
        node = f"{paths.COORDINATORS}/c{self._coordinators}"
        self.session.ensure(paths.COORDINATORS)
        if self._coordinators > 1:
            self.session.commit(Delete(f"{paths.COORDINATORS}/c{self._coordinators - 1}"))
        own = self._stack.enter_context(Session(self.connection, session_timeout=6))
        own.commit(Create(node, ephemeral=True))
        return check_daemon(own, self.clock, lambda: node, self._reach)

    def _reach(self, _place: str) -> None:
        self.reached += 1
        if self.reached == self.kill_at:
            self.killed = True
            raise Killed

    def publish(self, port: int | None) -> None:
        """Publish the service at a port, or no service, and report it as deployed."""
        documents = system_document("nagios1", self.system.url) + check_document("tcp", "nagios1")
        services = {} if port is None else {"web": port}
        sequence = self.written.publish(
            f"r{port}", service_tree(services, ["h1"]), documents=document_contents(documents)
        )
        markers = tuple(Marker(Deployment(f"/shop/{name}", 0), name, name) for name in services)
        write_inventory(self.session, KnownHost(H1, Inventory(markers=markers)))
        self.written.register(Host(H1, f"r{port}", sequence=sequence))

    def drive(self, version: int, state: str) -> None:
        """Run turns, with the monitoring system acting on pokes, until a version as the last one is in a state."""
        for _ in range(40):
            try:
                self.daemon.run_cycle()
                wait_until(lambda: self.killed or not self.daemon.pokes_waiting, "all pokes are settled")
            except Killed:
                pass
            if self.killed:
                self.killed = False
                self.daemon = self._start()
            self.act()
            self.clock.time += 20
            found = [*self.instances.scan()]
            last = found[0].configurations[-1] if found else None
            if last is not None and (last.version, last.state.value) == (version, state):
                return
        raise AssertionError(f"not {state} after many turns: {found}")

    def act(self) -> None:
        """Fetch and answer the checks for which the system was poked."""
        while self.system.pokes:
            self._deploy(self.system.pokes.pop(0)["uuid"])

    def _deploy(self, instance: str) -> None:
        task = ""

        def fetch(_: str, found: CheckInstance | None) -> CheckInstance | None:
            nonlocal task
            outcome = None if found is None else workflow.fetch(found, self.clock.now())
            if outcome is None:
                return found
            details: Any = outcome[1].to_json()
            task = f"{details['task']} {details['properties']['port']}"
            return outcome[0]

        def answer(_: str, found: CheckInstance | None) -> CheckInstance | None:
            after = None if found is None else workflow.answer(found, is_success=True, now=self.clock.now())
            return found if after is None or isinstance(after, workflow.CheckRefusal) else after

        self.instances.change([instance], fetch)
        before, after = self.instances.change([instance], answer)[instance]
        if before != after:
            self.answered.append(task)


def document_contents(text: str) -> DocumentContents:
    """Return documents as they are published."""
    kinds = {"zkdeployment/MonitoringSystem/v1": "monitoring", "zkdeployment/CheckConfiguration/v1": "check"}
    found = [content for content in yaml.safe_load_all(text) if content]
    return {(kinds[content["schema"]], (content["metadata"]["name"],)): content for content in found}


def play(case: Case) -> None:
    case.publish(80)
    case.drive(0, "active")
    case.publish(81)
    case.drive(1, "active")
    case.publish(None)
    case.drive(1, "awaiting_deletion")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # a poke was killed
def test_coordinators_killed_at_each_write_have_the_result_of_one_that_was_not_killed(zookeeper: str):
    with Case(zookeeper, 0) as undisturbed:
        play(undisturbed)
        writes = undisturbed.reached
    assert writes >= 20  # before and after each write
    for number in range(1, writes + 1):
        with Case(zookeeper, number) as case:
            play(case)
            assert case.reached >= number, "it was killed there"
            assert case.answered == ["rollout 80", "deprovision 80", "rollout 81", "delete 81"], number
            attempts = case.system.attempts
            for _ in range(3):
                case.clock.time += 400
                case.daemon.run_cycle()
            assert case.system.attempts == attempts, number  # nothing is poked for ever
            for index in ("flagged", "open"):
                assert case.session.children(f"{check_paths.system_path('nagios1')}/{index}") == [], number
