"""The metrics of a syncer: the state of the repository and of the last publication."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.fleet.metrics.metric import Metric, MetricKind, gauge, info, labelled, process_metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.fleet.metrics.metric import DaemonProcess
    from zkdeployment.model.cluster import Revision


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
    is when the repository was last read, ``waiting`` since when the branch has had a revision other than
    ``published``; both are in seconds since the epoch.
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
