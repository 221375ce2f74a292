"""Requests of signals and watches: how daemons obey them, and how they end a command with its cleanup."""

from __future__ import annotations

import queue
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ShutdownError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from zkdeployment.base.machine.clock import Clock

#: Seconds that the step in progress may still take when the daemon is asked to end.
GRACE = 30.0


class Control:
    """Passes requests to the daemon's main thread; all methods are safe in signal handlers and on any thread.

    A step in progress when ``stop`` is called may take ``grace`` more seconds; set ``grace`` before that.
    """

    def __init__(self, clock: Clock, *, grace: float = GRACE) -> None:
        self._clock = clock
        self.grace = grace
        self._reload = False
        self._deadline: float | None = None
        # Unlike an Event, this queue may be used by a signal handler that interrupts a thread waiting on it.
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()

    def wake(self) -> None:
        """End the current call of ``wait``, or the next call if none is active."""
        self._wakes.put(None)

    def stop(self) -> None:
        """Ask the daemon to end."""
        if self._deadline is None:
            self._deadline = self._clock.monotonic() + self.grace
        self.wake()

    def reload(self) -> None:
        """Ask the daemon to reload its configuration."""
        self._reload = True
        self.wake()

    @property
    def reloading(self) -> bool:
        """Whether a request by ``reload`` is still pending."""
        return self._reload

    def take_reload(self) -> bool:
        """Return whether a reload was requested since the last call, and withdraw the request."""
        asked, self._reload = self._reload, False
        return asked

    def wait(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for a wake-up and return whether there was one.

        A wake-up before the call ends the wait at once. Several wake-ups count as one.
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
        """Whether the daemon was asked to end and must not start anything new."""
        return self._deadline is not None

    @property
    def overdue(self) -> bool:
        """Whether the grace period of the step in progress is over."""
        return self._deadline is not None and self._clock.monotonic() > self._deadline

    def check(self) -> None:
        """Raise ``ShutdownError`` if the daemon was asked to end."""
        if self.stopping:
            raise ShutdownError("this process was asked to end")


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C inside the block, unless they are ignored, as by ``nohup``."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [
        number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN
    ]
    previous = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def obey_signals(control: Control, *, hangup: Callable[[], None] | None = None) -> None:
    """Let SIGTERM and SIGINT stop a daemon; let SIGHUP call ``hangup``, which by default starts its next cycle."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: control.stop())
    signal.signal(signal.SIGHUP, lambda *_: (hangup or control.wake)())
