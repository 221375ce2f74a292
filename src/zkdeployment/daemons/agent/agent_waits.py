"""The waits of an agent's thread: for a wake-up, for the next regular cycle, for a random delay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.daemons.jitter import jittered, spread

if TYPE_CHECKING:
    from zkdeployment.daemons.agent.agent_adapters import AgentAdapters
    from zkdeployment.daemons.control import Control

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

    def wait_for_cycle(self) -> bool:
        """Wait about five minutes for a wake-up and return whether there was one."""
        return self.wait_for_wake(jittered(_CYCLE))

    def hold_back(self, seconds: float) -> None:
        """Wait ``seconds``; only a request to end shortens that."""
        end = self._adapters.clock.monotonic() + seconds
        while not self._control.stopping and (left := end - self._adapters.clock.monotonic()) > 0:
            self.wait_for_wake(left)

    def spread_out(self, seconds: float) -> None:
        """Hold back for a random part of ``seconds``, after a change that woke all hosts."""
        self.hold_back(spread(seconds))

    def spread_out_until_wake(self, seconds: float) -> None:
        """Wait for a wake-up during a random part of ``seconds``."""
        self.wait_for_wake(spread(seconds))
