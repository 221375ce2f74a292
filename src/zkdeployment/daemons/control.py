"""What signals and watches may do to a daemon: wake it, and ask it to end."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

from zkdeployment.errors import ShutdownError

if TYPE_CHECKING:
    from zkdeployment.ports.process import Clock

#: Seconds that the step under way has to end when the daemon is asked to.
GRACE = 30.0


class Control:
    """Wakes the daemon's one thread; its methods are safe in signal handlers and on any thread.

    A step under way when ``stop`` is called has ``grace`` seconds to end; that may be changed before.
    """

    def __init__(self, clock: Clock, *, grace: float = GRACE) -> None:
        self._clock = clock
        self.grace = grace
        self._reload = False
        self._deadline: float | None = None
        # Unlike an Event, this queue may be used by a signal handler that interrupts a thread waiting on it.
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()

    def wake(self) -> None:
        """Let ``wait`` return."""
        self._wakes.put(None)

    def stop(self) -> None:
        """Ask the daemon to end."""
        if self._deadline is None:
            self._deadline = self._clock.monotonic() + self.grace
        self.wake()

    def reload(self) -> None:
        """Ask the daemon to read its configuration again."""
        self._reload = True
        self.wake()

    @property
    def reloading(self) -> bool:
        """Whether ``reload`` was called and ``take_reload`` was not."""
        return self._reload

    def take_reload(self) -> bool:
        """Whether ``reload`` was called since the last time."""
        asked, self._reload = self._reload, False
        return asked

    def wait(self, timeout: float) -> bool:
        """Return when woken (several wakes count as one), at once if that happened before, or at the timeout.

        Says whether it was woken.
        """
        woken = self.stopping
        try:
            self._wakes.get(timeout=0 if self.stopping else timeout)
            woken = True
            while True:
                self._wakes.get_nowait()
        except queue.Empty:
            return woken

    @property
    def stopping(self) -> bool:
        """Whether the daemon is to start nothing new."""
        return self._deadline is not None

    @property
    def overdue(self) -> bool:
        """Whether the grace for what was under way is over."""
        return self._deadline is not None and self._clock.monotonic() > self._deadline

    def check(self) -> None:
        """Raise ``ShutdownError`` if the daemon is to start nothing new."""
        if self.stopping:
            raise ShutdownError("asked to end")
