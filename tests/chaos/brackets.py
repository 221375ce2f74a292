"""Checks the brackets of role controllers: deployments run between the first and the last of their scripts. Pure.

Undeployments may run before the first script, and those of services that are kept until the end after the last
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.observations import DEPLOY, STARTING

if TYPE_CHECKING:
    from chaos.observations import ScriptCall, ScriptEnded


class BracketChecks:
    """The hosts in a bracket: ``starting-deployments`` has succeeded, ``ending-deployments`` has not."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._failed: set[ScriptCall] = set()

    def began(self, call: ScriptCall, *, is_controlled: bool) -> list[str]:
        """Return the findings about a script; ``is_controlled``: the role of its host has a controller."""
        if is_controlled and call.action == DEPLOY and call.host not in self._open:
            return [f"{call} runs outside the bracket of its role's controller"]
        return []

    def failed(self, call: ScriptCall) -> None:
        """Note a script that is about to fail."""
        self._failed.add(call)

    def ended(self, ended: ScriptEnded) -> None:
        """Note the end of a script."""
        call = ended.call
        if call in self._failed or ended.killed or not call.is_bracket:
            self._failed.discard(call)
        elif call.action == STARTING:
            self._open.add(call.host)
        else:
            self._open.discard(call.host)

    def claimed(self, host: str, *, is_controlled: bool) -> list[str]:
        """Return the findings about a host that claims to have finished."""
        if host not in self._open:
            return []
        self._open.discard(host)
        return [f"{host} has finished before ending-deployments has run"] if is_controlled else []
