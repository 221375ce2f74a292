"""The pokes of monitoring systems with a callback: a queue and a thread for each, and the requests."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from zkdeployment.base.errors import error_message
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.http import HttpClient, HttpError
from zkdeployment.checks.rules.monitoring_system import Poke
from zkdeployment.checks.rules.workflow import POKE_AGAIN_AFTER, is_poke_due, poke_succeeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.checks.rules.instance import CheckInstance
    from zkdeployment.checks.store.instances import ZooKeeperCheckInstances
    from zkdeployment.checks.store.systems import ZooKeeperMonitoringSystems


#: Seconds for a whole request.
_LIMIT = 5.0

#: The path below the service's root where a poked system fetches an instance.
_PATH = "/deployments/id"


class HttpPokeSender:
    """Requests without redirects, from any thread; only the status of an answer counts."""

    def __init__(self) -> None:
        self._http = HttpClient()

    def send(self, callback: str, instance: str) -> str | None:
        """Notify a monitoring system of an update of an instance, within a few seconds; never raises.

        Returns ``None`` if the system accepted the poke, otherwise the reason of the failure, without the URL.
        """
        body = json.dumps({"uuid": instance, "path": _PATH}).encode("ascii")
        headers = {"Content-Type": "application/json"}
        try:
            answer = self._http.request("POST", callback, timeout=_LIMIT, most=0, body=body, headers=headers)
        except HttpError as error:
            return f"it cannot be reached: {error}"
        return answer.problem or None


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
                # If the flag was set again, the next turn offers the instance again.
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


#: The limit of pokes in the queue of a system; further pokes follow in later turns.
_MOST_WAITING = 2000

#: Seconds for the requests in progress at the end.
_CLOSING = 2.0


class CheckPokes:
    """Pokes the monitoring systems while this coordinator leads."""

    def __init__(
        self,
        instances: ZooKeeperCheckInstances,
        systems: ZooKeeperMonitoringSystems,
        sender: HttpPokeSender,
        clock: Clock,
    ) -> None:
        self._instances = instances
        self._systems = systems
        self._sender = sender
        self._clock = clock
        self._callbacks: dict[str, str | None] | None = None
        self._queues: dict[str, PokeQueue] = {}
        #: The time at which an instance was first found waiting without a flag, or last read; by system and
        #: instance.
        self._seen: dict[str, dict[str, float]] = {}

    def run(self, callbacks: Mapping[str, str | None]) -> None:
        """Queue the pokes that are due; ``callbacks`` are those of the published monitoring systems.

        A system whose document was removed keeps its callback, so that it is notified of undeployments.
        """
        if self._callbacks is None:
            self._callbacks = dict(self._systems.callbacks())
        for system, callback in callbacks.items():
            if system not in self._callbacks or self._callbacks[system] != callback:
                self._systems.set_callback(system, callback)
                self._callbacks[system] = callback
        for system, known in self._callbacks.items():
            if known is not None:
                self._poke(system, known)

    @property
    def waiting(self) -> int:
        """The number of instances that are to be poked, or are just poked."""
        return sum(len(queue) for queue in self._queues.values())

    def close(self) -> None:
        """Drop all pokes, and forget all times."""
        queues, self._queues = self._queues, {}
        for closing in queues.values():
            closing.close()
        deadline = time.monotonic() + _CLOSING
        for closing in queues.values():
            closing.join(max(0.0, deadline - time.monotonic()))
        self._callbacks = None
        self._seen.clear()

    def _poke(self, system: str, callback: str) -> None:
        flagged = self._instances.flagged(system)
        overdue = self._overdue(system, frozenset(self._instances.open(system)).difference(flagged))
        queue = self._queues.get(system)
        room = _MOST_WAITING - (0 if queue is None else len(queue))
        wanted = [found for found in (*flagged, *overdue) if queue is None or found not in queue][:room]
        if not wanted:
            return
        if queue is None:
            queue = self._queues[system] = PokeQueue(system, self._sender, self._note_delivery)
        queue.offer(self._due(system, callback, wanted))

    def _due(self, system: str, callback: str, instances: list[str]) -> Iterator[Poke]:
        now = self._clock.now()
        for instance in self._instances.find(instances).values():
            if instance.system == system and is_poke_due(instance, now):
                yield Poke(instance.id, callback, instance.flag)

    def _overdue(self, system: str, waiting: frozenset[str]) -> list[str]:
        """Return the instances that have waited so long that they have to be read again."""
        now, seen = self._clock.now(), self._seen.get(system, {})
        self._seen[system] = {instance: seen.get(instance, now) for instance in waiting}
        overdue = [found for found, since in self._seen[system].items() if abs(now - since) >= POKE_AGAIN_AFTER]
        self._seen[system] |= dict.fromkeys(overdue, now)
        return overdue

    def _note_delivery(self, poke: Poke) -> None:
        """Clear the flag for which a poke was sent; if that fails, the instance is poked again."""

        def change(_: str, instance: CheckInstance | None) -> CheckInstance | None:
            return instance if instance is None else poke_succeeded(instance, poke.flag, self._clock.now())

        try:
            self._instances.change([poke.instance], change)
        except Exception as error:  # noqa: BLE001  the queue continues after every failure
            get_logger().warning("check-flag-not-cleared", instance=poke.instance, reason=error_message(error))
