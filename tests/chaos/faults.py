"""Brings the faults of a plan to a world, and ends them."""

from __future__ import annotations

import signal
from random import Random
from typing import TYPE_CHECKING

from chaos.observations import AgentEnded, AgentThawed
from chaos.trace import uptime
from zkdeployment.sandbox.layout import write_private

if TYPE_CHECKING:
    from chaos.observer import Observer
    from chaos.plan import Planned
    from chaos.world import World

#: Steps of a clock, in seconds.
_STEPS = (-86_400.0, -60.0, 60.0, 86_400.0)

#: Seconds of a slow script: always less than the lock delay.
_SLOW = (1.0, 2.0, 3.0)

#: Seconds by which a slow network delays data, in each direction.
_DELAYS = (0.1, 0.4)


class Faults:
    """Brings faults: each kind has a method that begins it, and one that ends it."""

    def __init__(self, world: World, observer: Observer) -> None:
        self._world = world
        self._observer = observer

    def bring(self, fault: Planned) -> None:
        """Begin a fault."""
        getattr(self, f"_begin_{_name(fault)}")(fault)

    def end(self, fault: Planned) -> None:
        """End a fault."""
        getattr(self, f"_end_{_name(fault)}")(fault)

    # Processes

    def _begin_kill(self, fault: Planned) -> None:
        self._kill(fault.target)

    def _end_kill(self, fault: Planned) -> None:
        if not self._world.is_lost(fault.target):  # the end of that fault starts the host
            self._world.sandbox.start([fault.target])

    def _begin_power_cut(self, fault: Planned) -> None:
        self._kill(fault.target, with_scripts=True)
        self._world.cut_power(fault.target)

    def _end_power_cut(self, fault: Planned) -> None:
        if not self._world.is_lost(fault.target):
            self._world.switch_on(fault.target)

    def _begin_lost_reboots(self, fault: Planned) -> None:
        self._world.lost_file(fault.target).touch()

    def _end_lost_reboots(self, fault: Planned) -> None:
        self._world.lost_file(fault.target).unlink(missing_ok=True)
        self._world.switch_on(fault.target)

    def _begin_freeze(self, fault: Planned) -> None:
        self._world.signal(fault.target, signal.SIGSTOP)

    def _end_freeze(self, fault: Planned) -> None:
        self._world.signal(fault.target, signal.SIGCONT)
        if fault.target in self._world.hosts:
            self._observer.see(AgentThawed(uptime(), fault.target))

    def _begin_kill_server(self, fault: Planned) -> None:
        self._world.server(fault.target).kill()

    def _end_kill_server(self, fault: Planned) -> None:
        self._world.server(fault.target).start(wait=False)

    _begin_freeze_server = _begin_freeze
    _end_freeze_server = _end_freeze

    def _kill(self, name: str, *, with_scripts: bool = False) -> None:
        self._world.sandbox.stop([name], kill=True)
        if name not in self._world.hosts:
            return
        killed = self._world.kill_script(name) if with_scripts else None
        self._observer.read_record()
        if killed is not None:
            self._observer.script_killed(name, killed)
        self._observer.see(AgentEnded(uptime(), name, self._observer.kept_failure(name)))

    # The network

    def _begin_cut(self, fault: Planned) -> None:
        for proxy in self._world.proxies[fault.target]:
            proxy.cut()

    def _begin_partition(self, fault: Planned) -> None:
        for proxy in self._world.proxies[fault.target]:
            proxy.freeze()

    def _begin_lost_answers(self, fault: Planned) -> None:
        for proxy in self._world.proxies[fault.target]:
            proxy.lose(requests=False)

    def _begin_slow_network(self, fault: Planned) -> None:
        delay = Random(fault.choice).choice(_DELAYS)
        for proxy in self._world.proxies[fault.target]:
            proxy.delay(delay)

    def _end_cut(self, fault: Planned) -> None:
        for proxy in self._world.proxies[fault.target]:
            proxy.heal()

    _end_partition = _end_lost_answers = _end_slow_network = _end_cut

    # Hosts

    def _begin_full_run_directory(self, fault: Planned) -> None:
        self._world.fill(self._world.run(fault.target))

    def _end_full_run_directory(self, fault: Planned) -> None:
        self._world.empty(self._world.run(fault.target))

    def _begin_full_disk(self, fault: Planned) -> None:
        self._world.fill(self._world.root(fault.target))

    def _end_full_disk(self, fault: Planned) -> None:
        self._world.empty(self._world.root(fault.target))

    def _begin_failing_scripts(self, fault: Planned) -> None:
        (self._world.shared / f"fail-{fault.target}").touch()

    def _end_failing_scripts(self, fault: Planned) -> None:
        (self._world.shared / f"fail-{fault.target}").unlink(missing_ok=True)

    def _begin_slow_scripts(self, fault: Planned) -> None:
        write_private(self._world.shared / f"slow-{fault.target}", f"{Random(fault.choice).choice(_SLOW)}\n")

    def _end_slow_scripts(self, fault: Planned) -> None:
        (self._world.shared / f"slow-{fault.target}").unlink(missing_ok=True)

    def _begin_clock_step(self, fault: Planned) -> None:
        self._world.step_clock(fault.target, Random(fault.choice).choice(_STEPS))

    def _end_clock_step(self, fault: Planned) -> None:
        self._world.step_clock(fault.target, None)


def _name(fault: Planned) -> str:
    return fault.kind.replace(" ", "_")
