"""The faults of a seed: at random moments, so that they meet daemons wherever these wait."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from simulation.analyses import HEALTHY, UNHEALTHY
from simulation.repository import VERSIONS
from simulation.themes import FAULTS
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulation.daemon_processes import Daemon
    from simulation.ensemble import Server
    from simulation.green import Process
    from simulation.world import World


#: Faults of servers, of the network or of the whole fleet, whatever daemon is named.
_OF_ALL = frozenset(
    {
        "outage",
        "denied writes",
        "slow server",
        "server down",
        "election",
        "lossy network",
        "crashes",
        "failing scripts",
        "attack",
        "restart all",
        "metrics",
        "no coordinator",
        "broken version",
        "coordinator clock",
    }
)

#: The nodes, besides those of hosts, whose writes are denied.
_GUARDED = (paths.AGENT_LOCKS, paths.BUSY, paths.STOPS, paths.TARGETS, paths.INVENTORY, paths.HISTORY)

#: One daemon of so many has a fault at the same time, in large fleets.
_DAEMONS = 500


class Faults:
    """Brings faults until the operators end them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._network, self._chance = world.network, world.chance
        self._ended = False

    @property
    def are_active(self) -> bool:
        """Whether there are faults."""
        return not self._ended and self._world.options.faults > 0

    def work(self) -> None:
        """Bring one fault after another."""
        world = self._world
        pace = world.theme.pace * world.chance.choice([3.0, 15.0, 60.0])
        weights = {**FAULTS, **world.theme.faults}
        while not self._ended:
            world.network.scheduler.sleep(world.chance.expovariate(1 / pace))
            if not self._ended:
                kind = world.chance.choices(list(weights), list(weights.values()))[0]
                count = 1 if kind in _OF_ALL else max(1, len(world.daemons) // _DAEMONS)
                for victim in list(self._victims(count)):
                    self.bring(kind, victim)

    def _victims(self, count: int) -> Iterator[Daemon]:
        """Yield so many daemons: each is any one, or often the agent of a machine whose script runs."""
        world = self._world
        working = [world.daemons[machine.name] for machine in world.present_machines() if machine.running]
        daemons = [*world.daemons.values()]
        for _ in range(count):
            is_working = working and world.chance.random() < 0.4
            yield world.chance.choice(working if is_working else daemons)

    def end(self) -> None:
        """End all faults; people correct the clocks, without which syncers sign nothing."""
        self._ended = True
        for daemon in self._world.daemons.values():
            if daemon.process is not None:
                daemon.process.clock_offset = 0.0
        self._world.script_failures = 0.0
        self._world.metric = HEALTHY
        self._world.broken = frozenset()
        self._world.network.heal()
        self._world.trace("all faults end")

    def bring(self, kind: str, daemon: Daemon) -> None:
        """Bring a fault, to a daemon where it concerns one."""
        process = daemon.process
        if process is not None and process.alive:
            self._world.trace(f"fault: {kind} ({daemon.name})")
            getattr(self, f"_{kind.replace(' ', '_')}")(daemon, process)

    # One method for each kind

    def _kill(self, daemon: Daemon, _process: Process) -> None:
        daemon.kill()

    def _terminate(self, daemon: Daemon, _process: Process) -> None:
        daemon.terminate()

    def _restart_all(self, _daemon: Daemon, _process: Process) -> None:
        for machine in self._world.present_machines():
            self._world.daemons[machine.name].terminate()

    def _metrics(self, _daemon: Daemon, _process: Process) -> None:
        self._world.metric = self._chance.choice([HEALTHY, HEALTHY, UNHEALTHY, None])

    def _broken_version(self, _daemon: Daemon, _process: Process) -> None:
        self._world.broken = frozenset(self._chance.sample(VERSIONS, self._chance.choice([0, 1, 1, 2])))

    def _coordinator_clock(self, _daemon: Daemon, _process: Process) -> None:
        """Let the coordinators be ahead of those that take over some time later."""
        for daemon in (self._world.daemons[name] for name in ("coordinator1", "coordinator2")):
            if daemon.process is not None:
                daemon.process.clock_offset += 90.0
            self._network.scheduler.after(self._chance.uniform(10.0, 80.0), daemon.kill)

    def _no_coordinator(self, _daemon: Daemon, _process: Process) -> None:
        seconds = self._chance.choice([70.0, 200.0, 600.0])
        for daemon in (self._world.daemons[name] for name in ("coordinator1", "coordinator2")):
            daemon.retire()
            self._network.scheduler.after(seconds, daemon.start)

    def _full_disk(self, daemon: Daemon, _process: Process) -> None:
        if daemon.name in self._world.machines:
            disk = self._world.machines[daemon.name].disk
            disk.is_full = True
            self._network.scheduler.after(self._chance.uniform(1, 120), disk.empty)

    def _reboot(self, daemon: Daemon, _process: Process) -> None:
        daemon.kill()
        if daemon.name in self._world.machines:
            machine = self._world.machines[daemon.name]
            machine.switch_off()
            machine.system.restarted()

    def _lost_run_directory(self, daemon: Daemon, _process: Process) -> None:
        self.lose_run_directory(daemon.name)

    def _lost_log_directory(self, daemon: Daemon, _process: Process) -> None:
        if daemon.name in self._world.machines:
            shutil.rmtree(self._world.machines[daemon.name].logs, ignore_errors=True)

    def lose_run_directory(self, name: str) -> None:
        """Reboot a machine without its run directory."""
        machine = self._world.machines.get(name)
        if machine is not None and machine.present:
            self._world.daemons[name].kill()
            machine.switch_off()
            machine.lose_run_directory()
            machine.system.restarted()

    def _drop(self, _daemon: Daemon, process: Process) -> None:
        self._network.drop(process)

    def _expire(self, _daemon: Daemon, process: Process) -> None:
        self._network.expire(process)

    def _partition(self, _daemon: Daemon, process: Process) -> None:
        self._network.partition(process, self._chance.uniform(1, 60))

    def _long_partition(self, _daemon: Daemon, process: Process) -> None:
        self._network.partition(process, self._chance.uniform(60, 1500))

    def _outage(self, _daemon: Daemon, _process: Process) -> None:
        seconds = self._chance.choice([20.0, 120.0, 900.0])
        for other in self._world.daemons.values():
            if other.process is not None and other.process.alive:
                self._network.partition(other.process, seconds)

    def _freeze(self, _daemon: Daemon, process: Process) -> None:
        self._network.freeze(process, self._chance.uniform(0.5, 90))

    def _slow_server(self, _daemon: Daemon, _process: Process) -> None:
        for server in self._follower():
            self._network.slow_down(server, self._chance.uniform(5, 60), self._chance.uniform(0.1, 8))

    def _server_down(self, _daemon: Daemon, _process: Process) -> None:
        for server in self._follower():
            self._network.take_down(server, self._chance.uniform(5, 60))

    def _election(self, _daemon: Daemon, _process: Process) -> None:
        self._network.elect(self._chance.choice([0.2, 2.0, 20.0]))

    def _clock_step(self, _daemon: Daemon, process: Process) -> None:
        process.clock_offset += self._chance.choice([-86_400.0, -60.0, 60.0, 86_400.0])

    def _lossy_network(self, _daemon: Daemon, _process: Process) -> None:
        self._network.lost = self._chance.choice([0.0, 0.01, 0.05])

    def _crashes(self, _daemon: Daemon, _process: Process) -> None:
        self._network.crashes = self._chance.choice([0.0, 0.001, 0.005])

    def _attack(self, _daemon: Daemon, _process: Process) -> None:
        self._world.attacker.strike()

    def _denied_writes(self, daemon: Daemon, _process: Process) -> None:
        path = self._chance.choice([paths.HOSTS, f"{paths.HOSTS}/{daemon.name}", *_GUARDED])
        self._network.deny(path, self._chance.choice([5.0, 60.0, 300.0]))
        self._world.trace(f"writes of {path} are denied")

    def _forged_node(self, daemon: Daemon, _process: Process) -> None:
        if daemon.name in self._world.machines:
            daemon.kill()
            self._world.attacker.forge_node(daemon.name)

    def _failing_scripts(self, _daemon: Daemon, _process: Process) -> None:
        self._world.script_failures = self._chance.choice([self._world.theme.failing, 0.05, 0.3])

    def _follower(self) -> list[Server]:
        """Return a server that does not lead, if there is one."""
        followers = [server for server in self._network.ensemble.servers if not server.leads]
        return [self._chance.choice(followers)] if followers else []
