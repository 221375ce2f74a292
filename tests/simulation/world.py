"""One simulation: a fleet, its operators and the faults of one seed, from the first commit to convergence."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from unittest import mock

from simulation.analyses import HEALTHY
from simulation.attacker import Attacker
from simulation.checkouts import SoftwareRepository
from simulation.checks import Checks
from simulation.daemon_processes import (
    WORKERS,
    Daemon,
    agent_daemon,
    coordinator_daemon,
    simulated_machines,
    syncer_daemon,
    worker_daemon,
)
from simulation.faults import Faults
from simulation.green import Killed, Process
from simulation.histories import HistoryWriter
from simulation.leases import DOCUMENT, Tenants
from simulation.machine import Machine
from simulation.network import Network
from simulation.operators import Operators
from simulation.program_versions import LoadedPrograms
from simulation.repository import SimulatedRepository
from simulation.signatures import RotatedKeys
from simulation.themes import CHOSEN, THEMES
from simulation.traces import trace_of_logs
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.host import Identity

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulation.monitoring import Monitoring

#: Virtual seconds for the fleet to converge after the last fault.
PATIENCE = 4 * 3600.0


@dataclass(frozen=True)
class Options:
    """The size of a simulation.

    ``faults`` is the number of virtual seconds with faults, 0 for none. A ``calm`` fleet has operators who only
    push once. The seed chooses a ``theme`` unless one is given.
    """

    seed: int
    hosts: int = 6
    services: int = 4
    faults: float = 900.0
    lock_delay: float = 60.0
    calm: bool = False
    theme: str | None = None


@dataclass
class Result:
    """The outcome of a simulation: ``violations`` is empty if all invariants held."""

    options: Options
    violations: list[str]
    virtual: float
    scripts: int
    requests: int
    theme: str

    @property
    def sentence(self) -> str:
        """The outcome in one line."""
        outcome = self.violations[0] if self.violations else "all invariants held"
        return (
            f"seed {self.options.seed} ({self.theme}): {self.options.hosts} hosts, {self.virtual:.0f} s,"
            f" {self.scripts} scripts, {self.requests} requests: {outcome}"
        )


class World:
    """The parts of one simulation, which has to converge ``patience`` seconds after the last fault."""

    patience = PATIENCE

    def __init__(
        self,
        options: Options,
        watch: Callable[[str], None] | None = None,
        history: Callable[[dict[str, Any]], None] | None = None,
        network: Network | None = None,
    ) -> None:
        self.options = options
        self._watch = watch
        self.history = HistoryWriter(self, history)
        self.network = network or Network(Random(options.seed), servers=3 if options.hosts <= 100 else 1)
        self.chance = self.network.chance
        self.roles = ("web", "db", *(f"role{number}" for number in range(2, options.hosts // 50)))
        chosen = self.chance.choice(CHOSEN)
        self.theme_name = "mixed" if options.calm else options.theme or chosen
        self.theme = THEMES[self.theme_name]
        without = [None] * (3 * len(self.roles) // 2)
        roles = [None, "web", "web"] if self.theme.tolerant else [*without, *self.roles]
        roles = [None, None, None, "web"] if self.theme.leases else roles
        roles = [*self.roles] if self.theme.controlled else roles
        self.role_of = [None, *(self.chance.choice(roles) for _ in range(2 * options.hosts))]
        self.repository = SimulatedRepository(options.services, self.roles, lambda: self.now)
        self._scratch = tempfile.TemporaryDirectory() if self.theme.checkouts or self.theme.logs else None
        self.scratch = Path("/simulated" if self._scratch is None else self._scratch.name)
        self.software = SoftwareRepository(self.scratch) if self.theme.checkouts else None
        if self.software is not None:
            self.repository.spelled = self.software.spelled
        if self.theme.leases:
            self.repository.further.append(DOCUMENT)
        self.checks = Checks(self)
        self.network.ensemble.on_commit.append(self.checks.committed)
        self.machines: dict[str, Machine] = {}
        self.daemons: dict[str, Daemon] = {}
        self.processes: list[Process] = []
        self.ended_by_itself: set[Process] = set()
        self.metric: float | None = HEALTHY
        self.broken: frozenset[str] = frozenset()  # the versions of services whose checks are not OK
        self.script_failures = self.theme.failing if options.faults else 0.0
        if options.faults:
            self.network.distance = self.chance.choice(self.theme.distances)
        self.operations = (
            12 if self.theme.small_transactions or (options.faults and self.chance.random() < 0.3) else 2000
        )
        self.tenants = Tenants(self)
        self.operators = Operators(self)
        self.monitoring = self._new_monitoring()
        self.faults = Faults(self)
        self.attacker = Attacker(self)
        self.keys = RotatedKeys()
        self.programs = LoadedPrograms(self)

    @property
    def now(self) -> float:
        """Virtual seconds."""
        return self.network.scheduler.now

    def run(self) -> Result:
        """Run the simulation."""
        with (
            self.network.installed(),
            simulated_machines(self),
            trace_of_logs(self.trace if self._watch else None),
            mock.patch("zkdeployment.publishing.store.builder.OPERATIONS_LIMIT", self.operations),
            mock.patch("zkdeployment.agent.store.fleet.read_wanted", self.checks.read_wanted),
            mock.patch("zkdeployment.agent.daemon.deployment.read_plan", self.checks.read_plan),
            mock.patch.object(
                ZooKeeperFleet, "hand_on_work", self.checks.cut_off.handing_on(ZooKeeperFleet.hand_on_work)
            ),
        ):
            try:
                self._start()
                self.network.scheduler.run(self.now + self.options.faults + self.patience, self._is_over)
                self._judge()
            finally:
                self.network.scheduler.end_all(self.processes)
                if self._scratch is not None:
                    self._scratch.cleanup()
        return Result(
            self.options,
            self.checks.violations,
            self.now - 1000.0,
            self.checks.scripts,
            self.network.ensemble.requests,
            self.theme_name,
        )

    def new_process(self, name: str) -> Process:
        """Return a process, which is killed at the end of the simulation at the latest."""
        process = Process(name)
        process.crash_countdown = 0 if name in self.daemons else None
        self.processes.append(process)
        return process

    def add_machine(self, number: int) -> Machine:
        """Add a machine and start its agent."""
        name, role = f"h{number}", self.role_of[number]
        facts = {"tags": ("canary",)} if number == 0 else {}
        machine = Machine(self, Identity(name, f"{name}.example.com", role), **facts)
        self.machines[name] = machine
        machine.present = True
        machine.has_older_agent = self.theme.versions and self.chance.random() < 0.5
        self.daemons[name] = agent_daemon(self, machine)
        self.daemons[name].start()
        return machine

    def remove_machine(self, machine: Machine) -> None:
        """Switch a machine off for good."""
        self.trace(f"{machine.name} is switched off for good")
        machine.present = False
        self.checks.machine_left(machine)
        self.daemons[machine.name].retire()
        machine.switch_off()

    def change_role(self, machine: Machine, role: str) -> None:
        """Switch a machine off, and start its agent with another role in its configuration a minute later."""
        self.trace(f"{machine.name} gets the role {role}")
        daemon = self.daemons[machine.name]
        daemon.retire()
        machine.switch_off()

        def start() -> None:
            """Start the agent unless the machine was switched off for good."""
            if machine.present:
                machine.identity = replace(machine.identity, role=role)
                daemon.start()

        self.network.scheduler.after(60.0, start)

    def present_machines(self) -> list[Machine]:
        """Return the machines that are not switched off."""
        return [machine for machine in self.machines.values() if machine.present]

    # What machines and daemons ask

    def take_time(self, least: float, most: float) -> None:
        """Let the running thread wait for some time."""
        self.network.scheduler.sleep(self.chance.uniform(least, most))

    def script_seconds(self) -> float:
        """Return how long a script takes: not longer than the lock delay, except for themes with long scripts.

        Scripts of fleets with leases are short, so that many hosts are lent.
        """
        if self.theme.leases:
            return self.chance.choice([0.5, 2.0])
        if self.theme.long_scripts:
            return self.chance.choice([0.5, 8.0, 0.5 * self.options.lock_delay, 4 * self.options.lock_delay])
        return self.chance.choice([0.5, 2.0, 8.0, 0.5 * self.options.lock_delay])

    def script_fails(self, _machine: Machine) -> bool:
        """Decide whether a script fails."""
        return self.script_failures > 0 and self.chance.random() < self.script_failures

    def script_asks_for_reboot(self) -> bool:
        """Decide whether a script asks for a reboot, if its service permits that."""
        return self.theme.reboots and self.faults.are_active and self.chance.random() < 0.3

    def old_boots(self) -> int:
        """Return how many boots of a machine start the system from before its update; mostly none."""
        is_possible = self.theme.reboots and self.faults.are_active
        return self.chance.choice([1, 9]) if is_possible and self.chance.random() < 0.2 else 0

    def reach(self, name: str) -> None:
        """Reach a failpoint of a daemon, which may kill it."""
        process = self.network.scheduler.process
        if process is None or process.crash_countdown is None:
            return
        process.check()
        if name.endswith(":commit") and self.faults.are_active and self.chance.random() < self.theme.fatal_commits:
            self.trace(f"killed at {name}")
            self.network.scheduler.kill(process)
            if self.chance.random() < 0.7:
                author = self.new_process("author")
                self.network.scheduler.spawn(author, lambda: self.operators.attempt(self.operators.take_back))
            raise Killed
        if self.network.is_fatal_moment(process, name):
            self.trace(f"killed at {name}")
            self.network.scheduler.kill(process)
            raise Killed

    def syncer_point(self) -> None:
        """Reach a write of a syncer to its disk."""
        self.reach("a write of the syncer's memory")

    def trace(self, text: str) -> None:
        """Show a line of the trace."""
        if self._watch is not None:
            process = self.network.scheduler.process
            self._watch(f"{self.now - 1000:10.3f} {'-' if process is None else process.name:<12} {text}")

    # Inside

    def _start(self) -> None:
        self.operators.push_first()
        for name in ("syncer1", "syncer2"):
            self.daemons[name] = syncer_daemon(self, name)
        for name in ("coordinator1", "coordinator2"):
            self.daemons[name] = coordinator_daemon(self, name)
        for name in ("syncer1", "syncer2", "coordinator1", "coordinator2"):
            self.daemons[name].start()
        for number in range(self.options.hosts):
            self.add_machine(number)
        if self.theme.leases:
            self._start_pools()
        if self.monitoring is not None:
            self.monitoring.start()
        self.network.scheduler.spawn(self.new_process("operators"), self.operators.work)
        if self.options.faults:
            self.network.scheduler.spawn(self.new_process("faults"), self.faults.work)

    def _new_monitoring(self) -> Monitoring | None:
        """Return the monitoring systems; only fleets with checks load the service, which takes a second."""
        if not self.theme.checks:
            return None
        from simulation.monitoring import Monitoring  # noqa: PLC0415

        return Monitoring(self)

    def _start_pools(self) -> None:
        for name in WORKERS:
            self.daemons[name] = worker_daemon(self, name)
            self.daemons[name].start()
        self.network.scheduler.spawn(self.new_process("tenants"), self.tenants.work)

    def _is_over(self) -> bool:
        return bool(self.checks.violations) or self.operators.converged

    def _judge(self) -> None:
        for process, error in self.network.scheduler.errors:
            self.checks.fail(f"{process.name} ended with {type(error).__name__}: {error}")
        if not self.checks.violations and not self.operators.converged:
            self.checks.fail(f"the fleet did not converge: {self.operators.obstacle}")
        if not self.checks.violations:
            self.checks.check_end()
            self.history.converged()
