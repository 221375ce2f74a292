from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

import pytest
from structlog.testing import capture_logs

from support.metrics import read_metrics
from zkdeployment.base.daemon.connection_status import ConnectionStatus
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.daemon.metrics import MetricsFile, Probe
from zkdeployment.base.errors import UnreachableError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.publishing.daemon.follower import Follower
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.records import PublicationRequest
from zkdeployment.publishing.store.requests import asking, read_report, read_request
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.publishing import Publishing

INTERVAL = 0.001


class RecordingControl(Control):
    """A control that records each wait instead of waiting, and stops the daemon after ``limit`` waits."""

    def __init__(self, limit: int) -> None:
        super().__init__(SystemClock())
        self.waits: list[float] = []
        self._limit = limit

    def wait(self, timeout: float) -> bool:
        self.waits.append(timeout)
        if len(self.waits) == self._limit:
            self.stop()
        return False


@pytest.fixture
def session(zookeeper: str) -> Iterator[Session]:
    with Session(zookeeper) as session:
        yield session


def follow(
    publishing: Publishing,
    store: ZooKeeperPublications,
    control: Control,
    *,
    defect: Exception | None = None,
    connect: Callable[[], None] = lambda: None,
    metrics: Path | None = None,
    interval: float = INTERVAL,
) -> None:
    """Run a follower until the control stops it; each cycle of its syncer raises ``defect``."""
    syncer = Syncer(publishing.source(), store, SystemClock(), publishing.memory())
    probe = Probe(MetricsFile(metrics), SystemClock(), ConnectionStatus, "1.2.3")
    follower = Follower(syncer, store, control, connect=connect, notifier=SystemdNotifier({}), probe=probe)
    with mock.patch.object(syncer, "sync", side_effect=defect):
        follower.run(interval)


def test_an_unexpected_error_is_reported_and_retried_with_growing_pauses(publishing, session, tmp_path):
    control = RecordingControl(7)
    with capture_logs() as logs:
        follow(
            publishing,
            ZooKeeperPublications(session),
            control,
            defect=TypeError("no len() of a float"),
            metrics=tmp_path / "syncer.prom",
        )
    expected = "unexpected TypeError: no len() of a float; see the log"
    ((event, reason, defect),) = [(entry["event"], entry["reason"], entry["exc_info"]) for entry in logs]
    assert (event, reason) == ("sync-failed", expected)
    assert isinstance(defect, TypeError)
    report = read_report(session)
    assert report is not None
    assert (report.last_message, report.interval, report.fetched) == (expected, INTERVAL, None)
    assert control.waits == [pytest.approx(seconds, rel=0.1) for seconds in [2, 4, 8, 16, 32, 60, 60]]
    cycles = read_metrics((tmp_path / "syncer.prom").read_text())["syncer_looks_total"]
    assert cycles["sync-failed",] == 7


def test_an_unexpected_error_answers_the_request_of_an_operator(publishing, session):
    session.ensure("/zkdeployment")
    session.commit(asking(session, PublicationRequest("id1", "me", "a fix", 0.0)))
    follow(publishing, ZooKeeperPublications(session), RecordingControl(1), defect=KeyError("x"))
    request = read_request(session)
    assert request is not None
    assert (request.id, request.error) == ("id1", "unexpected KeyError: 'x'; see the log")


def test_a_report_that_fails_unexpectedly_does_not_end_the_follower(publishing, session):
    store, control = ZooKeeperPublications(session), RecordingControl(2)
    with mock.patch.object(store, "report", side_effect=ValueError("y")):
        follow(publishing, store, control, defect=KeyError("x"))
    assert len(control.waits) == 2


def test_pauses_are_jittered(publishing):
    session, control = Session("127.0.0.1:1", call_timeout=0.01), RecordingControl(50)
    defect = mock.Mock(side_effect=UnreachableError("no server"))
    follow(publishing, ZooKeeperPublications(session), control, connect=defect, interval=60)
    assert all(54 <= wait <= 66 for wait in control.waits)
    assert len(set(control.waits)) > 40
