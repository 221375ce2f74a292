"""The metrics of a syncer: the repository, the last publication, and the facts about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.base.daemon.metrics import Metric, MetricKind, gauge, info, labelled, process_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.daemon.metrics import DaemonProcess, Probe
    from zkdeployment.publishing.daemon.syncer import SyncReport


@dataclass(frozen=True, slots=True, kw_only=True)
class LastPublication:
    """The last publication: its end in seconds since the epoch, its duration in seconds, and the changed nodes.

    The duration includes the time to read the repository.
    """

    time: float
    seconds: float
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncerFacts:
    """The facts behind the metrics of a syncer that follows a branch.

    ``interval`` is the number of seconds between two cycles, ``looks`` counts the cycles by outcome. ``fetched``
    is when the repository was last read, ``waiting`` is when the branch got a revision other than ``published``;
    both are in seconds since the epoch.
    """

    process: DaemonProcess
    interval: float
    looks: Mapping[str, int]
    fetched: float | None = None
    published: Revision | None = None
    waiting: float | None = None
    last: LastPublication | None = None


def syncer_metrics(facts: SyncerFacts) -> tuple[Metric, ...]:
    """Return a syncer's metrics, ``zkdeployment_syncer_…``."""
    time, seconds, nodes = None, None, None
    if facts.last is not None:
        time, seconds, nodes = facts.last.time, facts.last.seconds, facts.last.nodes
    return (
        *process_metrics("syncer", facts.process),
        gauge("syncer_interval_seconds", "Seconds between two reads of the tree's repository.", facts.interval),
        gauge("syncer_fetched_timestamp_seconds", "When the repository was last read.", facts.fetched),
        labelled(
            "syncer_looks_total",
            "Cycles of this process, by outcome.",
            "result",
            facts.looks,
            MetricKind.COUNTER,
        ),
        info("syncer_revision_info", "The published revision, as the label.", facts.published),
        gauge(
            "syncer_unpublished_since_timestamp_seconds",
            "When the syncer first found an unpublished revision on the branch; no sample without one.",
            facts.waiting,
        ),
        gauge("syncer_last_publication_timestamp_seconds", "When the syncer last published.", time),
        gauge(
            "syncer_last_publication_duration_seconds",
            "The duration of the last publication, from the read of the repository on.",
            seconds,
        ),
        gauge("syncer_last_publication_nodes", "Nodes of the tree that the last publication changed.", nodes),
    )


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
