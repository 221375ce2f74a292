from unittest import mock

import pytest
from structlog.testing import capture_logs

from support.metrics import read_metrics
from zkdeployment.adapters.clock import SystemClock
from zkdeployment.adapters.metrics_file import MetricsFile
from zkdeployment.adapters.systemd import SystemdNotifier
from zkdeployment.daemons.control import Control
from zkdeployment.daemons.syncer.follower import Follower
from zkdeployment.daemons.telemetry.probe import Probe
from zkdeployment.errors import UnreachableError
from zkdeployment.model.connection_status import ConnectionStatus


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


def follow(control, syncer, store, metrics=None, **connect):
    """Run a follower until the control ends it."""
    Follower(
        syncer,
        store,
        control,
        connect=mock.Mock(**connect),
        notifier=SystemdNotifier({}),
        probe=Probe(MetricsFile(metrics), SystemClock(), ConnectionStatus, "1.2.3"),
    ).run(0.001)


def test_an_unexpected_error_is_reported_and_tried_again_ever_later(tmp_path):
    syncer, store, control = mock.Mock(fetched=None), mock.Mock(), Waits(7)
    store.request.return_value = None
    syncer.sync.side_effect = TypeError("no len() of a float")
    with capture_logs() as logs:
        follow(control, syncer, store, tmp_path / "syncer.prom")
    expected = "unexpected TypeError: no len() of a float; see the log"
    ((event, reason, defect),) = [(entry["event"], entry["reason"], entry["exc_info"]) for entry in logs]
    assert (event, reason) == ("sync-failed", expected)
    assert isinstance(defect, TypeError)
    assert store.report.call_args_list == [mock.call(expected, 0.001, None)] * 7
    expected_waits = [2, 4, 8, 16, 32, 60, 60]
    assert control.waits == [pytest.approx(seconds, rel=0.1) for seconds in expected_waits]
    looks = read_metrics((tmp_path / "syncer.prom").read_text())["syncer_looks_total"]
    assert looks["sync-failed",] == 7


def test_an_operator_learns_of_an_unexpected_error():
    syncer, store = mock.Mock(fetched=None), mock.Mock()
    syncer.sync.side_effect = KeyError("x")
    follow(Waits(1), syncer, store)
    ((request, answer),) = [call.args for call in store.answer.call_args_list]
    assert request is store.request.return_value
    assert answer == "unexpected KeyError: 'x'; see the log"


def test_a_report_that_fails_unexpectedly_ends_nothing():
    syncer, store, control = mock.Mock(fetched=None), mock.Mock(), Waits(2)
    syncer.sync.side_effect = KeyError("x")
    store.report.side_effect = ValueError("y")
    follow(control, syncer, store)
    assert len(control.waits) == 2


def test_syncers_of_one_interval_do_not_keep_looking_at_the_same_moment():
    control = Waits(50)
    follower = Follower(
        mock.Mock(fetched=None),
        mock.Mock(),
        control,
        connect=mock.Mock(side_effect=UnreachableError("no server")),
        notifier=SystemdNotifier({}),
        probe=Probe(MetricsFile(None), SystemClock(), ConnectionStatus, "1.2.3"),
    )
    follower.run(60)
    assert all(54 <= wait <= 66 for wait in control.waits)
    assert len(set(control.waits)) > 40
