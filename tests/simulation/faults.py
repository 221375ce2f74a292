"""The faults of a seed: at random moments, so that they meet daemons wherever these wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulation.daemon_processes import Daemon
    from simulation.world import World

#: Kinds of faults and how often they come.
_WEIGHTS = {
    "kill": 8,
    "reboot": 3,
    "drop": 4,
    "expire": 6,
    "partition": 6,
    "long partition": 2,
    "outage": 1,
    "freeze": 4,
    "slow server": 3,
    "server down": 2,
    "clock step": 2,
    "lossy network": 3,
    "crashes": 4,
    "failing scripts": 4,
}


class Faults:
    """Brings faults until the operators end them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ended = False

    def work(self) -> None:
        """Bring one fault after another."""
        world = self._world
        pace = world.chance.choice([3.0, 15.0, 60.0])
        while not self._ended:
            world.network.scheduler.sleep(world.chance.expovariate(1 / pace))
            if not self._ended:
                kind = world.chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
                self.bring(kind, world.chance.choice([*world.daemons.values()]))

    def end(self) -> None:
        """End all faults."""
        self._ended = True
        self._world.script_failures = 0.0
        self._world.network.heal()
        self._world.trace("all faults end")

    def bring(self, kind: str, daemon: Daemon) -> None:
        """Bring a fault, to a daemon where it concerns one."""
        world, network, chance = self._world, self._world.network, self._world.chance
        process = daemon.process
        if process is None or not process.alive:
            return
        followers = [server for server in network.ensemble.servers if not server.leads]
        world.trace(f"fault: {kind} ({daemon.name})")
        match kind:
            case "kill":
                daemon.kill()
            case "reboot":
                daemon.kill()
                if daemon.name in world.machines:
                    world.machines[daemon.name].switch_off()
            case "drop":
                network.drop(process)
            case "expire":
                network.expire(process)
            case "partition":
                network.partition(process, chance.uniform(1, 60))
            case "long partition":
                network.partition(process, chance.uniform(60, 1500))
            case "outage":
                seconds = chance.choice([20.0, 120.0, 900.0])
                for other in world.daemons.values():
                    if other.process is not None and other.process.alive:
                        network.partition(other.process, seconds)
            case "freeze":
                network.freeze(process, chance.uniform(0.5, 90))
            case "slow server" if followers:
                network.slow_down(chance.choice(followers), chance.uniform(5, 60), chance.uniform(0.1, 8))
            case "server down" if followers:
                network.take_down(chance.choice(followers), chance.uniform(5, 60))
            case "clock step":
                process.clock_offset += chance.choice([-86_400.0, -60.0, 60.0, 86_400.0])
            case "lossy network":
                network.lost = chance.choice([0.0, 0.01, 0.05])
            case "crashes":
                network.crashes = chance.choice([0.0, 0.001, 0.005])
            case "failing scripts":
                world.script_failures = chance.choice([0.0, 0.05, 0.3])
