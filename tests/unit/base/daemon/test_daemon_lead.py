"""The lead among several daemons of one kind."""

from __future__ import annotations

from structlog.testing import capture_logs

from zkdeployment.base.daemon.cycles import DaemonLead


class Supervisor:
    """Keeps the status that a daemon shows."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def status(self, text: str) -> None:
        self.shown.append(text)


def test_the_lead_is_logged_once_and_a_queued_daemon_shows_that_another_one_leads():
    answers, supervisor = iter([False, True, True, False, True]), Supervisor()
    lead = DaemonLead(lambda _: next(answers), supervisor, otherwise="another filter leads")  # type: ignore[arg-type]
    with capture_logs() as logs:
        assert [lead.acquire() for _ in range(5)] == [False, True, True, False, True]
    assert [line["event"] for line in logs] == ["lead-acquired", "lead-acquired"]
    assert supervisor.shown == ["another filter leads", "another filter leads"]


def test_a_daemon_that_lost_the_lead_logs_that_it_leads_again():
    lead = DaemonLead(lambda _: True, Supervisor(), otherwise="another filter leads")  # type: ignore[arg-type]
    with capture_logs() as logs:
        lead.acquire()
        lead.lose()
        assert not lead.held
        lead.acquire()
    assert len(logs) == 2
