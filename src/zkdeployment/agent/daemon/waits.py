"""The waits of an agent between its cycles and within them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zkdeployment.base.daemon.cycles import jittered

if TYPE_CHECKING:
    from zkdeployment.agent.adapters import AgentAdapters
    from zkdeployment.base.daemon.control import Control

#: The shortest wait for a cycle, in seconds.
_SHORTEST = 0.05

_CYCLE = 300.0  # seconds until ZooKeeper is read again although no watch fired
_CAP_PAUSE = 10.0  # seconds between two checks of the output of programs that scripts left running


class AgentWaits:
    """Waits while it notifies the watchdog and caps the output of programs that scripts left running."""

    def __init__(self, adapters: AgentAdapters, control: Control) -> None:
        self._adapters = adapters
        self._control = control

    def wake(self) -> None:
        """End the current wait, or the next one; may be called on any thread."""
        self._control.wake()

    def wait_for_wake(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for a wake-up and return whether there was one."""
        end = self._adapters.clock.monotonic() + seconds
        woken = False
        while not woken and (left := end - self._adapters.clock.monotonic()) > 0:
            self._adapters.notifier.watchdog()
            self._adapters.scripts.cap_outputs()
            woken = self._control.wait(min(left, self._adapters.notifier.pace, _CAP_PAUSE))
        self._adapters.notifier.watchdog()
        return woken

    def wait_for_cycle(self, end: float | None = None) -> bool:
        """Wait about five minutes for a wake-up and return whether there was one.

        The wait ends at ``end``, in seconds since the epoch, as if there was a wake-up.
        """
        seconds = jittered(_CYCLE)
        left = math.inf if end is None else max(_SHORTEST, end - self._adapters.clock.now())
        return self.wait_for_wake(min(seconds, left)) or left < seconds

    def hold_back(self, seconds: float) -> None:
        """Wait ``seconds``, or until the agent is asked to end."""
        end = self._adapters.clock.monotonic() + seconds
        while not self._control.stopping and (left := end - self._adapters.clock.monotonic()) > 0:
            self.wait_for_wake(left)
