"""Simulated monitoring systems, which deploy the checks of a fleet, run them, and report the results.

The service with which they talk, without HTTP, is that of the program. Pokes on their way, the files of monitoring
systems and plugins are simulated. A monitoring system may fail to deploy a check, and answer late, twice, or with
nonsense; it may report nothing for a while, and lose its files when it is restarted.
"""

from __future__ import annotations

import json
import uuid
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from simulation.check_plans import SYSTEMS
from simulation.daemon_processes import SERVERS, Daemon
from simulation.green import Event
from zkdeployment.base.act import Act
from zkdeployment.base.errors import NotFoundError, RefusedError, ZkdeploymentError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.checks import api
from zkdeployment.checks.models import DeploymentAnswer, ReportedResult, ReportedResults
from zkdeployment.checks.opening import check_adapters
from zkdeployment.checks.rules.listing import InstanceFilter
from zkdeployment.checks.rules.monitoring_system import ResultState
from zkdeployment.fleet.operator import operator_adapters
from zkdeployment.service.users.user import Role, User
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from simulation.world import World

#: Seconds between two looks of a monitoring system at what it has to do, and between two reports of all results.
_PACE, _REPORTING = 10.0, 20.0

#: The task of a fetched check that has to be deployed; that of all others is to remove the check.
_ROLLOUT = "rollout"


class _Service:
    """The operations of the service for one monitoring system; they raise ``ZkdeploymentError``."""

    def __init__(self, session: Session, system: str) -> None:
        self._adapters: Any = SimpleNamespace(operator=operator_adapters(session), clock=SystemClock())
        self._user = User(id=1, name=system, role=Role.MONITORING, created_at=0.0)
        self._system = system

    def list_flagged(self) -> Collection[str]:
        """Return the instances with an update."""
        self._renew_lease()
        return api.list_flagged(self._system, self._adapters, self._user).deploymentsList

    def list_open(self) -> Collection[str]:
        """Return the instances that wait for the monitoring system."""
        self._renew_lease()
        return api.list_open(self._system, self._adapters, self._user).deploymentsList

    def list_deployed(self) -> Mapping[str, str]:
        """Return the configurations that the monitoring system has, by instance."""
        return api.list_active(self._system, self._adapters, self._user).configurations

    def fetch(self, instance: str) -> dict[str, Any]:
        """Return the details of an instance."""
        self._renew_lease()
        fetched: dict[str, Any] = json.loads(api.fetch_deployment(instance, self._adapters, self._user).body)
        return fetched

    def answer(self, instance: str, config_id: str, result: str) -> None:
        """Answer a deployment."""
        self._renew_lease()
        body = DeploymentAnswer(config_id=config_id, reason=f"the reason of {result}")
        api.answer_deployment(instance, result, self._adapters, self._user, body)

    def report(self, results: Mapping[str, ReportedResult]) -> None:
        """Report results."""
        self._renew_lease()
        api.report_results(self._system, self._adapters, self._user, ReportedResults(root=dict(results)))

    def _renew_lease(self) -> None:
        api._hold_lease(self._adapters, self._user, self._system)


class MonitoringSystem:
    """A monitoring system.

    ``deployed`` are the details of its checks by instance, which survive its process. ``done`` are the
    configurations that it has deployed (``True``) or removed (``False``).
    """

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self.name = name
        self.deployed: dict[str, dict[str, Any]] = {}
        self.done: set[tuple[str, bool]] = set()
        self._late: dict[str, tuple[str, str]] = {}  # answers that are on their way for long
        self._poked: set[str] = set()
        self._woken = Event(world.network.scheduler)
        self._reported: dict[str, ReportedResult] = {}
        self._silent_until = self._reported_at = 0.0

    def poke(self, instance: str) -> None:
        """Hear that an instance has an update."""
        self._poked.add(instance)
        self._woken.set()

    def work(self) -> None:
        """Follow the service until the process ends."""
        world = self._world
        self._poked.clear()
        self._reported.clear()
        if self._happens(0.2):
            world.trace(f"{self.name} has lost its files")
            self.deployed.clear()
        with Session(SERVERS, session_timeout=10.0, create_chroot=True) as session:
            service, is_synchronized = _Service(session, self.name), False
            while True:
                try:
                    self._follow(service, is_synchronized=is_synchronized)
                    self._report(service)
                    is_synchronized = True
                except ZkdeploymentError as error:
                    world.trace(f"{self.name} fails: {error}")
                    is_synchronized = False
                self._woken.wait(_PACE)
                self._woken.clear()

    def _happens(self, share: float) -> bool:
        return self._world.faults.are_active and self._world.chance.random() < share

    def _follow(self, service: _Service, *, is_synchronized: bool) -> None:
        """Deploy and remove what has changed; after a failure, compare everything."""
        if not is_synchronized:
            waiting, deployed = service.list_open(), service.list_deployed()
            for instance in self.deployed.keys() - deployed.keys() - {*waiting}:
                del self.deployed[instance]
            missing = {
                instance
                for instance, config_id in deployed.items()
                if self.deployed.get(instance, {}).get("config_id") != config_id
            }
            changed = missing.union(waiting)
        elif SYSTEMS[self.name] is None:
            changed = {*service.list_flagged()}
        else:
            changed, self._poked = self._poked, set()
        for instance in sorted(changed):
            self._deploy(service, instance)

    def _deploy(self, service: _Service, instance: str) -> None:
        """Deploy or remove a check, and answer."""
        world = self._world
        try:
            details = service.fetch(instance)
        except NotFoundError:
            return
        self._send_late(service, instance, details)
        world.take_time(0.1, 1.0)
        if self._happens(0.03):
            world.take_time(30.0, 300.0)
        config_id, is_rollout = details["config_id"], details["task"] == _ROLLOUT
        result = "failed" if self._happens(0.05) else "success"
        if result == "success":
            self._write(instance, details)
            self.done.add((config_id, is_rollout))
        world.trace(f"{self.name} answers {result} to {details['task']} of {instance} {details['version']}")
        self._answer(service, instance, config_id, result)
        if self._happens(0.2):
            self._late[instance] = config_id, result
        if self._happens(0.05):
            self._answer(service, instance, str(uuid.UUID(int=0)), "success")

    def _write(self, instance: str, details: dict[str, Any]) -> None:
        """Deploy or remove a check, which is never replaced by another configuration."""
        before = self.deployed.get(instance)
        if details["task"] != _ROLLOUT:
            self.deployed.pop(instance, None)
            return
        if before is not None and before["config_id"] != details["config_id"]:
            self._world.checks.fail(f"{self.name} has to update {instance}, which it has not removed")
        self.deployed[instance] = details

    def _answer(self, service: _Service, instance: str, config_id: str, result: str) -> None:
        try:
            service.answer(instance, config_id, result)
        except (NotFoundError, RefusedError) as error:
            self._world.trace(f"an answer of {self.name} does not count: {error}")

    def _send_late(self, service: _Service, instance: str, details: Mapping[str, Any]) -> None:
        """Let a second copy of an earlier answer arrive after the next configuration was fetched."""
        config_id, result = self._late.get(instance, (details["config_id"], ""))
        if config_id != details["config_id"]:
            self._answer(service, instance, config_id, result)
            del self._late[instance]

    def _report(self, service: _Service) -> None:
        """Run all checks, and report the results: those that changed, and all of them from time to time."""
        world = self._world
        if self._happens(0.01):
            self._silent_until = world.now + world.chance.uniform(100.0, 700.0)
        if world.now < self._silent_until:
            return
        results = {instance: self._result(details) for instance, details in self.deployed.items()}
        is_due = world.now - self._reported_at >= _REPORTING
        changed = {
            instance: result
            for instance, result in results.items()
            if is_due or _differs(result, self._reported.get(instance))
        }
        if self._happens(0.05):
            world.take_time(0.0, 60.0)
        if changed or is_due:
            service.report(changed)
            self._reported |= changed
            self._reported_at = world.now if is_due else self._reported_at

    def _result(self, details: Mapping[str, Any]) -> ReportedResult:
        """Return the result of a check that runs now: OK if its service runs and is not broken."""
        machine = self._world.machines[details["host"]["id"]]
        running = machine.instances.get((details["path"], details["number"])) if machine.present else None
        is_ok = running is not None and running.version not in self._world.broken
        now = self._world.network.modules.time.time()
        return ReportedResult(
            state=ResultState.OK if is_ok else ResultState.CRITICAL,
            output=f"{running and running.version} runs",
            since=now,
            checked=now,
            config_id=details["config_id"],
        )


class Monitoring:
    """The monitoring systems of a fleet, their operators, and the network on which they are poked."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.systems = {name: MonitoringSystem(world, name) for name in SYSTEMS}

    def start(self) -> None:
        """Start the monitoring systems and their operators."""
        world = self._world
        for name, system in self.systems.items():
            world.daemons[name] = Daemon(world, name, lambda _daemon, system=system: system.work())  # type: ignore[misc]
            world.daemons[name].start()
        world.network.scheduler.spawn(world.new_process("staff"), self._retry_failures)

    def _retry_failures(self) -> None:
        """Let monitoring systems try again what they failed to deploy or to remove."""
        world = self._world
        with Session(SERVERS, session_timeout=10.0, create_chroot=True) as session:
            adapters = check_adapters(session)
            while True:
                world.take_time(20.0, 200.0)
                try:
                    failed = adapters.failed(InstanceFilter())
                    adapters.retry(failed, Act("ann@ops", "checks retry", "because", SystemClock().now()))
                except ZkdeploymentError as error:
                    world.trace(f"a retry of checks fails: {error}")

    def send(self, callback: str, instance: str) -> str | None:
        """Poke a monitoring system (stands in for ``HttpPokeSender``); return why that failed, if it did."""
        world = self._world
        world.take_time(0.0, 1.0)
        system = next(each for each in self.systems.values() if SYSTEMS[each.name] == callback)
        process = world.daemons[system.name].process
        if process is None or not process.alive or process.frozen_until > world.now:
            world.take_time(0.0, 4.0)
            return "it does not answer"
        share = world.chance.random() if world.faults.are_active else 1.0
        if share > 0.1:
            system.poke(instance)
        return "it answers nonsense" if share < 0.2 else None


def _differs(result: ReportedResult, reported: ReportedResult | None) -> bool:
    return reported is None or (result.state, result.config_id) != (reported.state, reported.config_id)
