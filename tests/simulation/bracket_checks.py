"""Checks the brackets of role controllers: deployments run between the first and the last of their scripts.

Undeployments may come before the first script: that of a new controller is installed after them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulation.machine import Machine, ScriptCall


class BracketChecks:
    """The hosts that are in a bracket: ``starting-deployments`` has succeeded, ``ending-deployments`` has not."""

    def __init__(self, fail: Callable[[str], None]) -> None:
        self._fail = fail
        self._open: set[str] = set()

    def script_started(self, call: ScriptCall, *, is_controlled: bool) -> None:
        """Check a script; ``is_controlled``: the host's role has a controller."""
        name = call.machine.name
        if is_controlled and not (call.begins_bracket or call.undeploys) and name not in self._open:
            self._fail(f"{name} starts {call} outside the bracket of its role's controller")

    def script_ended(self, call: ScriptCall) -> None:
        """Note the ends of brackets."""
        if call.fails or not call.is_bracket:
            return
        if call.begins_bracket:
            self._open.add(call.machine.name)
        else:
            self._open.discard(call.machine.name)

    def version_recorded(self, machine: Machine, *, is_controlled: bool) -> None:
        """Check a host that has finished: its bracket must be closed."""
        if is_controlled and machine.name in self._open:
            self._fail(f"{machine.name} records a version before ending-deployments has run")
