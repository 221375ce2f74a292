"""Collects the facts for a syncer's metrics. Their names and descriptions belong to ``fleet.metrics``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.metrics.syncer import LastPublication, SyncerFacts, syncer_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.daemons.syncer.syncer import SyncReport
    from zkdeployment.daemons.telemetry.probe import Probe
    from zkdeployment.model.cluster import Revision


#: The results of a syncer's cycle that did not fail.
_PUBLISHED, _UNCHANGED = "published", "unchanged"


class SyncerTelemetry:
    """Records the cycles of a syncer that follows a branch; ``failures`` names the results of failed cycles."""

    def __init__(self, probe: Probe, failures: Iterable[str]) -> None:
        self._probe = probe
        self._looks = dict.fromkeys((_PUBLISHED, _UNCHANGED, *failures), 0)
        self._begun = 0.0
        self._fetched: float | None = None
        self._published: Revision | None = None
        self._waiting: float | None = None
        self._last: LastPublication | None = None

    def begin(self) -> None:
        """Record the start of a cycle."""
        self._begun = self._probe.clock.monotonic()

    def succeed(self, report: SyncReport, fetched: float | None) -> None:
        """Record a cycle after which the branch's tip is published."""
        self._fetched, self._published, self._waiting = fetched, report.revision, None
        if report.draft is None:
            self._looks[_UNCHANGED] += 1
            return
        self._looks[_PUBLISHED] += 1
        clock, change = self._probe.clock, report.draft.change
        nodes = len(change.create) + len(change.update) + len(change.delete)
        self._last = LastPublication(time=clock.now(), seconds=clock.monotonic() - self._begun, nodes=nodes)

    def fail(self, failure: str, fetched: float | None) -> None:
        """Record a failed cycle; a commit that was fetched in it has been waiting to be published since then."""
        if fetched != self._fetched and self._waiting is None:
            self._waiting = fetched
        self._fetched = fetched
        self._looks[failure] += 1

    def write(self, interval: float, *, up: bool = True) -> None:
        """Write all metrics; ``up``: whether the syncer continues."""
        facts = SyncerFacts(
            process=self._probe.process(up=up),
            interval=interval,
            looks=self._looks,
            fetched=self._fetched,
            published=self._published,
            waiting=self._waiting,
            last=self._last,
        )
        self._probe.file.write(syncer_metrics(facts))
