"""The loop of a daemon: its work between two cycles."""

from __future__ import annotations

from zkdeployment.base.daemon.cycles import run_cycles

PACE = 10.0


class Daemon:
    """A daemon in a time that passes only in waits; its second cycle ends it."""

    stopping = False
    pace = PACE

    def __init__(self, pause: float) -> None:
        self.now = 0.0
        self.events: list[tuple[str, float]] = []
        self._pause = pause

    def run_cycle(self) -> float:
        self.stopping = any(event == "cycle" for event, _ in self.events)
        self.events.append(("cycle", self.now))
        return 0.0 if self.stopping else self._pause

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def watchdog(self) -> None:
        self.events.append(("watchdog", self.now))


def events(pause: float, least: float) -> list[tuple[str, float]]:
    daemon = Daemon(pause)
    run_cycles(daemon.run_cycle, daemon, daemon, daemon, least=lambda: least)  # type: ignore[arg-type]
    return daemon.events


def test_the_next_cycle_comes_after_the_pause():
    assert events(3.0, 0.0) == [("cycle", 0.0), ("watchdog", 0.0), ("cycle", 3.0), ("watchdog", 3.0)]


def test_the_watchdog_is_served_while_a_daemon_waits_long_after_a_failure():
    begun = [("cycle", 0.0), ("watchdog", 0.0)]
    waited = [("watchdog", 13.0), ("watchdog", 23.0), ("watchdog", 25.0)]
    assert events(3.0, 25.0) == [*begun, *waited, ("cycle", 25.0), ("watchdog", 25.0)]


def test_a_pause_is_not_longer_than_the_watchdog_allows():
    assert events(60.0, 0.0)[2] == ("cycle", PACE)
