"""The metrics of a syncer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.metrics.syncer import LastPublication, SyncerFacts, syncer_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.daemons.syncer.syncer import SyncReport
    from zkdeployment.daemons.telemetry.probe import Probe
    from zkdeployment.model.cluster import Revision


#: What a look at the repository comes to unless it fails.
_PUBLISHED, _UNCHANGED = "published", "unchanged"


class SyncerTelemetry:
    """What the metrics of a syncer that follows a branch are about; ``failures`` is what a look may come to."""

    def __init__(self, probe: Probe, failures: Iterable[str]) -> None:
        self._probe = probe
        self._looks = dict.fromkeys((_PUBLISHED, _UNCHANGED, *failures), 0)
        self._begun = 0.0
        self._fetched: float | None = None
        self._published: Revision | None = None
        self._waiting: float | None = None
        self._last: LastPublication | None = None

    def begin(self) -> None:
        """Note that a look at the repository begins."""
        self._begun = self._probe.clock.monotonic()

    def succeed(self, report: SyncReport, fetched: float | None) -> None:
        """Note that the branch's tip is published now."""
        self._fetched, self._published, self._waiting = fetched, report.revision, None
        if report.draft is None:
            self._looks[_UNCHANGED] += 1
            return
        self._looks[_PUBLISHED] += 1
        clock, change = self._probe.clock, report.draft.change
        nodes = len(change.create) + len(change.update) + len(change.delete)
        self._last = LastPublication(time=clock.now(), seconds=clock.monotonic() - self._begun, nodes=nodes)

    def fail(self, failure: str, fetched: float | None) -> None:
        """Note a look that came to nothing; if the repository could be read then, something waits in it."""
        if fetched != self._fetched and self._waiting is None:
            self._waiting = fetched
        self._fetched = fetched
        self._looks[failure] += 1

    def write(self, interval: float, *, up: bool = True) -> None:
        """Write all metrics; ``up`` says whether the syncer goes on."""
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
