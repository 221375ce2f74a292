"""Records the steps that hosts show while they deploy; each service has its own record, in memory."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.errors import UnreachableError
from zkdeployment.fleet.traces.spans import StepTime

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.base.host import Host
    from zkdeployment.fleet.feed.feed import ZooKeeperFeed
    from zkdeployment.fleet.feed.fleet_assembly import FleetReading

#: The publications whose steps are kept, the steps of a host, and the steps of all hosts of a publication.
_PUBLICATIONS = 5
_STEPS_OF_A_HOST = 200
_STEPS = 100_000


class StepRecorder:
    """Follows ``feed`` and keeps the steps of hosts, with the times at which ZooKeeper got them.

    A step that is shorter than a reading of the fleet may be missing.
    """

    def __init__(self, feed: ZooKeeperFeed) -> None:
        self._feed = feed
        self._lock = threading.Lock()
        self._steps: dict[int, dict[str, list[StepTime]]] = {}
        self._counts: Counter[int] = Counter()
        self._number = -1

    def start(self) -> None:
        """Begin to record."""
        self._feed.subscribe(self.record)

    def close(self) -> None:
        """Do nothing: the feed ends the subscription when it closes."""

    def record(self) -> None:
        """Record the steps of the present reading; does not wait."""
        try:
            reading = self._feed.snapshot().reading
        except UnreachableError:
            return  # the feed closes before its first reading
        with self._lock:
            if reading.number == self._number:
                return
            self._number = reading.number
            self._record(reading)

    def steps(self, sequence: int) -> Mapping[str, tuple[StepTime, ...]]:
        """Return the recorded steps of a publication by host id, at least one for each host."""
        with self._lock:
            return {host: tuple(steps) for host, steps in self._steps.get(sequence, {}).items()}

    def _record(self, reading: FleetReading) -> None:
        sequence = reading.fleet.since
        hosts = self._steps.get(sequence, {})
        for host in reading.fleet.hosts:
            known = hosts.get(host.identity.id)
            if known is not None or host.step is not None:
                self._add(sequence, host)
        for old in sorted(self._steps)[:-_PUBLICATIONS]:
            del self._steps[old], self._counts[old]

    def _add(self, sequence: int, host: Host) -> None:
        """Note the step of a host if it differs from the last one."""
        hosts = self._steps.setdefault(sequence, {})
        steps = hosts.get(host.identity.id, [])
        last = steps[-1] if steps else None
        step = host.step if host.deploying is not None else None
        time = host.since or 0.0
        if last is not None and last.ended is None:
            if last.step == step:
                return
            steps[-1] = replace(last, ended=max(time, last.begun))
        is_full = len(steps) >= _STEPS_OF_A_HOST or self._counts[sequence] >= _STEPS
        if step is not None and not is_full:
            hosts[host.identity.id] = [*steps, StepTime(step, time)]
            self._counts[sequence] += 1
