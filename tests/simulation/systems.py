"""Operating systems of simulated machines: system nodes of trees, updates, and reboots that may go wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from simulation.green import EPOCH
from simulation.memory_files import MemoryPath
from support.builders import make_package
from zkdeployment.agent.files.system_files import SystemFiles
from zkdeployment.base.errors import RebootError
from zkdeployment.base.system import RebootFacts, RebootRule

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from simulation.machine import Machine
    from zkdeployment.agent.adapters import PackageManager
    from zkdeployment.base.machine.reboots import SystemState
    from zkdeployment.base.system import WantedSystem

#: The package that stands for the packages of an operating system; its version is the release of the system.
OS = make_package("glibc", "1.0")

#: The packages of each release.
RELEASES = {version: (replace(OS, version=version),) for version in ("1.0", "2.0", "3.0")}

#: What follows from the reboot command while there are faults, and how often: the machine comes back, comes back
#: after the deadline or only when an operator starts it, does not reboot, or the command fails.
OUTCOMES = {"back": 12, "late": 3, "lost": 2, "ignored": 2, "refused": 1}

#: Seconds until a reboot is a failure.
TIMEOUTS = (60, 300)

#: The names of the files that are kept when a boot clears the run directory.
DURABLE = frozenset({"system", "lease", "attempt", "published", "failure"})


@dataclass(frozen=True)
class SystemPlan:
    """A system node as a tree has it."""

    release: str
    targets: tuple[str, ...]
    reboot: RebootRule = RebootRule.IF_NEEDED
    update: str = "all"
    generation: int = 1
    timeout: int = TIMEOUTS[0]

    def render(self, name: str) -> Iterator[str]:
        """Yield the lines of the node."""
        yield f"  /{name} : system"
        yield f"    release = '{self.release}'"
        yield f"    update = '{self.update}'"
        yield f"    reboot = '{self.reboot.value}'"
        yield f"    generation = {self.generation}"
        yield f"    reboot_timeout = {self.timeout}"
        yield "    /deploy"
        yield from (f"      /{target}" for target in self.targets)

    def changed(self, chance: Random) -> SystemPlan:
        """Return the node after a change by an operator."""
        if chance.random() < 0.6:
            release = chance.choice([each for each in RELEASES if each != self.release])
            return replace(self, release=release, update="all")
        return replace(
            self,
            reboot=chance.choice([RebootRule.IF_NEEDED, RebootRule.ALWAYS, RebootRule.ALWAYS, RebootRule.NEVER]),
            update=chance.choice(["all", "none"]),
            generation=self.generation + 1,
            timeout=chance.choice(TIMEOUTS),
        )


def new_systems(chance: Random, names: list[str]) -> dict[str, SystemPlan]:
    """Return two system nodes, which have all targets between them."""
    mixed = chance.sample(names, len(names))
    first = chance.randint(0, len(mixed))
    return {
        name: SystemPlan(chance.choice([*RELEASES]), tuple(sorted(targets)), chance.choice([*RebootRule]))
        for name, targets in (("a", mixed[:first]), ("b", mixed[first:]))
        if targets
    }


class MachineSystem(SystemFiles):
    """The operating system of a machine, which survives its agents. ``is_off`` is whether the machine is down."""

    def __init__(self, machine: Machine) -> None:
        root = MemoryPath(machine.disk, "var")
        super().__init__(root, may_reboot=True)  # type: ignore[arg-type]
        self._machine = machine
        self.is_off = False
        self.updated = 0.0
        self._is_going_down = False
        self._boots = 1
        self._booted = 0.0
        self._settled = 0.0
        self._old_boots = 0  # how many more boots start the system from before an update
        self._running = OS.version

    def boot_id(self) -> str:
        """Return the id of the present boot."""
        return f"{self._machine.name}-{self._boots}"

    def facts(self, packages: PackageManager, *, asks_dnf: bool = True) -> RebootFacts:  # noqa: ARG002  no dnf here
        """Return the facts that decide whether the machine needs a reboot."""
        booted = EPOCH + self._booted
        return RebootFacts(self.boot_id(), booted, "", changed=packages.installed_since(booted))

    @property
    def changed(self) -> frozenset[str]:
        """The installed packages that do not run."""
        is_running = self._machine.version_of(OS.name) == self._running
        return frozenset() if is_running else frozenset({OS.name})

    def save(self, state: SystemState) -> None:
        """Record what the host has completed; check a completed system node."""
        before = self.state()
        settled = state.updated if state.is_settled else None
        is_new = settled is not None and not (before.is_settled and settled == before.updated)
        if settled is not None and is_new:
            self._check_settled(settled)
        super().save(state)
        if is_new:
            self._settled = self._machine.world.now

    def problems(self, wanted: WantedSystem) -> Iterator[str]:
        """Yield what the machine lacks of its system node."""
        have = self._machine.version_of(OS.name)
        if wanted.update != "none" and have != wanted.release:
            yield f"the release is {have}, not {wanted.release}"
        if wanted.reboot is not RebootRule.NEVER and self._settled < self.updated:
            yield f"the release is {have} since {self.updated:.0f}, and its reboot is open"

    def reboot(self) -> None:
        """Call the reboot command, which takes effect some seconds later, or does not."""
        machine, world = self._machine, self._machine.world
        machine.point("reboot")
        machine.before_change("boot")
        outcome = "back"
        if world.faults.are_active:
            outcome = world.chance.choices(list(OUTCOMES), list(OUTCOMES.values()))[0]
        world.trace(f"reboot command: {outcome}")
        if outcome == "refused":
            raise RebootError("the host cannot reboot: the command failed")
        world.checks.reboots.commanded(machine)
        if outcome != "ignored" and not self._is_going_down:
            self._is_going_down = True
            timeout = TIMEOUTS[-1]
            longest = {"back": 0.7 * TIMEOUTS[0], "late": 4.0 * timeout}.get(outcome)
            seconds = None if longest is None else world.chance.uniform(0.2, 1.0) * longest
            world.network.scheduler.after(world.chance.uniform(0.1, 8.0), lambda: self._shut_down(seconds))
        machine.point("rebooting")

    def _shut_down(self, seconds: float | None) -> None:
        """End the agent, then the machine, which boots after some ``seconds``, or never."""
        if not (self._machine.present and self._is_going_down):
            return
        world = self._machine.world
        if world.chance.random() < 0.5:
            world.daemons[self._machine.name].terminate()
        world.network.scheduler.after(world.chance.uniform(0.0, 4.0), lambda: self._switch_off(seconds))

    def _switch_off(self, seconds: float | None) -> None:
        machine, world = self._machine, self._machine.world
        if not (machine.present and self._is_going_down):
            return
        world.trace(f"{machine.name} is down")
        self.is_off, self._is_going_down = True, False
        world.daemons[machine.name].retire()
        machine.switch_off()
        world.checks.reboots.went_down(machine)
        if seconds is not None:
            world.network.scheduler.after(seconds, self.power_on)

    def power_on(self) -> None:
        """Boot the machine if it is down, mostly with an empty run directory."""
        machine = self._machine
        if self.is_off and machine.present:
            self.is_off = False
            if machine.world.chance.random() < 0.7:
                machine.lose_run_directory()
            self.restarted()
            machine.world.daemons[machine.name].start()

    def restarted(self) -> None:
        """Note that the machine boots, perhaps after a power cut."""
        self._machine.world.trace(f"{self._machine.name} boots")
        self._is_going_down = False
        self._boots += 1
        self._booted = self._machine.world.now
        self._old_boots = self._old_boots - 1 if self._old_boots else self._machine.world.old_boots()
        if not self._old_boots:
            self._running = self._machine.version_of(OS.name) or OS.version
        self._machine.world.checks.reboots.booted(self._machine)

    def _check_settled(self, system: WantedSystem) -> None:
        """Check that a machine has booted before its system node is complete."""
        since = max(self.updated, self._settled)
        if system.reboot is RebootRule.ALWAYS and self._booted < since:
            self._machine.world.checks.fail(
                f"{self._machine.name} completes {system.path} without a boot since {since:.0f}"
            )
        if system.reboot is RebootRule.IF_NEEDED and self.changed:
            self._machine.world.checks.fail(f"{self._machine.name} completes {system.path}, but needs a reboot")
