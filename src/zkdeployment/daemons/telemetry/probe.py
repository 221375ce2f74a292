"""The facts about a daemon's process that all daemons' metrics share, and the place where metrics are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.metrics.metric import DaemonProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.adapters.metrics_file import MetricsFile
    from zkdeployment.model.connection_status import ConnectionStatus
    from zkdeployment.ports.process import Clock


#: The least seconds between two writes of metrics during an operation.
PACE = 10.0


class Probe:
    """Reads the facts about this process.

    ``version`` is the version of the program, ``link`` returns the status of the connection to ZooKeeper.
    """

    def __init__(
        self, file: MetricsFile, clock: Clock, link: Callable[[], ConnectionStatus], version: str
    ) -> None:
        self._link = link
        self._version = version
        self._started = clock.now()
        self.file = file
        self.clock = clock

    def process(self, *, up: bool) -> DaemonProcess:
        """Return the facts about the process now."""
        return DaemonProcess(self._version, self._started, self.clock.now(), up, self._link())
