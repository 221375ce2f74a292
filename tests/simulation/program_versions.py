"""Two versions of agents in one fleet: some machines have an older agent, which knows no system nodes.

An agent loads its program when it starts, and starts again when another one is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.publishing.targets.services import assignment_from_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulation.machine import Machine, ScriptCall
    from simulation.repository import Commit
    from simulation.world import World
    from zkdeployment.base.deployment import Assignment

#: The keys of assignments that the older agent does not know.
_LATER_KEYS = frozenset({"system", "reboot"})


class LoadedPrograms:
    """The programs that agents loaded; stands in for ``Program`` in each of them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._older: set[str] = set()  # the machines whose agents run the older program

    def load(self, machine: Machine) -> None:
        """Note that an agent starts with the installed program."""
        (self._older.add if machine.has_older_agent else self._older.discard)(machine.name)

    def outdated(self) -> bool:
        """Whether the agent that asks runs another program than the installed one."""
        machine = self._world.machines[self._process]
        return machine.has_older_agent != (machine.name in self._older)

    def read_assignment(self, value: Any) -> Assignment:
        """Read a published assignment as the program of the running process does."""
        if self._process in self._older and isinstance(value, dict):
            value = {key: part for key, part in value.items() if key not in _LATER_KEYS}
        return assignment_from_json(value)

    @property
    def _process(self) -> str:
        process = self._world.network.scheduler.process
        return "" if process is None else process.name

    def check_script(self, call: ScriptCall, commit: Commit | None, fail: Callable[[str], None]) -> None:
        """Check that an older agent runs no script for a publication that it only half understands."""
        name = call.machine.name
        if commit is not None and name in self._older and commit.wanted(call.identity).system is not None:
            fail(f"the older agent of {name} runs {call} for {call.revision}, which has a system node for it")
