"""The pokes of all monitoring systems with a callback: which instances, and a queue for each system."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zkdeployment.checks.life_cycle import POKE_AGAIN_AFTER, is_poke_due, poke_succeeded
from zkdeployment.checks.poke import Poke
from zkdeployment.daemons.checks.poke_queue import PokeQueue
from zkdeployment.errors import error_message
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.adapters.pokes import HttpPokeSender
    from zkdeployment.adapters.zookeeper.checks.instances import ZooKeeperCheckInstances
    from zkdeployment.adapters.zookeeper.checks.systems import ZooKeeperMonitoringSystems
    from zkdeployment.checks.instance import CheckInstance
    from zkdeployment.ports.process import Clock

#: Pokes that wait in the queue of a system; further ones follow in later turns.
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
        #: When an instance was first seen to wait without a flag, or was last read; by system and instance.
        self._seen: dict[str, dict[str, float]] = {}

    def run(self, callbacks: Mapping[str, str | None]) -> None:
        """Queue the pokes that are due; ``callbacks`` are those of the published monitoring systems.

        A system whose document is gone keeps its callback, so that it hears of what is to be undeployed.
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
        """Drop all pokes, and forget what was read."""
        queues, self._queues = self._queues, {}
        for queue in queues.values():
            queue.close()
        deadline = time.monotonic() + _CLOSING
        for queue in queues.values():
            queue.join(max(0.0, deadline - time.monotonic()))
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
        """Return the instances that have waited for so long that they are to be read again."""
        now, seen = self._clock.now(), self._seen.get(system, {})
        self._seen[system] = {instance: seen.get(instance, now) for instance in waiting}
        overdue = [found for found, since in self._seen[system].items() if abs(now - since) >= POKE_AGAIN_AFTER]
        self._seen[system] |= dict.fromkeys(overdue, now)
        return overdue

    def _note_delivery(self, poke: Poke) -> None:
        """Clear the flag that a poke was sent for; if that fails, the instance is poked again."""

        def change(_: str, instance: CheckInstance | None) -> CheckInstance | None:
            return instance if instance is None else poke_succeeded(instance, poke.flag, self._clock.now())

        try:
            self._instances.change([poke.instance], change)
        except Exception as error:  # noqa: BLE001  the queue goes on, whatever fails here
            get_logger().warning("check-flag-not-cleared", instance=poke.instance, reason=error_message(error))
