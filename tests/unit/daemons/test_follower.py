from unittest import mock

from zkdeployment.adapters.clock import SystemClock
from zkdeployment.adapters.metrics_file import MetricsFile
from zkdeployment.adapters.systemd import Notifier
from zkdeployment.daemons.control import Control
from zkdeployment.daemons.follower import Follower
from zkdeployment.daemons.telemetry import Probe
from zkdeployment.errors import UnreachableError
from zkdeployment.model.link import Link


class Waits(Control):
    """Notes for how long it was to wait, and asks to end after so many times."""

    def __init__(self, number: int) -> None:
        super().__init__(SystemClock())
        self.waits: list[float] = []
        self._number = number

    def wait(self, timeout: float) -> bool:
        self.waits.append(timeout)
        if len(self.waits) == self._number:
            self.stop()
        return False


def test_syncers_of_one_interval_do_not_keep_looking_at_the_same_moment():
    control = Waits(50)
    follower = Follower(
        mock.Mock(fetched=None),
        mock.Mock(),
        control,
        connect=mock.Mock(side_effect=UnreachableError("no server")),
        notifier=Notifier({}),
        probe=Probe(MetricsFile(None), SystemClock(), Link, "1.2.3"),
    )
    follower.run(60)
    assert all(54 <= wait <= 66 for wait in control.waits)
    assert len(set(control.waits)) > 40
