"""A fleet with checks: real repository, syncer and ZooKeeper, simulated hosts, scripted monitoring systems."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import httpx

from support.certificates import CERTIFICATES
from support.waiting import ManualClock
from support.web.servers import WebServer
from zkdeployment.base.deployment import Deployment
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Marker
from zkdeployment.checks import paths as check_paths
from zkdeployment.checks.daemon import CheckDaemon, CheckJob, CheckPokes, HttpPokeSender
from zkdeployment.checks.store.instances import ZooKeeperCheckInstances
from zkdeployment.checks.store.sources import ZooKeeperCheckSources
from zkdeployment.checks.store.systems import ZooKeeperMonitoringSystems
from zkdeployment.publishing.records import GuardOverrides
from zkdeployment.publishing.store.hosts import write_inventory
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.transactions import Create, Delete

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from support.publishing import Publishing
    from zkdeployment.checks.rules.instance import CheckInstance
    from zkdeployment.zookeeper.session import Session


def system_document(name: str, callback: str | None = None) -> str:
    """Return the document of a monitoring system."""
    data = {} if callback is None else {"callback": callback}
    return f"---\nschema: zkdeployment/MonitoringSystem/v1\nmetadata: {{name: {name}}}\ndata: {json.dumps(data)}\n"


def check_document(name: str, system: str, package: str = "web") -> str:
    """Return the document of a check of the ports of a package."""
    return (
        f"---\nschema: zkdeployment/CheckConfiguration/v1\nmetadata: {{name: {name}}}\ndata:\n"
        f"  object: /shop\n  monitoring: {system}\n  constraints: [{{package: {package}}}]\n"
        "  check: {command: check_tcp, arguments: ['-p', '{property.port}']}\n"
    )


def service_tree(services: Mapping[str, int], hosts: Iterable[str]) -> str:
    """Return a tree whose services, with their ports, are deployed to all of these hosts."""
    lines = ["/shop"]
    for name, port in services.items():
        lines += [f"  /{name} : {name}", "    version = '1'", f"    port = {port}", "    /deploy"]
        lines += [f"      /{host}" for host in hosts]
    return "\n".join([*lines, ""])


@dataclass
class CheckedFleet:
    """Publishes trees and documents, and acts as the hosts."""

    publishing: Publishing
    session: Session
    clock: ManualClock = field(default_factory=ManualClock)
    hosts: tuple[str, ...] = ("h1", "h2")

    def publish(self, documents: str, **services: int) -> int:
        """Publish documents of checks and services with their ports; return the sequence."""
        self.publishing.push(service_tree(services, self.hosts), checks_yaml=documents)
        self.publishing.sync(force=True, overrides=GuardOverrides(mass_removal=True))
        published = self.publishing.get(paths.TARGETS) or {}
        sequence = published["since"]
        assert isinstance(sequence, int)
        self.session.sync()
        self.session.settle_watches()
        return sequence

    def report(self, *services: str, hosts: Iterable[str] | None = None) -> None:
        """Report that hosts have deployed these services of the last publication."""
        published = self.publishing.get(paths.TARGETS) or {}
        for host in self.hosts if hosts is None else hosts:
            markers = tuple(Marker(Deployment(f"/shop/{name}", 0), name, name) for name in services)
            write_inventory(self.session, KnownHost(Identity(host, host), Inventory(markers=markers)))
            self.publishing.register(host, str(published["version"]), sequence=published["sequence"])
        self.session.sync()
        self.session.settle_watches()

    def instances(self) -> dict[str, CheckInstance]:
        """Return all instances: those of one check and service by host, if there is only one."""
        return {found.key.host: found for found in ZooKeeperCheckInstances(self.session).scan()}

    def states(self) -> dict[str, list[str]]:
        """Return the states of all configurations by host, the oldest version first."""
        return {
            host: [found.state.value for found in instance.configurations]
            for host, instance in sorted(self.instances().items())
        }

    def indexed(self, system: str, index: str) -> list[str]:
        """Return the instances in an index of a monitoring system."""
        return self.session.children(f"{check_paths.system_path(system)}/{index}") or []

    @contextmanager
    def lead(self, number: int = 1) -> Iterator[str]:
        """Yield the lock node of a leading coordinator, which is removed afterwards."""
        node = f"{paths.COORDINATORS}/lead{number}"
        self.session.ensure(paths.COORDINATORS)
        self.session.commit(Create(node))
        try:
            yield node
        finally:
            if self.session.get(node) is not None:
                self.session.commit(Delete(node))

    @contextmanager
    def daemon(self, number: int = 1) -> Iterator[CheckDaemon]:
        """Yield the checks of a coordinator that leads."""
        with self.lead(number) as node:
            daemon = check_daemon(self.session, self.clock, lambda: node)
            try:
                yield daemon
            finally:
                daemon.close()


def check_daemon(
    session: Session,
    clock: ManualClock,
    lead: Callable[[], str | None],
    reach: Callable[[str], None] = lambda _place: None,
) -> CheckDaemon:
    """Return the checks of a coordinator with the clock of the tests; it runs turns on request."""
    instances = ZooKeeperCheckInstances(session, lead, reach=reach)
    systems = ZooKeeperMonitoringSystems(session)
    job = CheckJob(instances, ZooKeeperCheckSources(session), clock)
    pokes = CheckPokes(instances, systems, HttpPokeSender(), clock)
    return CheckDaemon(instances, systems, job, pokes, clock, lead=lead, interval=20.0)


@dataclass
class ScriptedMonitor:
    """A monitoring system that talks to a service over HTTP."""

    service: str
    login: tuple[str, str]

    @property
    def name(self) -> str:
        """The name of the system."""
        return self.login[0]

    def request(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Send a request to a path below ``/deployments``."""
        url = f"{self.service}/deployments/{path}"
        return httpx.request(method, url, auth=self.login, json=body, timeout=None, verify=CERTIFICATES)

    def list(self, kind: str = "") -> list[str]:
        """Return a list of instances: the flagged ones, ``/all`` or ``/active``."""
        answer = self.request("GET", f"monitoring/{self.name}{kind}")
        assert answer.status_code == 200, answer.text
        listed: list[str] = answer.json()["deploymentsList"]
        return listed

    def fetch(self, instance: str) -> dict[str, Any]:
        """Return the details of an instance."""
        answer = self.request("GET", f"id/{instance}")
        assert answer.status_code == 200, answer.text
        details: dict[str, Any] = answer.json()
        return details

    def answer(self, instance: str, result: str = "success", body: Any = None) -> int:
        """Answer a deployment; return the status of the response."""
        return self.request("PATCH", f"id/{instance}/{result}", body).status_code

    def work(self, kind: str = "") -> dict[str, str]:
        """Fetch everything in a list, answer success, and return the tasks by host."""
        tasks = {}
        for instance in self.list(kind):
            details = self.fetch(instance)
            tasks[details["host"]["id"]] = f"{details['task']} {details['arguments'][-1]}"
            assert self.answer(instance) == 200
        return tasks


class PokedSystem(WebServer):
    """The callback of a monitoring system: it keeps the bodies of pokes and answers ``status()``."""

    def __init__(self, status: Callable[[], int] = lambda: 200) -> None:
        self.pokes: list[dict[str, str]] = []
        self.attempts = 0
        system = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                system.attempts += 1
                answer = status()
                if answer == 0:
                    self.wfile.write(b"nonsense\r\n\r\n")
                    return
                if 200 <= answer < 300:
                    system.pokes.append(json.loads(body))
                self.send_response(answer)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        super().__init__(Handler)

    @property
    def url(self) -> str:
        """The address of the callback."""
        return f"{super().url}/poke"
