"""The metrics of a coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.metrics.coordinator import CoordinatorFacts, coordinator_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.rollout.state import RolloutState

from zkdeployment.daemons.telemetry.probe import PACE, Probe

#: What a coordinator's look comes to unless it fails.
_LED, _QUEUED = "led", "queued"


class CoordinatorTelemetry:
    """What a coordinator's metrics are about; ``failures`` is what a look may come to."""

    def __init__(self, probe: Probe, failures: Iterable[str]) -> None:
        self._probe = probe
        self._looks = dict.fromkeys((_LED, _QUEUED, *failures), 0)
        self._leads = False
        self._running: RolloutState | None = None
        self._due = 0.0

    def lead(self, running: RolloutState | None) -> None:
        """Note a look of the one that leads, and the newest rollout, if there is one to lead."""
        self._leads, self._running = True, running
        self._looks[_LED] += 1

    def show(self, running: RolloutState) -> None:
        """Note what became of the newest rollout."""
        self._running = running

    def queue(self) -> None:
        """Note that another coordinator leads."""
        self._leads, self._running = False, None
        self._looks[_QUEUED] += 1

    def fail(self, failure: str, *, leads: bool) -> None:
        """Note a look that came to nothing, and whether the lead is kept all the same."""
        self._leads = leads
        self._running = self._running if leads else None
        self._looks[failure] += 1

    def beat(self) -> None:
        """Write, unless that was done a moment ago."""
        if self._probe.clock.monotonic() >= self._due:
            self.write()

    def write(self, *, up: bool = True) -> None:
        """Write all metrics; ``up`` says whether the coordinator goes on."""
        self._due = self._probe.clock.monotonic() + PACE
        process = self._probe.process(up=up)
        facts = CoordinatorFacts(
            process=process, leads=self._leads and up, looks=self._looks, rollout=self._running if up else None
        )
        self._probe.file.write(coordinator_metrics(facts))
