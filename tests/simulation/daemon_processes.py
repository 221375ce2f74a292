"""Runs the daemons of ``programs``, with the adapters of the machine replaced."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from unittest import mock

from simulation.analyses import SimulatedMetrics
from simulation.checkouts import MachineCheckouts
from simulation.leased_machines import IDLE
from simulation.machine import Machine, MachineFiles, MachineRunDirectory
from simulation.memory_files import Disk, MemoryPath, memory_files
from simulation.signatures import signed_fleet
from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.checks import daemon as checks_daemon
from zkdeployment.checks.settings import ChecksSettings
from zkdeployment.config.settings import Settings
from zkdeployment.pools.program import build_pool_worker
from zkdeployment.pools.settings import PoolsSettings
from zkdeployment.programs import agent as agent_wiring
from zkdeployment.programs import syncer as syncer_wiring
from zkdeployment.publishing.acts.commits import CommitOrder, CommitOutcome
from zkdeployment.publishing.settings import SyncSettings
from zkdeployment.rollouts import measuring
from zkdeployment.rollouts import program as coordinator_wiring
from zkdeployment.rollouts.settings import MetricsSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from simulation.green import Process
    from simulation.world import World
    from zkdeployment.base.daemon.control import Control

#: Modules that coordinators load late, when the names of Python's modules are no longer replaced in them.
_LATE = (checks_daemon, measuring)

#: The servers in the configurations of all daemons.
SERVERS = "zk1:2181,zk2:2181,zk3:2181"

#: Seconds until the supervisor starts a daemon again that ended.
_RESTART = 5.0

#: The processes of the workers of pools.
WORKERS = ("worker1", "worker2")

#: Seconds between two turns of the life cycle of checks, in fleets with and without checks.
_TURNS = {True: 20.0, False: 1200.0}


class Daemon:
    """A daemon under a supervisor, which starts it again until it is ``retired``."""

    def __init__(self, world: World, name: str, main: Callable[[Daemon], None]) -> None:
        self._world = world
        self.name = name
        self._main = main
        self.process: Process | None = None
        self.control: Control | None = None
        self.wanted = False

    def start(self) -> None:
        """Start the daemon."""
        self.wanted = True
        self._launch()

    def retire(self) -> None:
        """Kill the daemon for good."""
        self.wanted = False
        self.kill()

    def terminate(self) -> None:
        """Ask the daemon to end, as SIGTERM does; the supervisor starts it again."""
        if self.process is not None and self.process.alive and self.control is not None:
            self._world.network.scheduler.spawn(self.process, self.control.stop)

    def kill(self) -> None:
        """Kill the daemon; the supervisor starts it again."""
        if self.process is not None and self.process.alive:
            self._world.trace(f"{self.name} is killed")
            self._world.network.scheduler.kill(self.process)

    def _launch(self) -> None:
        if not self.wanted or (self.process is not None and self.process.alive):
            return
        self.control = None
        process = self.process = self._world.new_process(self.name)
        process.on_end.append(lambda: self._ended(process))
        self._world.network.scheduler.spawn(process, self._run)

    def _run(self) -> None:
        process = self._world.network.scheduler.process
        assert process is not None
        try:
            self._main(self)
        except ZkdeploymentError as error:
            self._world.trace(f"{self.name} ends: {error}")
        process.clock_offset = 0.0
        self._world.ended_by_itself.add(process)
        self._world.network.scheduler.kill(process)

    def _ended(self, process: Process) -> None:
        self._world.checks.agent_ended(process, was_killed=process not in self._world.ended_by_itself)
        self._world.network.scheduler.after(_RESTART, self._launch)


def agent_daemon(world: World, machine: Machine) -> Daemon:
    """Return the agent of a machine."""
    unnamed = Settings(
        source=Path("agent.cfg"),
        zookeeper=SERVERS,
        root=Path("/simulated") / machine.name,
        named=True,
        run_directory=Path("/simulated") / machine.name,
        lock_delay=world.options.lock_delay,
        publishers=Path("publishers") if world.theme.signed else None,
        **machine.facts,
    )

    def main(daemon: Daemon) -> None:
        world.programs.load(machine)
        identity = machine.identity
        role = f"lease:{IDLE}" if machine.is_leasable else identity.role
        settings = replace(unnamed, host_id=identity.id, host_name=identity.name, role=role)
        with agent_wiring.build_agent(settings, packages=machine.packages) as (agent, daemon.control):
            agent.run()

    return Daemon(world, machine.name, main)


def syncer_daemon(world: World, name: str) -> Daemon:
    """Return a syncer, whose memory is on a disk of its own."""
    disk = Disk(lambda _point: world.syncer_point())
    sync = SyncSettings(url="simulated", tree_directory=MemoryPath(disk, "tree"), history=20)  # type: ignore[arg-type]
    settings = Settings(
        source=Path("sync.cfg"),
        zookeeper=SERVERS,
        root=Path("/simulated"),
        sections={"sync": sync},
        publishers=Path("publishers") if world.theme.signed else None,
    )

    def main(daemon: Daemon) -> None:
        with syncer_wiring.build_follower(settings) as (follower, daemon.control):
            follower.run(30.0)

    return Daemon(world, name, main)


def coordinator_daemon(world: World, name: str) -> Daemon:
    """Return a coordinator."""
    settings = Settings(
        source=Path("coordinate.cfg"),
        zookeeper=SERVERS,
        root=Path("/simulated"),
        sections={
            "checks": ChecksSettings(interval=_TURNS[world.theme.checks]),
            **({"metrics main": MetricsSettings(url="http://simulated")} if world.theme.analyses else {}),
        },
    )

    def main(daemon: Daemon) -> None:
        with coordinator_wiring.build_coordinator(settings) as (coordinator, daemon.control):
            coordinator.run()

    return Daemon(world, name, main)


def worker_daemon(world: World, name: str) -> Daemon:
    """Return a worker of the pools."""
    settings = Settings(
        source=Path("pools.cfg"), zookeeper=SERVERS, root=Path("/simulated"), sections={"pools": PoolsSettings()}
    )

    def main(daemon: Daemon) -> None:
        with build_pool_worker(settings) as (worker, daemon.control):
            worker.run()

    return Daemon(world, name, main)


class _Commits:
    """The branch as a place for the coordinator's rollbacks (what these use of ``ports.TreeCommits``)."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.trailer = world.repository.trailer
        self.contains = world.repository.contains
        self.files = world.repository.files

    def commit(self, order: CommitOrder, *, dry_run: bool = False) -> CommitOutcome:
        """Push the tree of an earlier revision, once for each rollout."""
        assert order.once is not None
        assert not dry_run
        for revision, rollout in self._world.repository.rollbacks.items():
            if rollout == order.once[1]:
                return CommitOutcome(revision, changed=True)
        return CommitOutcome(self._world.operators.roll_back(str(order.back_to), order.once[1]), changed=True)


class _Executor:
    """Stands in for ``ThreadPoolExecutor``: it calls one function after the other."""

    def __init__(self, _size: int) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, function: Callable[..., Any], values: Iterable[Any]) -> list[Any]:
        """Return the results."""
        return [function(value) for value in values]


class _Nothing:
    """An adapter that is not used."""

    def __init__(self, *_args: object, **_options: object) -> None:
        pass

    def recover(self) -> None:
        """Do nothing."""

    def load(self) -> None:
        """Return nothing."""

    def save(self, _value: object) -> None:
        """Do nothing."""

    def clear(self) -> None:
        """Do nothing."""

    def send(self, *_args: object, **_options: object) -> None:
        """Do nothing."""


@contextlib.contextmanager
def simulated_machines(world: World) -> Iterator[None]:
    """Let ``programs`` build daemons on the machines of a world during the block."""

    def run_directory(path: Path, _root: Path | None = None) -> MachineRunDirectory:
        return MachineRunDirectory(world.machines[path.name])

    def files(root: Path) -> MachineFiles:
        return MachineFiles(world.machines[root.name])

    def scripts(*, environment: dict[str, str], tick: Callable[[], None], **_options: Any) -> Any:
        machine = world.machines[environment["ZKDEPLOYMENT_HOST_ID"]]
        machine.scripts.tick = tick
        return machine.scripts

    def checkouts(root: Path, _sources: object) -> Any:
        return (
            _Nothing() if world.software is None else MachineCheckouts(world.machines[root.name], world.software)
        )

    replaced: dict[str, Any] = {
        "programs.agent.RunDirectory": run_directory,
        "programs.agent.Filesystem": files,
        "programs.agent.SystemFiles": lambda root, *_options: world.machines[root.name].system,
        "programs.agent.ScriptRunner": scripts,
        "pools.host.leases.AuthorizedKeys": lambda root: world.machines[root.name].keys,
        "pools.host.leases.HostTraces": lambda root, *_arguments, **_options: world.machines[root.name].traces,
        "pools.program.SystemdNotifier": _no_supervisor,
        "pools.program.end_abandoned_playbooks": lambda: None,
        "pools.program.arm_failpoints": lambda _settings: None,
        "pools.daemon.ThreadPoolExecutor": _Executor,
        "programs.agent._PROGRAM": world.programs,
        "publishing.targets.services.assignment_from_json": world.programs.read_assignment,
        "programs.agent.CheckoutPlaces": checkouts,
        "programs.agent.SmtpMailer": _Nothing,
        "programs.agent._home": lambda: "/root",
        "programs.agent.arm_failpoints": lambda _settings: None,
        "programs.agent.SystemdNotifier": _no_supervisor,
        "programs.syncer.SystemdNotifier": _no_supervisor,
        "cli.leader.SystemdNotifier": _no_supervisor,
        "rollouts.measuring.MetricsServer": lambda _settings: SimulatedMetrics(world),
        "rollouts.program.open_commits": lambda _settings: contextlib.nullcontext(_Commits(world)),
        "programs.syncer.open_source": lambda *_args, **_options: world.repository,
        "programs.syncer.unfinished": lambda _directory: contextlib.nullcontext(),
        **signed_fleet(world),
        **({} if world.monitoring is None else {"checks.daemon.HttpPokeSender": lambda: world.monitoring}),
        "base.daemon.failpoints.reach": world.reach,
        "agent.daemon.deployment.reach": world.reach,
    }
    with memory_files(), contextlib.ExitStack() as stack:
        for name, value in replaced.items():
            stack.enter_context(mock.patch(f"zkdeployment.{name}", value))
        yield


def _no_supervisor() -> SystemdNotifier:
    return SystemdNotifier({})
