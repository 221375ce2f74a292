"""The queue of pokes for one monitoring system, with a thread of its own: a dead system delays no other."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zkdeployment.adapters.pokes import HttpPokeSender
    from zkdeployment.checks.poke import Poke

#: Seconds before each retry of a poke. After the last retry the poke waits for the next turn of the life cycle.
RETRY_DELAYS = (1.0, 2.0, 4.0, 8.0)


class PokeQueue:
    """Sends the offered pokes one after the other.

    ``delivered`` is called in the queue's thread with each poke that the system accepted; it must not raise.
    """

    def __init__(self, system: str, sender: HttpPokeSender, delivered: Callable[[Poke], None]) -> None:
        self._system = system
        self._sender = sender
        self._delivered = delivered
        self._changed = threading.Condition()
        self._waiting: deque[Poke] = deque()
        self._instances: set[str] = set()
        self._closed = False
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="check-pokes", daemon=True)
        self._thread.start()

    def __contains__(self, instance: str) -> bool:
        with self._changed:
            return instance in self._instances

    def __len__(self) -> int:
        with self._changed:
            return len(self._instances)

    def offer(self, pokes: Iterable[Poke]) -> None:
        """Add pokes; an instance that is in the queue is poked only once."""
        with self._changed:
            for poke in pokes:
                if poke.instance not in self._instances:
                    self._instances.add(poke.instance)
                    self._waiting.append(poke)
            self._changed.notify()

    def close(self) -> None:
        """Drop all pokes and end the thread after the request in progress."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._instances.clear()
            self._changed.notify()

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread, but not longer than ``timeout`` seconds."""
        self._thread.join(timeout)

    def _run(self) -> None:
        while (poke := self._next()) is not None:
            if self._deliver(poke):
                self._delivered(poke)
            with self._changed:
                # If the flag is set by now, the next turn offers the instance again.
                self._instances.discard(poke.instance)

    def _next(self) -> Poke | None:
        """Wait for the next poke; ``None`` at the end."""
        with self._changed:
            while not self._closed and not self._waiting:
                self._changed.wait()
            return None if self._closed else self._waiting.popleft()

    def _deliver(self, poke: Poke) -> bool:
        """Send a poke, with the retries; return whether the system accepted it."""
        problem = self._sender.send(poke.callback, poke.instance)
        for delay in RETRY_DELAYS:
            if problem is None or not self._pause(delay):
                break
            problem = self._sender.send(poke.callback, poke.instance)
        log = get_logger().bind(monitoring=self._system)
        if problem is not None and not self._failing:
            log.warning("check-poke-failed", reason=problem)
        elif problem is None and self._failing:
            log.info("check-poke-recovered")
        self._failing = problem is not None
        return problem is None

    def _pause(self, seconds: float) -> bool:
        """Wait before a retry; return whether the queue is still open."""
        with self._changed:
            return not self._changed.wait_for(lambda: self._closed, seconds)
