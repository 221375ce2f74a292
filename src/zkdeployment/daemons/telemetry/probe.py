"""What the metrics of all daemons share: facts of the process, and where metrics are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.metrics.metric import DaemonProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.model.connection_status import ConnectionStatus
    from zkdeployment.ports.process import Clock, MetricsSink


#: Seconds between two writes of metrics while something is under way.
PACE = 10.0


class Probe:
    """What a daemon of any kind tells of its process, and where it tells it.

    ``version`` is that of the program, ``link`` tells of the connection to ZooKeeper.
    """

    def __init__(
        self, file: MetricsSink, clock: Clock, link: Callable[[], ConnectionStatus], version: str
    ) -> None:
        self._link = link
        self._version = version
        self._started = clock.now()
        self.file = file
        self.clock = clock

    def process(self, *, up: bool) -> DaemonProcess:
        """Return what is true of the process now."""
        return DaemonProcess(self._version, self._started, self.clock.now(), up, self._link())
