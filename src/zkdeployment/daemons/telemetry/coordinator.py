"""Collects the facts for a coordinator's metrics. Their names and descriptions belong to ``fleet.metrics``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.metrics.coordinator import CoordinatorFacts, coordinator_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.rollout.state import RolloutState

from zkdeployment.daemons.telemetry.probe import PACE, Probe

#: The results of a coordinator's cycle that did not fail.
_LED, _QUEUED = "led", "queued"


class CoordinatorTelemetry:
    """Records the cycles of one coordinator; ``failures`` names the results of failed cycles."""

    def __init__(self, probe: Probe, failures: Iterable[str]) -> None:
        self._probe = probe
        self._looks = dict.fromkeys((_LED, _QUEUED, *failures), 0)
        self._leads = False
        self._running: RolloutState | None = None
        self._due = 0.0

    def lead(self, state: RolloutState | None) -> None:
        """Record a cycle in which this coordinator leads, with the newest rollout if there is one."""
        self._leads, self._running = True, state
        self._looks[_LED] += 1

    def show(self, state: RolloutState) -> None:
        """Record the new state of the newest rollout."""
        self._running = state

    def queue(self) -> None:
        """Record a cycle in which another coordinator leads."""
        self._leads, self._running = False, None
        self._looks[_QUEUED] += 1

    def fail(self, failure: str, *, leads: bool) -> None:
        """Record a failed cycle; ``leads``: whether this coordinator leads nevertheless."""
        self._leads = leads
        self._running = self._running if leads else None
        self._looks[failure] += 1

    def beat(self) -> None:
        """Write all metrics unless they were written within the last ``PACE`` seconds."""
        if self._probe.clock.monotonic() >= self._due:
            self.write()

    def write(self, *, up: bool = True) -> None:
        """Write all metrics; ``up``: whether the coordinator continues."""
        self._due = self._probe.clock.monotonic() + PACE
        process = self._probe.process(up=up)
        facts = CoordinatorFacts(
            process=process, leads=self._leads and up, looks=self._looks, rollout=self._running if up else None
        )
        self._probe.file.write(coordinator_metrics(facts))
